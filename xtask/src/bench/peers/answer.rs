//! What came of a question: a table, a picture, and what both say in words.

use std::time::Duration;

use super::chart::{Bar, Chart, Group};
use crate::bench::report::wrapped;
use crate::bench::table::aligned;

/// What came of a question.
pub(super) struct Answer {
    /// The name of its picture's file, without its ending.
    pub(super) slug: &'static str,
    /// The question.
    pub(super) title: String,
    /// How it was asked.
    pub(super) method: String,
    /// The head, and a line per tool.
    pub(super) lines: Vec<Vec<String>>,
    /// The picture.
    pub(super) chart: Chart,
    /// Who is best and who is not, from the figures.
    pub(super) verdict: String,
    /// What README.md may quote of it.
    pub(super) quote: Option<String>,
}

impl Answer {
    /// It as a part of the page, which lies in the folder that the folder of pictures is in.
    pub(super) fn render(&self, pictures: &str) -> String {
        let Answer { slug, title, .. } = self;
        let (method, verdict) = (wrapped(&self.method), wrapped(&self.verdict));
        let table = aligned(self.lines.clone());
        format!("### {title}\n\n{method}\n\n![{title}]({pictures}/{slug}.svg)\n\n{table}\n{verdict}\n")
    }
}

/// A figure that a tool has, or why it has none.
pub(super) type Figure = Result<f64, String>;

/// A bar for a figure.
pub(super) fn bar(figure: &Figure, show: impl Fn(f64) -> String) -> Bar {
    match figure {
        Ok(value) => Bar { value: Some(*value), label: show(*value) },
        Err(why) => Bar { value: None, label: why.clone() },
    }
}

/// The text of a figure.
pub(super) fn cell(figure: &Figure, show: impl Fn(f64) -> String) -> String {
    bar(figure, show).label
}

/// One bar per tool.
pub(super) fn single(figures: &[(&str, Figure)], show: impl Fn(f64) -> String) -> Vec<Group> {
    let group =
        |(name, figure): &(&str, Figure)| Group { name: (*name).to_owned(), bars: vec![bar(figure, &show)] };
    figures.iter().map(group).collect()
}

/// A sentence: who has the smallest figure, where Sexton stands, who has the largest, and who has none.
pub(super) fn rank(what: &str, figures: &[(&str, Figure)], show: impl Fn(f64) -> String) -> String {
    let mut known: Vec<(&str, f64)> =
        figures.iter().filter_map(|(name, figure)| Some((*name, *figure.as_ref().ok()?))).collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (Some(first), Some(last)) = (known.first().copied(), known.last().copied()) else {
        return format!("{what}: nobody has a figure.");
    };
    let of = |value: f64| {
        known.iter().filter(|(_, other)| *other == value).map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let best = of(first.1);
    let mut parts = vec![format!("best {} {} ({})", verb(&best), listed(&best), show(first.1))];
    if let Some((_, own)) = known.iter().find(|(name, _)| *name == "sexton")
        && !best.contains(&"sexton")
    {
        let place = 1 + known.iter().filter(|(_, value)| value < own).count();
        let times =
            if first.1 > 0.0 { format!(", {:.1} times the best", own / first.1) } else { String::new() };
        parts.push(format!("Sexton is in place {place} of {} ({}{times})", known.len(), show(*own)));
    }
    if last.1 > first.1 {
        let worst = of(last.1);
        parts.push(format!("last {} {} ({})", verb(&worst), listed(&worst), show(last.1)));
    }
    let without =
        figures.iter().filter_map(|(name, figure)| Some(format!("{name} {}", figure.as_ref().err()?)));
    parts.extend(without);
    format!("{what}: {}.", parts.join("; "))
}

fn verb(names: &[&str]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

/// The others' figures, the best first, as they stand in brackets.
pub(super) fn others(figures: &[(&str, Figure)], show: impl Fn(f64) -> String) -> String {
    let mut known: Vec<(&str, f64)> = figures
        .iter()
        .filter(|(name, _)| *name != "sexton")
        .filter_map(|(name, figure)| Some((*name, *figure.as_ref().ok()?)))
        .collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    known.iter().map(|(name, value)| format!("{name} {}", show(*value))).collect::<Vec<_>>().join(", ")
}

/// Seconds as people say them.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 0.01 => format!("{:.2} ms", seconds * 1e3),
        _ if seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds < 10.0 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.1} s"),
    }
}

/// The middle one of some times, in seconds.
///
/// # Panics
/// Where there are none: nothing was measured then, and no number could stand for that.
pub(super) fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// A line of a table.
pub(super) fn line<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Vec<(&'static str, Figure)> {
        vec![("sexton", Ok(2.0)), ("tmux", Ok(1.0)), ("pm2", Ok(8.0)), ("tsp", Err("gave up".into()))]
    }

    #[test]
    fn a_better_peer_is_named_first_and_the_loser_too() {
        let said = rank("A start", &figures(), time);
        assert_eq!(
            said,
            "A start: best is tmux (1.00 s); Sexton is in place 2 of 3 (2.00 s, 2.0 times the best); last is pm2 \
             (8.00 s); tsp gave up."
        );
    }

    #[test]
    fn those_who_are_equal_share_their_place() {
        let zero = |value: f64| format!("{value:.0}");
        let said = rank("Left", &[("sexton", Ok(0.0)), ("a", Ok(0.0)), ("b", Ok(3.0))], zero);
        assert_eq!(said, "Left: best are sexton and a (0); last is b (3).");
        let said = rank("Left", &[("sexton", Ok(4.0)), ("a", Ok(0.0)), ("b", Ok(4.0))], zero);
        assert_eq!(said, "Left: best is a (0); Sexton is in place 2 of 3 (4); last are sexton and b (4).");
        assert_eq!(
            rank("Left", &[("sexton", Ok(0.0)), ("a", Ok(0.0))], zero),
            "Left: best are sexton and a (0)."
        );
    }

    #[test]
    fn the_others_are_quoted_from_the_best_on() {
        assert_eq!(others(&figures(), time), "tmux 1.00 s, pm2 8.00 s");
    }

    #[test]
    fn a_part_of_the_page_has_picture_table_and_verdict() {
        let chart =
            Chart { title: String::new(), note: String::new(), series: Vec::new(), groups: Vec::new() };
        let lines = vec![line(["tool", "time"]), line(["sexton", "1 ms"])];
        let (slug, title, quote) = ("starts", "Starting".to_owned(), None);
        let answer =
            Answer { slug, title, method: "How.".into(), lines, chart, verdict: "Said.".into(), quote };
        let expected = "### Starting\n\nHow.\n\n![Starting](benchmarks/starts.svg)\n\n\
            | tool   | time |\n| ------ | ---- |\n| sexton | 1 ms |\n\nSaid.\n";
        assert_eq!(answer.render("benchmarks"), expected);
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!(
            [0.00234, 0.0234, 0.234, 2.34, 23.4].map(time),
            ["2.34 ms", "23.4 ms", "234 ms", "2.34 s", "23.4 s"]
        );
    }
}
