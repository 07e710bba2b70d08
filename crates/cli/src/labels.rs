//! What a user can say about a session, whoever starts it.

use clap::Args;
use jiff::Timestamp;
use sexton_core::Session;
use sexton_core::session::{Agent, LoopState};

use crate::failure::Failure;

/// The labels of a session.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Labels")]
pub struct Labels {
    /// Call it so; unique among running sessions
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The ticket it works on
    #[arg(long, value_name = "TICKET")]
    pub ticket: Option<String>,
    /// A key and value of your own (repeatable)
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    pub tags: Vec<(String, String)>,
    /// Which agent it is: claude, codex, pi …
    #[arg(long, value_name = "KIND")]
    pub agent: Option<String>,
    /// The agent's own id of its conversation
    #[arg(long, value_name = "ID")]
    pub agent_session: Option<String>,
    /// The agent's own id of its thread
    #[arg(long, value_name = "ID")]
    pub thread: Option<String>,
    /// The terminal pane it is bound to
    #[arg(long, value_name = "PANE")]
    pub pane: Option<String>,
}

/// The longest name or ticket: both stand in tables, lock names and branch names.
const MAX_LABEL: usize = 200;

fn parse_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

impl Labels {
    /// Puts the labels on a session.
    pub fn apply(self, session: &mut Session) -> Result<(), Failure> {
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
            let pane_set_at = Some(Timestamp::now().into());
            session.loop_state = Some(LoopState { pane: Some(pane), pane_set_at, ..LoopState::default() });
        }
        Ok(())
    }
}

fn require_label(what: &str, text: &str) -> Result<(), Failure> {
    if text.trim().is_empty() || text.len() > MAX_LABEL || text.chars().any(char::is_control) {
        let shown = text.escape_debug();
        return Err(Failure::usage(format!(
            "`{shown}` cannot be a {what}: 1 to {MAX_LABEL} bytes without control characters"
        )));
    }
    Ok(())
}
