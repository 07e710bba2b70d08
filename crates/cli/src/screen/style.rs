//! Colours, on terminals and unless they are disabled.

/// The meaning of a text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// No special meaning.
    Plain,
    /// A heading.
    Heading,
    /// Less important than the text around it.
    Faint,
    /// Success.
    Good,
    /// Running.
    Active,
    /// A warning.
    Warning,
    /// An error.
    Error,
    /// A suggestion of what to do next.
    Hint,
}

/// Whether colours are enabled.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// Enables colours if `is_terminal` or `CLICOLOR_FORCE` is set, unless `NO_COLOR` is set.
    pub fn when(is_terminal: bool) -> Style {
        let disabled = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let forced =
            std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
        Style { colour: (is_terminal || forced) && !disabled }
    }

    /// Returns whether colours are enabled.
    pub fn has_colour(self) -> bool {
        self.colour
    }

    /// Returns `text` in the colour of `tone`.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        match code(tone) {
            Some(code) if self.colour => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

fn code(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Plain => None,
        Tone::Heading => Some("1"),
        Tone::Faint => Some("2"),
        Tone::Good => Some("32"),
        Tone::Active => Some("36"),
        Tone::Warning => Some("33"),
        Tone::Error => Some("31"),
        Tone::Hint => Some("35"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enabled_colours_are_printed() {
        assert_eq!(Style { colour: true }.paint(Tone::Good, "yes"), "\x1b[32myes\x1b[0m");
        assert_eq!(Style { colour: false }.paint(Tone::Good, "yes"), "yes");
        assert_eq!(Style { colour: true }.paint(Tone::Plain, "yes"), "yes");
    }
}
