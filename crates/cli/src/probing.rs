//! What the processes of listed sessions do now.

use serde::Serialize;
use sexton_core::testimony::observe_command;
use sexton_core::{Host, Liveness, ProcessProbe, Session};

/// What was seen of a session that is recorded as active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Observed {
    /// Its command runs.
    Alive,
    /// Its command is gone, and its supervisor is putting things in order.
    Finishing,
    /// Its command is gone, and nobody recorded that.
    Gone,
    /// Its pid belongs to another process now.
    Reused,
    /// Nobody can tell.
    Unknown(String),
}

impl Observed {
    /// The word for a table.
    pub fn as_str(&self) -> &'static str {
        match self {
            Observed::Alive => "alive",
            Observed::Finishing => "finishing",
            Observed::Gone => "gone",
            Observed::Reused => "reused",
            Observed::Unknown(_) => "unknown",
        }
    }
}

/// Looks at the process of an active session. A session of another host is not looked at, because a pid
/// means nothing elsewhere.
pub async fn observe(probe: &dyn ProcessProbe, here: &Host, session: &Session) -> Option<Observed> {
    if !session.status.is_active() {
        return None;
    }
    if !session.host.is_here(here) {
        return Some(Observed::Unknown(format!("it runs on {}", session.host.hostname)));
    }
    if session.process.is_none() {
        return Some(Observed::Unknown("no process is recorded yet".to_owned()));
    }
    if session.probe.as_deref().is_some_and(|taken_by| taken_by != probe.name()) {
        let taken_by = session.probe.as_deref().unwrap_or_default();
        return Some(Observed::Unknown(format!("its identity was taken by the {taken_by} probe")));
    }
    let seen = match observe_command(probe, session).await?.liveness {
        Liveness::Alive => return Some(Observed::Alive),
        Liveness::Unknown(why) => return Some(Observed::Unknown(why)),
        Liveness::Gone => Observed::Gone,
        Liveness::Reused => Observed::Reused,
    };
    match &session.supervisor {
        Some(supervisor) if probe.observe(supervisor).await == Liveness::Alive => Some(Observed::Finishing),
        _ => Some(seen),
    }
}
