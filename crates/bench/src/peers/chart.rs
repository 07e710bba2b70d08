//! Bar charts that are readable on a light page and on a dark one.
//!
//! Text stays text. The colours follow the reader's scheme; if a viewer supports none, the background card
//! keeps everything readable.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const NAMES: f64 = 132.0;
const LABELS: f64 = 150.0;
const MARGIN: f64 = 18.0;
const HEAD: f64 = 66.0;
const BAR: f64 = 15.0;
const GAP: f64 = 11.0;

/// With a larger ratio, a short bar could not be distinguished from none.
const WIDE: f64 = 40.0;

const STYLE: &str = "\
.card{fill:#fff;stroke:#d0d7de}.ink{fill:#1f2328}.faint{fill:#59636e}.grid{stroke:#d8dee4}\
.own0{fill:#0f7b6c}.own1{fill:#38a695}.own2{fill:#7fcabd}\
.other0{fill:#6e7b8b}.other1{fill:#97a3b1}.other2{fill:#c0c9d3}\
@media(prefers-color-scheme:dark){.card{fill:#161b22;stroke:#30363d}.ink{fill:#e6edf3}.faint{fill:#9198a1}\
.grid{stroke:#30363d}.own0{fill:#2fbfa7}.own1{fill:#22907e}.own2{fill:#1a6458}\
.other0{fill:#9aa6b2}.other1{fill:#6f7b87}.other2{fill:#4b5561}}";

/// How many shades of a colour there are.
const SHADES: usize = 3;

/// One bar, or a remark if there is none.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    /// Its length.
    pub(super) value: Option<f64>,
    /// The text behind it.
    pub(super) label: String,
}

/// The bars of one tool, one per series.
pub(super) struct Group {
    /// The tool.
    pub(super) name: String,
    /// Its bars.
    pub(super) bars: Vec<Bar>,
}

/// A picture.
pub(super) struct Chart {
    /// What it shows.
    pub(super) title: String,
    /// The unit, and which direction is better.
    pub(super) note: String,
    /// What each bar of a group is; empty if there is only one.
    pub(super) series: Vec<String>,
    /// The tools.
    pub(super) groups: Vec<Group>,
}

/// How a value is converted to a length.
enum Scale {
    Linear {
        most: f64,
    },
    /// From one power of ten to another.
    Logarithmic {
        low: f64,
        high: f64,
    },
}

impl Scale {
    /// Logarithmic if the values are far apart and none is zero.
    fn of(values: &[f64]) -> Scale {
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        if least > 0.0 && most / least > WIDE {
            // The scale begins below the least value, so that every bar has a length.
            return Scale::Logarithmic { low: (least * 0.8).log10().floor(), high: most.log10().ceil() };
        }
        Scale::Linear { most: if most > 0.0 { most } else { 1.0 } }
    }

    /// Returns the value's position on the scale, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        match self {
            Scale::Linear { most } => value / most,
            Scale::Logarithmic { low, high } => (value.log10() - low) / (high - low),
        }
    }
}

impl Chart {
    /// Renders the picture as SVG.
    pub(super) fn render(&self) -> String {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let scale = Scale::of(&bars().filter_map(|bar| bar.value).collect::<Vec<_>>());
        let body = self.groups.iter().map(|group| group.bars.len() as f64 * BAR + GAP).sum::<f64>();
        let height = HEAD + body + MARGIN;
        let title = escaped(&self.title);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{title}\" font-family=\"system-ui,-apple-system,\
             Segoe UI,Helvetica,Arial,sans-serif\" font-size=\"12\">\n<style>{STYLE}</style>\n\
             <rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
             <text class=\"ink\" x=\"{MARGIN}\" y=\"26\" font-size=\"15\" font-weight=\"600\">{title}</text>\n",
            WIDTH - 1.0,
            height - 1.0,
        );
        let logarithmic = matches!(scale, Scale::Logarithmic { .. });
        let note = format!(
            "{}{}",
            self.note,
            if logarithmic { "; each line is ten times the one before" } else { "" }
        );
        let _ = writeln!(svg, "<text class=\"faint\" x=\"{MARGIN}\" y=\"45\">{}</text>", escaped(&note));
        self.draw_legend(&mut svg);
        draw_grid(&mut svg, &scale, height - MARGIN);
        let mut top = HEAD;
        for group in &self.groups {
            draw_group(&mut svg, group, &scale, top);
            top += group.bars.len() as f64 * BAR + GAP;
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_legend(&self, svg: &mut String) {
        let mut right = WIDTH - MARGIN;
        for (at, name) in self.series.iter().enumerate().rev() {
            right -= name.chars().count() as f64 * 6.9 + 2.0;
            let _ = writeln!(svg, "<text class=\"faint\" x=\"{right:.1}\" y=\"26\">{}</text>", escaped(name));
            right -= 15.0;
            let shade = at % SHADES;
            let _ = writeln!(
                svg,
                "<rect class=\"other{shade}\" x=\"{right:.1}\" y=\"16.5\" width=\"11\" height=\"11\" rx=\"2\"/>"
            );
            right -= 12.0;
        }
    }
}

fn bar_space() -> f64 {
    WIDTH - 2.0 * MARGIN - NAMES - LABELS
}

fn draw_grid(svg: &mut String, scale: &Scale, bottom: f64) {
    let left = MARGIN + NAMES;
    let mut line = |x: f64| {
        let top = HEAD - 6.0;
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>");
    };
    line(left);
    if let Scale::Logarithmic { low, high } = scale {
        let mut decade = low + 1.0;
        while decade <= *high {
            line(left + scale.part(10_f64.powf(decade)) * bar_space());
            decade += 1.0;
        }
    }
}

fn draw_group(svg: &mut String, group: &Group, scale: &Scale, top: f64) {
    let middle = top + group.bars.len() as f64 * BAR / 2.0 + 4.0;
    let left = MARGIN + NAMES;
    let is_own = group.name.starts_with("sexton");
    let (colour, weight) = if is_own { ("own", " font-weight=\"600\"") } else { ("other", "") };
    let _ = writeln!(
        svg,
        "<text class=\"ink\" x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\"{weight}>{}</text>",
        left - 10.0,
        escaped(&group.name)
    );
    for (at, bar) in group.bars.iter().enumerate() {
        let y = top + at as f64 * BAR;
        let mut end = left;
        if let Some(value) = bar.value {
            let length = (scale.part(value) * bar_space()).max(1.5);
            end += length;
            let shade = at % SHADES;
            let height = BAR - 2.0;
            let _ = writeln!(
                svg,
                "<rect class=\"{colour}{shade}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{height}\" \
                 rx=\"2\"/>",
                y + 1.0
            );
        }
        let class = if bar.value.is_some() { "ink" } else { "faint" };
        let _ = writeln!(
            svg,
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            end + 7.0,
            y + BAR * 0.5 + 4.0,
            escaped(&bar.label)
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[(&str, Option<f64>)]) -> Chart {
        let group = |(name, value): &(&str, Option<f64>)| {
            let label = value.map_or("has none".to_owned(), |value| value.to_string());
            Group { name: (*name).to_owned(), bars: vec![Bar { value: *value, label }] }
        };
        let groups = values.iter().map(group).collect();
        Chart { title: "a <b> & c".into(), note: "seconds".into(), series: Vec::new(), groups }
    }

    fn lengths(svg: &str) -> Vec<f64> {
        let bars = svg.lines().filter(|line| line.starts_with("<rect class=\"o"));
        let width = |line: &str| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
        bars.map(|line| width(line).unwrap()).collect()
    }

    #[test]
    fn the_length_of_a_bar_is_proportional_to_its_value() {
        let svg = chart(&[("sexton", Some(1.0)), ("tmux", Some(4.0)), ("pm2", Some(0.0))]).render();
        let lengths = lengths(&svg);
        assert!((lengths[1] / lengths[0] - 4.0).abs() < 0.01, "{lengths:?}");
        assert!((lengths[1] - bar_space()).abs() < 0.1 && lengths[2] < 2.0, "{lengths:?}");
        assert!(!svg.contains("ten times"), "{svg}");
    }

    #[test]
    fn values_far_apart_use_a_logarithmic_scale_and_a_note() {
        let svg = chart(&[("sexton", Some(2.0)), ("tmux", Some(20.0)), ("pm2", Some(200.0))]).render();
        let lengths = lengths(&svg);
        assert!((lengths[2] - 2.0 * lengths[1] + lengths[0]).abs() < 0.3, "equal steps: {lengths:?}");
        assert!(
            svg.contains("ten times the one before") && svg.matches("class=\"grid\"").count() == 4,
            "{svg}"
        );
    }

    #[test]
    fn a_missing_value_has_a_remark_and_no_bar() {
        let svg = chart(&[("sexton", Some(1.0)), ("tmux", None)]).render();
        assert_eq!(lengths(&svg).len(), 1);
        assert!(svg.contains("class=\"faint\"") && svg.contains(">has none</text>"), "{svg}");
    }

    #[test]
    fn only_sexton_bars_are_highlighted_in_both_schemes() {
        let svg = chart(&[("sexton, JSON", Some(1.0)), ("tmux", Some(1.0))]).render();
        assert_eq!(svg.matches("<rect class=\"own0\"").count(), 1);
        assert_eq!(svg.matches("<rect class=\"other0\"").count(), 1);
        assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("a &lt;b&gt; &amp; c"), "{svg}");
    }

    #[test]
    fn a_series_is_named_in_the_legend() {
        let mut chart = chart(&[("sexton", Some(1.0))]);
        chart.series = vec!["returns".into(), "runs".into()];
        let svg = chart.render();
        assert!(svg.contains(">returns</text>") && svg.contains(">runs</text>"), "{svg}");
    }
}
