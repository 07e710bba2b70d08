//! Who an agent is, and which loops are therefore its own.

use crate::session::{Agent, SessionId};

/// What an agent says of itself. An id that could not be one is not kept: what is ignored here can never
/// come near a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentIdentity {
    session_id: Option<String>,
    thread_id: Option<String>,
}

impl AgentIdentity {
    /// The identity of these ids, each without the blanks around it. What is empty, or no id, is left out.
    pub fn new(session_id: Option<&str>, thread_id: Option<&str>) -> AgentIdentity {
        AgentIdentity { session_id: session_id.and_then(usable), thread_id: thread_id.and_then(usable) }
    }

    /// The agent's own id of its conversation.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// The agent's own id of its thread.
    pub fn thread_id(&self) -> Option<&str> {
        self.thread_id.as_deref()
    }

    /// Whether nothing is known of the agent.
    pub fn is_unknown(&self) -> bool {
        self.session_id.is_none() && self.thread_id.is_none()
    }

    /// Whether a loop that was driven by `recorded` is this agent's. The conversation decides; threads only
    /// where no conversation was recorded.
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

/// Ids of agents have the form of ids of sessions.
fn usable(text: &str) -> Option<String> {
    let text = text.trim();
    text.parse::<SessionId>().is_ok().then(|| text.to_owned())
}

/// An id as a record has it; blank is none.
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
    fn the_conversation_decides_and_a_thread_cannot_stand_in_for_it() {
        let both = AgentIdentity::new(Some("s"), Some("t"));
        assert!(both.is(&recorded(Some("s"), None)));
        assert!(both.is(&recorded(Some(" s "), Some("other"))));
        assert!(!both.is(&recorded(Some("other"), Some("t"))));
        assert!(!AgentIdentity::new(None, Some("t")).is(&recorded(Some("s"), Some("t"))));
    }

    #[test]
    fn threads_decide_where_no_conversation_was_recorded() {
        let both = AgentIdentity::new(Some("s"), Some("t"));
        assert!(both.is(&recorded(None, Some("t"))));
        assert!(both.is(&recorded(Some("  "), Some("t"))));
        assert!(!both.is(&recorded(None, Some("other"))));
        assert!(!AgentIdentity::new(Some("s"), None).is(&recorded(None, Some("t"))));
    }

    #[test]
    fn nobody_is_not_the_same_as_nobody() {
        assert!(!AgentIdentity::default().is(&recorded(None, None)));
        assert!(!AgentIdentity::new(Some(""), Some(" ")).is(&recorded(Some(""), Some(" "))));
    }

    #[test]
    fn what_could_not_be_an_id_is_ignored() {
        for text in ["", "  ", "../../etc", "a/b", "a\0b", "é", &"x".repeat(65)] {
            assert!(AgentIdentity::new(Some(text), Some(text)).is_unknown(), "{text:?}");
        }
        assert_eq!(AgentIdentity::new(Some(" a-B_1 "), None).session_id(), Some("a-B_1"));
    }
}
