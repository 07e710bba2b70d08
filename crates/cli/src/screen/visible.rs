//! Escapes external text, such as a command, a path or a name, so that it cannot move the cursor, end a line, change
//! the terminal's state or reorder the text around it.

use std::borrow::Cow;

/// Escapes every character in `text` that a terminal would interpret instead of showing it.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(acts_on_terminal) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if acts_on_terminal(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Returns whether a terminal interprets a character: control characters (C0, DEL, C1), line and paragraph
/// separators, and characters that change the text direction.
pub fn acts_on_terminal(character: char) -> bool {
    let directs = matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') || directs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i11_terminal_control_characters_are_escaped() {
        let controls = ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}');
        let directions = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}'];
        for character in controls.chain(directions).chain(['\u{2028}', '\u{2029}']) {
            let shown = visible(&format!("a{character}b")).into_owned();
            assert!(shown.starts_with("a\\") && shown.ends_with('b'), "{shown:?}");
            assert!(shown.chars().all(|c| c.is_ascii_graphic()), "{shown:?}");
        }
        assert_eq!(visible("a\x1b[2J\u{202e}b\u{9b}c"), "a\\u{1b}[2J\\u{202e}b\\u{9b}c");
    }

    #[test]
    fn text_without_control_characters_is_unchanged() {
        for text in ["", "claude -p 'fix it'", "grüße 日本語 👩‍💻", r"back\slash"] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
