//! A screen as tmux prints it, as cells with colours.

/// How a cell looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// One of the sixteen colours of a terminal; `None` is the terminal's own.
    pub(super) colour: Option<u8>,
    pub(super) bold: bool,
    pub(super) faint: bool,
    pub(super) reversed: bool,
}

/// The rows of a screen, each in pieces of one look.
pub(super) fn parse(screen: &str) -> Vec<Vec<(Look, String)>> {
    let mut look = Look::default();
    screen.lines().map(|line| parse_line(line, &mut look)).collect()
}

fn parse_line(line: &str, look: &mut Look) -> Vec<(Look, String)> {
    let mut pieces: Vec<(Look, String)> = Vec::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\x1b' {
            let sequence: String = characters.by_ref().skip(1).take_while(|c| *c != 'm').collect();
            apply(look, &sequence);
            continue;
        }
        match pieces.last_mut() {
            Some((last, text)) if last == look => text.push(character),
            _ => pieces.push((*look, character.to_string())),
        }
    }
    pieces
}

fn apply(look: &mut Look, sequence: &str) {
    let codes: Vec<u8> = sequence.split(';').map(|code| code.parse().unwrap_or(0)).collect();
    let mut codes = codes.as_slice();
    while let [code, rest @ ..] = codes {
        codes = rest;
        match *code {
            0 => *look = Look::default(),
            1 => look.bold = true,
            2 => look.faint = true,
            7 => look.reversed = true,
            22 => (look.bold, look.faint) = (false, false),
            27 => look.reversed = false,
            30..=37 => look.colour = Some(code - 30),
            90..=97 => look.colour = Some(code - 90 + 8),
            39 => look.colour = None,
            // The same sixteen, written as the first of 256.
            38 => {
                if let [5, number, rest @ ..] = rest {
                    look.colour = Some(*number);
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
    fn colours_and_weights_come_and_go() {
        let rows = parse("a\x1b[1;36mb\x1b[39mc\x1b[0md\n\x1b[7me\nf\x1b[27m");
        let plain = Look::default();
        let bold = Look { bold: true, ..plain };
        let reversed = Look { reversed: true, ..plain };
        let cyan = Look { colour: Some(6), ..bold };
        let piece = |look, text: &str| (look, text.to_owned());
        assert_eq!(rows[0], [piece(plain, "a"), piece(cyan, "b"), piece(bold, "c"), piece(plain, "d")]);
        assert_eq!(parse("\x1b[38;5;2mg")[0], [piece(Look { colour: Some(2), ..plain }, "g")]);
        assert_eq!(rows[1..], [vec![piece(reversed, "e")], vec![piece(reversed, "f")]], "a look goes on");
    }
}
