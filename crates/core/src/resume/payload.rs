//! The payload that an agent passes to its hooks: one JSON object, of which a few keys identify the agent.
//!
//! It is untrusted input. It is read up to a limit and not beyond its end, so that neither a large payload nor
//! a pipe that stays open blocks the agent.

use std::fmt;
use std::io::BufRead;

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// The maximum that is read. A turn's payload may quote a long answer, or the output of a tool.
const MAX_PAYLOAD: u64 = 32 << 20;

/// The content of a payload.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The agent's own id of its conversation.
    pub session: Option<String>,
    /// The agent's own id of its thread.
    pub thread: Option<String>,
    /// Whether the agent took a turn.
    pub turn: bool,
}

/// Why a payload cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// It exceeds the limit.
    #[error("the hook's payload is larger than {} MiB", MAX_PAYLOAD >> 20)]
    TooLarge,
    /// It is not an object.
    #[error("the hook's payload is not a JSON object: {0}")]
    NoObject(#[source] serde_json::Error),
    /// It is empty.
    #[error("the hook's payload is not a JSON object: it is empty")]
    Empty,
}

impl Payload {
    /// Reads the payload at the start of `input`.
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
            // If a key occurs twice, perhaps in two spellings, the first non-empty value counts.
            let value = map.next_value::<Value>()?.as_str().map(str::trim).map(str::to_owned);
            *slot = slot.take().or(value.filter(|text| !text.is_empty()));
        }
        Ok(payload)
    }
}

/// Returns whether an event means that the agent took a turn, or is in one. The start or end of a session is
/// not a turn.
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

    fn payload(session: Option<&str>, thread: Option<&str>, turn: bool) -> Payload {
        Payload { session: session.map(str::to_owned), thread: thread.map(str::to_owned), turn }
    }

    #[test]
    fn codex_reports_its_thread_after_a_turn() {
        let text = r#"{"type":"agent-turn-complete","thread-id":"b5f6","turn-id":"12","cwd":"/src",
                       "input-messages":["rename foo"],"last-assistant-message":"done"}"#;
        assert_eq!(read(text), payload(None, Some("b5f6"), true));
        let text = r#"{"type":"agent-turn-complete","thread_id":"b5f6","session_id":"s1"}"#;
        assert_eq!(read(text), payload(Some("s1"), Some("b5f6"), true));
    }

    #[test]
    fn claude_reports_its_session_and_event() {
        let text = |event: &str| {
            format!(
                r#"{{"session_id":"abc-1","transcript_path":"/t.jsonl","cwd":"/src","hook_event_name":"{event}"}}"#
            )
        };
        assert_eq!(read(&text("Stop")), payload(Some("abc-1"), None, true));
        assert_eq!(read(&text("UserPromptSubmit")), payload(Some("abc-1"), None, true));
        assert_eq!(read(&text("SessionStart")), payload(Some("abc-1"), None, false));
    }

    #[test]
    fn non_strings_are_ignored_and_first_value_counts() {
        assert_eq!(read(r#"{"session_id":7,"thread_id":{"a":["b"]},"type":null}"#), Payload::default());
        assert_eq!(
            read(r#"{"session_id":" ","session-id":" x ","sessionId":"y"}"#),
            payload(Some("x"), None, false)
        );
    }

    #[test]
    fn non_objects_are_refused() {
        for text in
            ["", "  ", "null", "[]", "[\"session_id\"]", "\"x\"", "{", "{\"a\":}", "hello", "{\"a\":1"]
        {
            assert!(refused(text.as_bytes()).contains("is not a JSON object"), "{text:?}");
        }
        assert!(refused(b"{\"session_id\":\"\xff\"}").contains("is not a JSON object"));
    }

    #[test]
    fn large_payload_is_read_and_too_large_is_refused() {
        let padded = |bytes: usize| {
            format!(r#"{{"last-assistant-message":"{}","session_id":"s"}}"#, "x".repeat(bytes))
        };
        assert_eq!(read(&padded(10 << 20)).session.as_deref(), Some("s"));
        assert_eq!(refused(padded(33 << 20).as_bytes()), "the hook's payload is larger than 32 MiB");
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&deep), Payload::default());
    }

    #[test]
    fn open_pipe_does_not_block() {
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
