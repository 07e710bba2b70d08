//! The labels that a user can give a session.

use sexton_core::session::{Agent, LoopState};
use sexton_core::{Session, Time};

use crate::error::ServiceError;

/// The labels of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// Session name, unique among running sessions.
    pub name: Option<String>,
    /// The ticket it works on.
    pub ticket: Option<String>,
    /// The user's own keys and values.
    pub tags: Vec<(String, String)>,
    /// The kind of agent.
    pub agent: Option<String>,
    /// The agent's conversation id.
    pub agent_session: Option<String>,
    /// The agent's thread id.
    pub thread: Option<String>,
    /// The terminal pane it is bound to.
    pub pane: Option<String>,
}

/// Maximum length of a name or ticket: both are used in tables, lock names and branch names.
const MAX_LABEL: usize = 200;

impl Labels {
    /// Sets the labels of a session.
    pub fn apply(self, session: &mut Session, now: Time) -> Result<(), ServiceError> {
        for (what, text) in [("name", &self.name), ("ticket", &self.ticket)] {
            if let Some(text) = text {
                require_label(what, text)?;
            }
        }
        session.name = self.name;
        session.ticket = self.ticket;
        session.tags = self.tags.into_iter().collect();
        if self.agent.is_some() || self.agent_session.is_some() || self.thread.is_some() {
            let agent = Agent { kind: self.agent, session_id: self.agent_session, ..Agent::default() };
            session.agent = Some(Agent { thread_id: self.thread, ..agent });
        }
        if let Some(pane) = self.pane {
            let state = session.loop_state.take().unwrap_or_default();
            session.loop_state = Some(LoopState { pane: Some(pane), pane_set_at: Some(now), ..state });
        }
        Ok(())
    }
}

fn require_label(what: &str, text: &str) -> Result<(), ServiceError> {
    if text.trim().is_empty() || text.len() > MAX_LABEL || text.chars().any(char::is_control) {
        let shown = text.escape_debug();
        return Err(ServiceError::BadRequest(format!(
            "`{shown}` cannot be a {what}: 1 to {MAX_LABEL} bytes without control characters"
        )));
    }
    Ok(())
}
