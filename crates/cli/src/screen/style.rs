//! Colour, where somebody can see it and nobody asked for none.

/// What a piece of text means; the colour follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    Plain,
    /// A heading.
    Heading,
    /// Less important than what stands beside it.
    Faint,
    /// As it should be.
    Good,
    /// Alive, in progress.
    Active,
    /// Worth a look.
    Warning,
    /// Wrong.
    Error,
    /// What to do next.
    Hint,
}

/// Whether there is colour.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// Colour where `is_terminal`, or where `CLICOLOR_FORCE` asks for it; never where `NO_COLOR` is set.
    pub fn when(is_terminal: bool) -> Style {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let forced =
            std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
        Style { colour: (is_terminal || forced) && !refused }
    }

    /// Whether there is any.
    pub fn has_colour(self) -> bool {
        self.colour
    }

    /// `text` in the colour of its meaning.
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
    fn colour_is_only_where_it_is_wanted() {
        assert_eq!(Style { colour: true }.paint(Tone::Good, "yes"), "\x1b[32myes\x1b[0m");
        assert_eq!(Style { colour: false }.paint(Tone::Good, "yes"), "yes");
        assert_eq!(Style { colour: true }.paint(Tone::Plain, "yes"), "yes");
    }
}
