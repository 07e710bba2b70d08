//! Output of agents as text that cannot move the cursor, and figures that fit into a column.

/// The lines of `output` as a terminal would have left them: without colours and other commands to the
/// terminal, and where a line was drawn over, as it was drawn last.
pub fn plain_lines(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    if text.is_empty() {
        return Vec::new();
    }
    text.split('\n').map(plain_line).collect()
}

/// The last line that says something.
pub fn last_line(lines: &[String]) -> &str {
    lines.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty()).unwrap_or_default()
}

fn plain_line(line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let drawn_last = line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
    let mut plain = String::with_capacity(drawn_last.len());
    let mut characters = drawn_last.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => skip_command(&mut characters),
            '\t' => plain.push_str("    "),
            control if control.is_control() => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Skips what follows an escape character: `[` to a letter, `]` to a bell or `ESC \`, or one character.
fn skip_command(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        Some('[') => while characters.next().is_some_and(|c| !('\x40'..='\x7e').contains(&c)) {},
        Some(']') => {
            while let Some(character) = characters.next() {
                if character == '\x07' || character == '\x1b' && characters.next_if_eq(&'\\').is_some() {
                    break;
                }
            }
        }
        _ => {}
    }
}

/// Bytes in at most five columns: `640K`, `12.5M`, `3.2G`.
pub fn format_memory(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    let mut tenths = bytes.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    match unit {
        0 => format!("{}K", tenths / 10),
        _ if tenths >= 1000 => format!("{}{}", tenths / 10, UNITS[unit]),
        _ => format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[unit]),
    }
}

/// A share of one processor, as `top` shows it: two busy ones are 200%.
pub fn format_cpu(percent: f64) -> String {
    format!("{percent:.0}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_to_the_terminal_are_no_text() {
        let output =
            b"\x1b[1;32mgreen\x1b[0m\n\x1b]0;title\x07after\n\x1b]8;;x\x1b\\link\n\x1b(B\x1b7b\x07\ta";
        assert_eq!(plain_lines(output), ["green", "after", "link", "Bb    a"]);
    }

    #[test]
    fn a_line_that_was_drawn_over_is_shown_as_it_was_last() {
        assert_eq!(plain_lines(b"10%\r50%\r100%\r\ndone\r"), ["100%", "done"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_cut_sequences_end_with_the_line() {
        assert_eq!(plain_lines(b"a\xffb\n\x1b[31"), ["a\u{fffd}b", ""]);
        assert_eq!(plain_lines(b""), Vec::<String>::new());
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        assert_eq!(last_line(&plain_lines(b"one\n  two  \n\n   \n")), "two");
        assert_eq!(last_line(&[]), "");
    }

    #[test]
    fn figures_fit_their_columns() {
        let sizes = [
            0,
            640 << 10,
            999 << 10,
            1000 << 10,
            12 << 20,
            (12 << 20) + (500 << 10),
            512 << 20,
            3 << 30,
            u64::MAX,
        ];
        let shown = sizes.map(format_memory);
        assert_eq!(shown, ["0K", "640K", "999K", "0.9M", "12.0M", "12.4M", "512M", "3.0G", "1638P"]);
        assert_eq!([0.4, 99.6, 230.0].map(format_cpu), ["0%", "100%", "230%"]);
    }
}
