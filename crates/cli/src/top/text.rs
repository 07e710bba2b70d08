//! Converts agents' output into plain text, and formats figures for columns.

use crate::screen::acts_on_terminal;

/// Returns the lines of `output` as plain text: without escape sequences, and for a line that was overwritten with
/// carriage returns, the last version.
pub fn plain_lines(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    if text.is_empty() {
        return Vec::new();
    }
    text.split('\n').map(plain_line).collect()
}

/// Returns the last line that is not blank.
pub fn last_line(lines: &[String]) -> &str {
    lines.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty()).unwrap_or_default()
}

fn plain_line(line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let last_version = line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
    let mut plain = String::with_capacity(last_version.len());
    let mut characters = last_version.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => skip_escape_sequence(&mut characters),
            '\t' => plain.push_str("    "),
            control if control.is_control() => {}
            other if acts_on_terminal(other) => plain.extend(other.escape_default()),
            other => plain.push(other),
        }
    }
    plain
}

/// Skips the rest of an escape sequence: `[` up to a letter, `]` up to a bell or `ESC \`, or one character.
fn skip_escape_sequence(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
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

/// Formats bytes in at most five columns: `640K`, `12.5M`, `3.2G`.
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

/// Formats CPU usage in percent of one CPU, so two busy CPUs are 200%.
pub fn format_cpu(percent: f64) -> String {
    format!("{percent:.0}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_removed() {
        let output =
            b"\x1b[1;32mgreen\x1b[0m\n\x1b]0;title\x07after\n\x1b]8;;x\x1b\\link\n\x1b(B\x1b7b\x07\ta";
        assert_eq!(plain_lines(output), ["green", "after", "link", "Bb    a"]);
    }

    #[test]
    fn overwritten_line_keeps_its_last_version() {
        assert_eq!(plain_lines(b"10%\r50%\r100%\r\ndone\r"), ["100%", "done"]);
    }

    #[test]
    fn invalid_utf8_is_replaced_and_incomplete_sequences_end_with_the_line() {
        assert_eq!(plain_lines(b"a\xffb\n\x1b[31"), ["a\u{fffd}b", ""]);
        assert_eq!(plain_lines(b""), Vec::<String>::new());
    }

    #[test]
    fn last_line_skips_blank_lines() {
        assert_eq!(last_line(&plain_lines(b"one\n  two  \n\n   \n")), "two");
        assert_eq!(last_line(&[]), "");
    }

    #[test]
    fn figures_fit_in_their_columns() {
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
