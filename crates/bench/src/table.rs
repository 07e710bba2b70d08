//! A table of figures, the same on the terminal and in Markdown.

use std::fmt;
use std::time::Duration;

use super::measure::Timing;

/// A measured value.
#[derive(Clone, Copy)]
pub(super) enum Figure {
    /// How long something took, each time.
    Time(Timing),
    /// How long something took, once or in total.
    Once(Duration),
    /// How often something happened per second.
    PerSecond(f64),
    /// How often something happened.
    Count(u32),
    /// How much memory.
    Kibibytes(f64),
}

impl Figure {
    fn value(self) -> f64 {
        match self {
            Figure::Time(timing) => timing.median.as_secs_f64(),
            Figure::Once(time) => time.as_secs_f64(),
            Figure::PerSecond(rate) => rate,
            Figure::Count(count) => count.into(),
            Figure::Kibibytes(size) => size,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Time(timing) => timing.fmt(f),
            Figure::Once(time) => write!(f, "{:.2} s", time.as_secs_f64()),
            Figure::PerSecond(rate) => write!(f, "{rate:.0} /s"),
            Figure::Count(count) => count.fmt(f),
            Figure::Kibibytes(size) => write!(f, "{size:.0} KiB"),
        }
    }
}

/// What a ratio should be.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    /// No larger than this.
    AtMost(f64),
    /// No smaller than this.
    AtLeast(f64),
    /// The figure itself, not a ratio, must not exceed the one it is compared with.
    Within,
    /// Reported without a goal.
    None,
}

/// One comparison.
#[derive(Clone)]
pub(super) struct Row {
    /// What is compared with what.
    pub(super) what: String,
    /// Sexton's figure.
    pub(super) ours: Figure,
    /// The figure it is compared with.
    pub(super) theirs: Figure,
    /// What the ratio should be.
    pub(super) goal: Goal,
}

impl Row {
    fn cells(&self) -> [String; 6] {
        let ratio = self.ours.value() / self.theirs.value();
        let [ours, theirs] = [self.ours, self.theirs].map(|figure| figure.to_string());
        let verdict = |met| if met { "met" } else { "**missed**" }.to_owned();
        let (goal, verdict) = match self.goal {
            // A second digit only if it is not zero: 2.0, 1.05.
            Goal::AtMost(limit) => (format!("≤ {}×", trimmed(limit)), verdict(ratio <= limit)),
            Goal::AtLeast(limit) => (format!("≥ {}×", trimmed(limit)), verdict(ratio >= limit)),
            Goal::Within => {
                let met = verdict(self.ours.value() <= self.theirs.value());
                return [self.what.clone(), ours, String::new(), String::new(), format!("≤ {theirs}"), met];
            }
            Goal::None => (String::new(), String::new()),
        };
        [self.what.clone(), ours, theirs, format!("{ratio:.2}×"), goal, verdict]
    }
}

fn trimmed(limit: f64) -> String {
    let text = format!("{limit:.2}");
    text.strip_suffix('0').unwrap_or(&text).to_owned()
}

/// Renders the rows as a Markdown table, aligned so that it is readable unrendered.
pub(super) fn render(rows: &[Row]) -> String {
    let mut lines = vec![["what", "sexton", "against", "ratio", "goal", ""].map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(|row| row.cells().to_vec()));
    aligned(lines)
}

/// Renders lines of cells, the first of them the header, as a Markdown table.
pub(super) fn aligned(mut lines: Vec<Vec<String>>) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    lines.insert(1, widths.iter().map(|width| "-".repeat(*width)).collect());
    let cell = |(text, width): (&String, &usize)| format!(" {text:width$} |");
    lines
        .iter()
        .map(|line| format!("|{}\n", line.iter().zip(&widths).map(cell).collect::<String>()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: u64, theirs: u64, goal: Goal) -> Row {
        let time = |millis| Figure::Time(Timing::of(vec![Duration::from_millis(millis)]));
        Row { what: "a commit".into(), ours: time(ours), theirs: time(theirs), goal }
    }

    #[test]
    fn a_missed_goal_is_marked() {
        let verdict = |row: Row| row.cells()[5].clone();
        assert_eq!(verdict(row(2, 1, Goal::AtMost(2.0))), "met");
        assert_eq!(verdict(row(21, 10, Goal::AtMost(2.0))), "**missed**");
        assert_eq!(verdict(row(8, 10, Goal::AtLeast(0.8))), "met");
        assert_eq!(verdict(row(7, 10, Goal::AtLeast(0.8))), "**missed**");
        assert_eq!(verdict(row(7, 10, Goal::None)), "");
        assert_eq!(verdict(row(10, 10, Goal::Within)), "met");
        assert_eq!(verdict(row(11, 10, Goal::Within)), "**missed**");
    }

    #[test]
    fn a_table_is_aligned() {
        let rate = Row {
            what: "many writers".into(),
            ours: Figure::PerSecond(900.4),
            theirs: Figure::PerSecond(1000.0),
            goal: Goal::None,
        };
        let table = render(&[row(3, 2, Goal::AtMost(2.0)), rate]);
        let expected = "\
| what         | sexton              | against             | ratio | goal   |     |
| ------------ | ------------------- | ------------------- | ----- | ------ | --- |
| a commit     | 3.00 ms (3.00–3.00) | 2.00 ms (2.00–2.00) | 1.50× | ≤ 2.0× | met |
| many writers | 900 /s              | 1000 /s             | 0.90× |        |     |
";
        assert_eq!(table, expected);
    }
}
