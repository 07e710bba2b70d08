//! The answer to a question: a table, a picture, and both in words.

use std::time::Duration;

use super::chart::{Bar, Chart, Group};
use crate::report::wrapped;
use crate::table::aligned;

/// The answer to a question.
pub(super) struct Answer {
    /// The name of its picture's file, without the extension.
    pub(super) slug: &'static str,
    /// The question.
    pub(super) title: String,
    /// How it was measured.
    pub(super) method: String,
    /// The header, and a line per tool.
    pub(super) lines: Vec<Vec<String>>,
    /// The picture.
    pub(super) chart: Chart,
    /// Which tools are best and which are not, from the figures.
    pub(super) verdict: String,
    /// What README.md may quote of it.
    pub(super) quote: Option<String>,
}

impl Answer {
    /// Renders it as a part of the page; `pictures` is the folder of pictures, relative to the page.
    pub(super) fn render(&self, pictures: &str) -> String {
        let Answer { slug, title, .. } = self;
        let (method, verdict) = (wrapped(&self.method), wrapped(&self.verdict));
        let table = aligned(self.lines.clone());
        format!("### {title}\n\n{method}\n\n![{title}]({pictures}/{slug}.svg)\n\n{table}\n{verdict}\n")
    }
}

/// A tool's figure, or why it has none.
pub(super) type Figure = Result<f64, String>;

/// Returns a bar for a figure.
pub(super) fn bar(figure: &Figure, show: impl Fn(f64) -> String) -> Bar {
    match figure {
        Ok(value) => Bar { value: Some(*value), label: show(*value) },
        Err(why) => Bar { value: None, label: why.clone() },
    }
}

/// Returns the text of a figure.
pub(super) fn cell(figure: &Figure, show: impl Fn(f64) -> String) -> String {
    bar(figure, show).label
}

/// Returns one bar per tool.
pub(super) fn single(figures: &[(&str, Figure)], show: impl Fn(f64) -> String) -> Vec<Group> {
    let group =
        |(name, figure): &(&str, Figure)| Group { name: (*name).to_owned(), bars: vec![bar(figure, &show)] };
    figures.iter().map(group).collect()
}

/// Returns a sentence: which tool has the smallest figure, Sexton's rank, which has the largest, and which
/// have none.
pub(super) fn rank(what: &str, figures: &[(&str, Figure)], show: impl Fn(f64) -> String) -> String {
    let mut known: Vec<(&str, f64)> =
        figures.iter().filter_map(|(name, figure)| Some((*name, *figure.as_ref().ok()?))).collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (Some(first), Some(last)) = (known.first().copied(), known.last().copied()) else {
        return format!("{what}: no tool has a figure.");
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

/// Returns the other tools' figures, the best first, for use in brackets.
pub(super) fn others(figures: &[(&str, Figure)], show: impl Fn(f64) -> String) -> String {
    let mut known: Vec<(&str, f64)> = figures
        .iter()
        .filter(|(name, _)| *name != "sexton")
        .filter_map(|(name, figure)| Some((*name, *figure.as_ref().ok()?)))
        .collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    known.iter().map(|(name, value)| format!("{name} {}", show(*value))).collect::<Vec<_>>().join(", ")
}

/// Returns seconds as readable text.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 0.01 => format!("{:.2} ms", seconds * 1e3),
        _ if seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds < 10.0 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.1} s"),
    }
}

/// Returns the median of some times, in seconds.
///
/// # Panics If there are none: nothing was measured then.
pub(super) fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64()
}

/// Returns a line of a table.
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
    fn the_best_and_the_last_peer_are_named() {
        let sentence = rank("A start", &figures(), time);
        assert_eq!(
            sentence,
            "A start: best is tmux (1.00 s); Sexton is in place 2 of 3 (2.00 s, 2.0 times the best); last is pm2 \
             (8.00 s); tsp gave up."
        );
    }

    #[test]
    fn equal_figures_share_a_rank() {
        let zero = |value: f64| format!("{value:.0}");
        let sentence = rank("Left", &[("sexton", Ok(0.0)), ("a", Ok(0.0)), ("b", Ok(3.0))], zero);
        assert_eq!(sentence, "Left: best are sexton and a (0); last is b (3).");
        let sentence = rank("Left", &[("sexton", Ok(4.0)), ("a", Ok(0.0)), ("b", Ok(4.0))], zero);
        assert_eq!(
            sentence,
            "Left: best is a (0); Sexton is in place 2 of 3 (4); last are sexton and b (4)."
        );
        assert_eq!(
            rank("Left", &[("sexton", Ok(0.0)), ("a", Ok(0.0))], zero),
            "Left: best are sexton and a (0)."
        );
    }

    #[test]
    fn the_others_are_quoted_best_first() {
        assert_eq!(others(&figures(), time), "tmux 1.00 s, pm2 8.00 s");
    }

    #[test]
    fn a_part_of_the_page_has_picture_table_and_verdict() {
        let chart =
            Chart { title: String::new(), note: String::new(), series: Vec::new(), groups: Vec::new() };
        let lines = vec![line(["tool", "time"]), line(["sexton", "1 ms"])];
        let (slug, title, quote) = ("starts", "Starting".to_owned(), None);
        let answer =
            Answer { slug, title, method: "How.".into(), lines, chart, verdict: "Best.".into(), quote };
        let expected = "### Starting\n\nHow.\n\n![Starting](benchmarks/starts.svg)\n\n\
            | tool   | time |\n| ------ | ---- |\n| sexton | 1 ms |\n\nBest.\n";
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
