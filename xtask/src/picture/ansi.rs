//! Parses a screen that tmux printed into cells with colours.

/// The style of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    /// One of the sixteen colours of a terminal; `None` is the terminal's own.
    pub(super) colour: Option<u8>,
    pub(super) bold: bool,
    pub(super) faint: bool,
    pub(super) reversed: bool,
}

/// Returns the rows of a screen, each in pieces of one style.
pub(super) fn parse(screen: &str) -> Vec<Vec<(Style, String)>> {
    let mut style = Style::default();
    screen.lines().map(|line| parse_line(line, &mut style)).collect()
}

fn parse_line(line: &str, style: &mut Style) -> Vec<(Style, String)> {
    let mut pieces: Vec<(Style, String)> = Vec::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\x1b' {
            let sequence: String = characters.by_ref().skip(1).take_while(|c| *c != 'm').collect();
            apply(style, &sequence);
            continue;
        }
        match pieces.last_mut() {
            Some((last, text)) if last == style => text.push(character),
            _ => pieces.push((*style, character.to_string())),
        }
    }
    pieces
}

fn apply(style: &mut Style, sequence: &str) {
    let codes: Vec<u8> = sequence.split(';').map(|code| code.parse().unwrap_or(0)).collect();
    let mut codes = codes.as_slice();
    while let [code, rest @ ..] = codes {
        codes = rest;
        match *code {
            0 => *style = Style::default(),
            1 => style.bold = true,
            2 => style.faint = true,
            7 => style.reversed = true,
            22 => (style.bold, style.faint) = (false, false),
            27 => style.reversed = false,
            30..=37 => style.colour = Some(code - 30),
            90..=97 => style.colour = Some(code - 90 + 8),
            39 => style.colour = None,
            // The same sixteen colours, written as the first of 256.
            38 => {
                if let [5, number, rest @ ..] = rest {
                    style.colour = Some(*number);
                    codes = rest;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_set_and_reset() {
        let rows = parse("a\x1b[1;36mb\x1b[39mc\x1b[0md\n\x1b[7me\nf\x1b[27m");
        let plain = Style::default();
        let bold = Style { bold: true, ..plain };
        let reversed = Style { reversed: true, ..plain };
        let cyan = Style { colour: Some(6), ..bold };
        let piece = |style, text: &str| (style, text.to_owned());
        assert_eq!(rows[0], [piece(plain, "a"), piece(cyan, "b"), piece(bold, "c"), piece(plain, "d")]);
        assert_eq!(parse("\x1b[38;5;2mg")[0], [piece(Style { colour: Some(2), ..plain }, "g")]);
        assert_eq!(
            rows[1..],
            [vec![piece(reversed, "e")], vec![piece(reversed, "f")]],
            "a style continues on the next line"
        );
    }
}
