//! What an agent hands to its hooks: one JSON object, of which a few keys say who is speaking.
//!
//! It comes from outside and may be anything. It is read up to a limit and no further than its end, so that
//! neither a flood nor a pipe that nobody closes holds the agent up.

use std::fmt;
use std::io::BufRead;

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// The most that is read. A turn's payload may quote a long answer, or the output of a tool.
const MAX_PAYLOAD: u64 = 32 << 20;

/// What a payload says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The agent's own id of its conversation.
    pub session: Option<String>,
    /// The agent's own id of its thread.
    pub thread: Option<String>,
    /// Whether the agent took a turn.
    pub turn: bool,
}

/// A payload that says nothing.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// More than any payload has.
    #[error("the hook's payload is larger than {} MiB", MAX_PAYLOAD >> 20)]
    TooLarge,
    /// Something else than an object.
    #[error("the hook's payload is no JSON object: {0}")]
    NoObject(#[source] serde_json::Error),
    /// Nothing at all.
    #[error("the hook's payload is no JSON object: it is empty")]
    Empty,
}

impl Payload {
    /// Reads the payload that `input` begins with.
    pub fn read(input: impl BufRead) -> Result<Payload, PayloadError> {
        let mut input = input.take(MAX_PAYLOAD);
        let mut documents = serde_json::Deserializer::from_reader(&mut input).into_iter::<Payload>();
        match documents.next() {
            Some(Ok(payload)) => Ok(payload),
            _ if input.limit() == 0 => Err(PayloadError::TooLarge),
            Some(Err(error)) => Err(PayloadError::NoObject(error)),
            None => Err(PayloadError::Empty),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Payload;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Payload, M::Error> {
        let mut payload = Payload::default();
        while let Some(key) = map.next_key::<String>()? {
            let slot = match key.as_str() {
                "session_id" | "session-id" | "sessionId" => &mut payload.session,
                "thread_id" | "thread-id" | "threadId" => &mut payload.thread,
                "type" | "hook_event_name" => {
                    payload.turn |= map.next_value::<Value>()?.as_str().is_some_and(is_turn);
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            // A key that comes twice, in two spellings perhaps, counts the first time it says something.
            let said = map.next_value::<Value>()?.as_str().map(str::trim).map(str::to_owned);
            *slot = slot.take().or(said.filter(|text| !text.is_empty()));
        }
        Ok(payload)
    }
}

/// Whether an event means that the agent took a turn, or is in one. It does not while a session only begins
/// or ends.
fn is_turn(event: &str) -> bool {
    !matches!(event, "SessionStart" | "SessionEnd" | "approval-requested")
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::*;

    fn read(text: &str) -> Payload {
        Payload::read(text.as_bytes()).unwrap()
    }

    fn refused(text: &[u8]) -> String {
        Payload::read(text).unwrap_err().to_string()
    }

    fn said(session: Option<&str>, thread: Option<&str>, turn: bool) -> Payload {
        Payload { session: session.map(str::to_owned), thread: thread.map(str::to_owned), turn }
    }

    #[test]
    fn codex_says_its_thread_when_a_turn_is_complete() {
        let text = r#"{"type":"agent-turn-complete","thread-id":"b5f6","turn-id":"12","cwd":"/src",
                       "input-messages":["rename foo"],"last-assistant-message":"done"}"#;
        assert_eq!(read(text), said(None, Some("b5f6"), true));
        let text = r#"{"type":"agent-turn-complete","thread_id":"b5f6","session_id":"s1"}"#;
        assert_eq!(read(text), said(Some("s1"), Some("b5f6"), true));
    }

    #[test]
    fn claude_says_its_session_and_which_event_it_is() {
        let text = |event: &str| {
            format!(
                r#"{{"session_id":"abc-1","transcript_path":"/t.jsonl","cwd":"/src","hook_event_name":"{event}"}}"#
            )
        };
        assert_eq!(read(&text("Stop")), said(Some("abc-1"), None, true));
        assert_eq!(read(&text("UserPromptSubmit")), said(Some("abc-1"), None, true));
        assert_eq!(read(&text("SessionStart")), said(Some("abc-1"), None, false));
    }

    #[test]
    fn what_is_no_text_says_nothing_and_the_first_that_says_something_counts() {
        assert_eq!(read(r#"{"session_id":7,"thread_id":{"a":["b"]},"type":null}"#), Payload::default());
        assert_eq!(
            read(r#"{"session_id":" ","session-id":" x ","sessionId":"y"}"#),
            said(Some("x"), None, false)
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in
            ["", "  ", "null", "[]", "[\"session_id\"]", "\"x\"", "{", "{\"a\":}", "hello", "{\"a\":1"]
        {
            assert!(refused(text.as_bytes()).contains("is no JSON object"), "{text:?}");
        }
        assert!(refused(b"{\"session_id\":\"\xff\"}").contains("is no JSON object"));
    }

    #[test]
    fn ten_megabytes_are_read_and_too_many_are_refused() {
        let padded = |bytes: usize| {
            format!(r#"{{"last-assistant-message":"{}","session_id":"s"}}"#, "x".repeat(bytes))
        };
        assert_eq!(read(&padded(10 << 20)).session.as_deref(), Some("s"));
        assert_eq!(refused(padded(33 << 20).as_bytes()), "the hook's payload is larger than 32 MiB");
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&deep), Payload::default());
    }

    #[test]
    fn a_pipe_that_nobody_closes_holds_nobody_up() {
        struct Endless<'a>(&'a [u8]);
        impl Read for Endless<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                assert!(!self.0.is_empty(), "it was read beyond the end of the document");
                self.0.read(buffer)
            }
        }
        let payload = Payload::read(io::BufReader::new(Endless(br#"{"session_id":"s"}"#))).unwrap();
        assert_eq!(payload.session.as_deref(), Some("s"));
    }
}
