//! A ticket: somebody else's text, which names a branch, a file and an argument, and so is checked first.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

/// The id of a ticket that can name a branch and a file: letters, digits, `.`, `_` and `-`, beginning with a
/// letter or digit. There is no other way to get one, so that nothing else ever names anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Ticket(String);

/// A text that cannot be a ticket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` cannot be a ticket: {}", shown(.0), Ticket::EXPECTED)]
pub struct InvalidTicket(pub String);

const MAX_LENGTH: usize = 64;

/// How much of a text that cannot be a ticket is shown.
const MAX_SHOWN: usize = 80;

fn shown(text: &str) -> String {
    let mut shown: String = text.escape_debug().take(MAX_SHOWN).collect();
    if shown.len() < text.escape_debug().count() {
        shown.push('…');
    }
    shown
}

impl Ticket {
    /// What a ticket looks like.
    pub const EXPECTED: &'static str =
        "1 to 64 letters, digits, `.`, `_` or `-`, beginning with a letter or digit";

    /// The ticket as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The branch that it is worked on.
    pub fn branch(&self) -> String {
        format!("ralph/{}", self.0)
    }
}

impl FromStr for Ticket {
    type Err = InvalidTicket;

    fn from_str(text: &str) -> Result<Self, InvalidTicket> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let fits = (1..=MAX_LENGTH).contains(&text.len())
            && text.bytes().all(plain)
            && text.as_bytes()[0].is_ascii_alphanumeric()
            // What git refuses in the name of a branch.
            && !text.contains("..")
            && !text.ends_with('.')
            && !text.ends_with(".lock");
        if fits { Ok(Ticket(text.to_owned())) } else { Err(InvalidTicket(text.to_owned())) }
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for Ticket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_trackers_give_are_tickets() {
        for text in ["T-12", "ABC-123", "pt-a1b2", "42", "v1.2_x"] {
            assert_eq!(text.parse::<Ticket>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn nothing_that_could_lead_elsewhere_is_a_ticket() {
        let long = "x".repeat(65);
        for text in [
            "",
            " ",
            "../x; rm -rf ~",
            "..",
            "a..b",
            "a/b",
            "-x",
            ".x",
            "x.",
            "x.lock",
            "a b",
            "$(id)",
            &long,
        ] {
            assert!(text.parse::<Ticket>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Ticket>("\"../x\"").is_err());
    }

    #[test]
    fn what_is_no_ticket_is_shown_so_that_it_can_do_no_harm() {
        let error = format!("\u{1b}[2J{}", "y".repeat(200)).parse::<Ticket>().unwrap_err().to_string();
        assert!(error.starts_with("`\\u{1b}[2Jyyy") && error.contains("…`"), "{error}");
    }
}
