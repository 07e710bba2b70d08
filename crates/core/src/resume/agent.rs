//! The identity of an agent, which decides which loops belong to it.

use crate::session::{Agent, SessionId};

/// The ids that an agent reports for itself. An invalid id is dropped here, so that it can never become part of
/// a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentIdentity {
    session_id: Option<String>,
    thread_id: Option<String>,
}

impl AgentIdentity {
    /// Creates an identity from these ids, trimmed. An empty or invalid one is dropped.
    pub fn new(session_id: Option<&str>, thread_id: Option<&str>) -> AgentIdentity {
        AgentIdentity { session_id: session_id.and_then(usable), thread_id: thread_id.and_then(usable) }
    }

    /// Returns the agent's own id of its conversation.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the agent's own id of its thread.
    pub fn thread_id(&self) -> Option<&str> {
        self.thread_id.as_deref()
    }

    /// Returns whether no id is known.
    pub fn is_unknown(&self) -> bool {
        self.session_id.is_none() && self.thread_id.is_none()
    }

    /// Returns whether a loop that `recorded` drove belongs to this agent. The conversation decides; the thread
    /// counts only if no conversation was recorded.
    pub fn is(&self, recorded: &Agent) -> bool {
        match recorded_id(recorded.session_id.as_deref()) {
            Some(recorded) => self.session_id.as_deref() == Some(recorded),
            None => match recorded_id(recorded.thread_id.as_deref()) {
                Some(recorded) => self.thread_id.as_deref() == Some(recorded),
                None => false,
            },
        }
    }
}

/// Ids of agents have the form of session ids.
fn usable(text: &str) -> Option<String> {
    let text = text.trim();
    text.parse::<SessionId>().is_ok().then(|| text.to_owned())
}

/// Returns a recorded id; a blank one counts as none.
pub(super) fn recorded_id(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(session_id: Option<&str>, thread_id: Option<&str>) -> Agent {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Agent { session_id: owned(session_id), thread_id: owned(thread_id), ..Agent::default() }
    }

    #[test]
    fn conversation_decides_and_thread_does_not_replace_it() {
        let both = AgentIdentity::new(Some("s"), Some("t"));
        assert!(both.is(&recorded(Some("s"), None)));
        assert!(both.is(&recorded(Some(" s "), Some("other"))));
        assert!(!both.is(&recorded(Some("other"), Some("t"))));
        assert!(!AgentIdentity::new(None, Some("t")).is(&recorded(Some("s"), Some("t"))));
    }

    #[test]
    fn thread_decides_if_no_conversation_was_recorded() {
        let both = AgentIdentity::new(Some("s"), Some("t"));
        assert!(both.is(&recorded(None, Some("t"))));
        assert!(both.is(&recorded(Some("  "), Some("t"))));
        assert!(!both.is(&recorded(None, Some("other"))));
        assert!(!AgentIdentity::new(Some("s"), None).is(&recorded(None, Some("t"))));
    }

    #[test]
    fn unknown_agents_never_match() {
        assert!(!AgentIdentity::default().is(&recorded(None, None)));
        assert!(!AgentIdentity::new(Some(""), Some(" ")).is(&recorded(Some(""), Some(" "))));
    }

    #[test]
    fn invalid_ids_are_ignored() {
        for text in ["", "  ", "../../etc", "a/b", "a\0b", "é", &"x".repeat(65)] {
            assert!(AgentIdentity::new(Some(text), Some(text)).is_unknown(), "{text:?}");
        }
        assert_eq!(AgentIdentity::new(Some(" a-B_1 "), None).session_id(), Some("a-B_1"));
    }
}
