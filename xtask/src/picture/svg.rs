//! Renders a screen as a picture: a window whose text stays text.

use std::fmt::Write;

use super::ansi::Style;

const CELL: (f64, f64) = (8.4, 19.0);
const MARGIN: f64 = 16.0;
const BAR: f64 = 34.0;

const BACKGROUND: &str = "#16181d";
const TEXT: &str = "#d7dae0";
const FAINT: &str = "#7d8590";

/// The sixteen colours of a terminal.
const COLOURS: [&str; 16] = [
    "#3b4048", "#f07178", "#8fd28a", "#e8c06a", "#6cb2f7", "#c99bf0", "#5ccfe6", "#d7dae0", "#5c6370",
    "#ff8b92", "#a9e5a4", "#f5d48a", "#8fc6ff", "#dbb6ff", "#86e0f2", "#ffffff",
];

/// Draws `rows` in a window of this many columns and lines.
pub(super) fn render(rows: &[Vec<(Style, String)>], columns: usize, lines: usize, title: &str) -> String {
    let width = columns as f64 * CELL.0 + 2.0 * MARGIN;
    let height = BAR + lines as f64 * CELL.1 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\" font-family=\"ui-monospace,SFMono-Regular,\
         Menlo,Consolas,DejaVu Sans Mono,monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"{BACKGROUND}\"/>\n"
    );
    for (at, colour) in ["#ff5f57", "#febc2e", "#28c840"].iter().enumerate() {
        let x = MARGIN + 6.0 + at as f64 * 20.0;
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"17\" r=\"6\" fill=\"{colour}\"/>");
    }
    let middle = width / 2.0;
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"21.5\" fill=\"{FAINT}\" text-anchor=\"middle\" font-size=\"13\">{}</text>",
        escaped(title)
    );
    for (number, row) in rows.iter().take(lines).enumerate() {
        draw_row(&mut svg, row, BAR + number as f64 * CELL.1);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_row(svg: &mut String, row: &[(Style, String)], top: f64) {
    let mut column = 0;
    for (style, text) in row {
        let wide = text.chars().count();
        let x = MARGIN + column as f64 * CELL.0;
        column += wide;
        let foreground = colour_of(*style);
        if style.reversed {
            let length = wide as f64 * CELL.0;
            let height = CELL.1;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{height}\" fill=\"{foreground}\"/>"
            );
        }
        let ink = if style.reversed { BACKGROUND } else { foreground };
        draw_words(svg, text, (x, top + CELL.1 * 0.74), ink, style.bold);
    }
}

/// Draws each word at the position of its cells, so that columns are aligned in any font.
fn draw_words(svg: &mut String, text: &str, (x, baseline): (f64, f64), ink: &str, bold: bool) {
    let weight = if bold { " font-weight=\"bold\"" } else { "" };
    let characters: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < characters.len() {
        if characters[at] == ' ' {
            at += 1;
            continue;
        }
        let end = characters[at..]
            .windows(2)
            .position(|pair| pair == [' ', ' '])
            .map_or(characters.len(), |n| at + n + 1);
        let word: String = characters[at..end].iter().collect();
        let word = word.trim_end();
        let (left, length) = (x + at as f64 * CELL.0, word.chars().count() as f64 * CELL.0);
        let _ = writeln!(
            svg,
            "<text x=\"{left:.1}\" y=\"{baseline:.1}\" fill=\"{ink}\"{weight} textLength=\"{length:.1}\" \
             lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">{}</text>",
            escaped(word)
        );
        at = end;
    }
}

fn colour_of(style: Style) -> &'static str {
    match style.colour {
        Some(number) => COLOURS[usize::from(number) % COLOURS.len()],
        None if style.faint => FAINT,
        None => TEXT,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_drawn_at_their_cells() {
        let rows = [vec![(Style::default(), "ab  c&d".to_owned())]];
        let svg = render(&rows, 10, 1, "a <title>");
        assert!(svg.contains(">ab</text>") && svg.contains(">c&amp;d</text>"), "{svg}");
        assert!(svg.contains(&format!("x=\"{:.1}\"", MARGIN + 4.0 * CELL.0)), "{svg}");
        assert!(svg.contains("a &lt;title&gt;</text>"), "{svg}");
    }

    #[test]
    fn reversed_text_has_a_background() {
        let reversed = Style { reversed: true, ..Style::default() };
        let svg = render(&[vec![(reversed, "ab ".to_owned())]], 10, 1, "t");
        let length = 3.0 * CELL.0;
        assert!(
            svg.contains(&format!("width=\"{length:.1}\""))
                && svg.contains(&format!("fill=\"{BACKGROUND}\" text")),
            "{svg}"
        );
    }
}
