//! A ticket id. It comes from outside and names a branch, a file and an argument, so it is checked first.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

/// The id of a ticket that is valid in the names of branches and files: letters, digits, `.`, `_` and `-`, beginning
/// with a letter or digit. Every constructor checks this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Ticket(String);

/// An invalid ticket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a valid ticket: expected {}", shown(.0), Ticket::EXPECTED)]
pub struct InvalidTicket(pub String);

const MAX_LENGTH: usize = 64;

/// Maximum number of characters of an invalid ticket in a message.
const MAX_SHOWN: usize = 80;

fn shown(text: &str) -> String {
    let mut shown: String = text.escape_debug().take(MAX_SHOWN).collect();
    if shown.len() < text.escape_debug().count() {
        shown.push('…');
    }
    shown
}

impl Ticket {
    /// The expected form of a ticket.
    pub const EXPECTED: &'static str =
        "1 to 64 letters, digits, `.`, `_` or `-`, beginning with a letter or digit";

    /// Returns the ticket as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the branch for work on the ticket.
    pub fn branch(&self) -> String {
        format!("ralph/{}", self.0)
    }
}

impl FromStr for Ticket {
    type Err = InvalidTicket;

    fn from_str(text: &str) -> Result<Self, InvalidTicket> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let is_valid = (1..=MAX_LENGTH).contains(&text.len())
            && text.bytes().all(plain)
            && text.as_bytes()[0].is_ascii_alphanumeric()
            // Git does not allow these in the name of a branch.
            && !text.contains("..")
            && !text.ends_with('.')
            && !text.ends_with(".lock");
        if is_valid { Ok(Ticket(text.to_owned())) } else { Err(InvalidTicket(text.to_owned())) }
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
    fn common_ticket_ids_are_valid() {
        for text in ["T-12", "ABC-123", "pt-a1b2", "42", "v1.2_x"] {
            assert_eq!(text.parse::<Ticket>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn unsafe_names_are_refused() {
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
    fn invalid_ticket_is_escaped_and_shortened_in_errors() {
        let error = format!("\u{1b}[2J{}", "y".repeat(200)).parse::<Ticket>().unwrap_err().to_string();
        assert!(error.starts_with("`\\u{1b}[2Jyyy") && error.contains("…`"), "{error}");
    }
}
