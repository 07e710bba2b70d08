//! The id of a session: it never changes, and is safe in a path, a ref and an environment variable.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A session's id: generated as 16 characters of `[a-z0-9]`, accepted from other tools as
/// `[A-Za-z0-9_-]{1,64}`. A value of this type can be joined to a path without a further check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SessionId(String);

/// A text that is not a valid session id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a session id: 1 to 64 letters, digits, `_` or `-`", .0.escape_debug())]
pub struct InvalidSessionId(pub String);

const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const GENERATED_LENGTH: usize = 16;
const MAX_LENGTH: usize = 64;

impl SessionId {
    /// Creates a random id: 16 characters carry 82 bits, so collisions are negligible.
    ///
    /// # Panics
    /// If the operating system provides no random bytes; every supported one does.
    pub fn random() -> Self {
        let mut id = String::with_capacity(GENERATED_LENGTH);
        while id.len() < GENERATED_LENGTH {
            let mut bytes = [0; 2 * GENERATED_LENGTH];
            getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
            // 252 is the largest multiple of 36 that fits a byte; larger bytes would make some letters more
            // likely.
            let fair = bytes.into_iter().filter(|byte| *byte < 252);
            let letters = fair.map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]));
            id.extend(letters.take(GENERATED_LENGTH - id.len()));
        }
        SessionId(id)
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionId {
    type Err = InvalidSessionId;

    fn from_str(text: &str) -> Result<Self, InvalidSessionId> {
        let fits = (1..=MAX_LENGTH).contains(&text.len());
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if fits && plain { Ok(SessionId(text.to_owned())) } else { Err(InvalidSessionId(text.to_owned())) }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for SessionId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SessionId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"})
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn generated_ids_are_sixteen_plain_characters_and_unique() {
        let ids: BTreeSet<_> = (0..1000).map(|_| SessionId::random()).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            assert_eq!(id.as_str().len(), GENERATED_LENGTH);
            assert!(id.as_str().bytes().all(|byte| ALPHABET.contains(&byte)), "{id}");
        }
    }

    #[test]
    fn foreign_ids_are_accepted_unchanged() {
        for text in ["a", "omx-1730000000000-x7", "A_b-C", &"x".repeat(64)] {
            assert_eq!(text.parse::<SessionId>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn unsafe_path_components_are_refused() {
        for text in ["", "../../etc", "a/b", ".", "a b", "a\0b", "é", "a\n", &"x".repeat(65)] {
            assert!(text.parse::<SessionId>().is_err(), "{text:?} was accepted");
            let json = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<SessionId>(&json).is_err(), "{text:?} was deserialised");
        }
    }
}
