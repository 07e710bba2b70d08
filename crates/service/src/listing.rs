//! Lists sessions: their records, with ends from exit files, and the observed state of their processes.

use serde::Serialize;
use sexton_core::foreign_identity::observe_command;
use sexton_core::store::Damage;
use sexton_core::{Incarnation, Liveness, ProcessProbe, Query, Session};

use crate::error::ServiceError;
use crate::service::Service;

/// A listing.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The matching sessions, newest first.
    pub sessions: Vec<Listed>,
    /// Parts of the store that could not be read.
    pub damage: Vec<Damage>,
}

/// A record and the observed state of its processes.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The record.
    pub session: Session,
    /// The observed state; `None` for a session that has ended.
    pub observed: Option<Observed>,
}

impl Service {
    /// Returns the sessions that match `query`; probes those that are recorded as active.
    pub async fn list(&self, query: &Query) -> Result<Listing, ServiceError> {
        let store = self.open_for_reading()?;
        let exits = self.pending_exits();
        let waiting = exits.list().map_err(ServiceError::io("cannot read the exit files"))?;
        // An exit file changes the status of a record, so the status and the limit are applied afterwards.
        let asked = if waiting.is_empty() {
            query.clone()
        } else {
            Query { statuses: None, limit: None, ..query.clone() }
        };
        let mut listing = store.list(&asked).await?;
        self.overlay_exits(&mut listing.sessions).await?;
        let sessions = if waiting.is_empty() { listing.sessions } else { query.select(listing.sessions) };
        Ok(Listing { sessions: self.probe_all(sessions).await?, damage: listing.damage })
    }

    /// Probes the sessions that are recorded as active. If there are none, no probe is opened.
    async fn probe_all(&self, sessions: Vec<Session>) -> Result<Vec<Listed>, ServiceError> {
        let any = sessions.iter().any(|session| session.status.is_active());
        let probe = if any { Some(self.open_probe()?) } else { None };
        let here = match &probe {
            Some(probe) => Some(self.here(probe.as_ref()).await?),
            None => None,
        };
        let mut listed = Vec::with_capacity(sessions.len());
        for session in sessions {
            let observed = match (&probe, &here) {
                (Some(probe), Some(here)) => observe(probe.as_ref(), here, &session).await,
                _ => None,
            };
            listed.push(Listed { session, observed });
        }
        Ok(listed)
    }
}

/// Observed state of a session that is recorded as active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Observed {
    /// Its command runs.
    Alive,
    /// Its command runs but its supervisor is gone: its deadline, its owner's death and its log limit have no
    /// effect.
    Unsupervised,
    /// Its command is gone and its supervisor is still cleaning up.
    Finishing,
    /// Its command is gone, and that is not recorded.
    Gone,
    /// Its pid now belongs to another process.
    Reused,
    /// The state cannot be determined.
    Unknown(String),
}

impl Observed {
    /// Returns whether its command was seen running.
    pub fn is_running(&self) -> bool {
        matches!(self, Observed::Alive | Observed::Unsupervised)
    }

    /// Returns the word for a table.
    pub fn as_str(&self) -> &'static str {
        match self {
            Observed::Alive => "alive",
            Observed::Unsupervised => "unsupervised",
            Observed::Finishing => "finishing",
            Observed::Gone => "gone",
            Observed::Reused => "reused",
            Observed::Unknown(_) => "unknown",
        }
    }
}

/// Observes the processes of an active session. A session of another host is not probed, because a pid means
/// nothing elsewhere.
pub async fn observe(probe: &dyn ProcessProbe, here: &Incarnation, session: &Session) -> Option<Observed> {
    if !session.status.is_active() {
        return None;
    }
    if session.is_elsewhere(here) {
        return Some(Observed::Unknown(format!("it runs on {}", session.host.hostname)));
    }
    if session.process.is_none() {
        return Some(Observed::Unknown("no process is recorded yet".to_owned()));
    }
    if session.probe.as_deref().is_some_and(|taken_by| taken_by != probe.name()) {
        let taken_by = session.probe.as_deref().unwrap_or_default();
        return Some(Observed::Unknown(format!("its identity was recorded by the {taken_by} probe")));
    }
    let seen = match observe_command(probe, session).await?.liveness {
        Liveness::Alive => return Some(observe_supervision(probe, session).await),
        Liveness::Unknown(why) => return Some(Observed::Unknown(why)),
        Liveness::Gone => Observed::Gone,
        Liveness::Reused => Observed::Reused,
    };
    match &session.supervisor {
        Some(supervisor) if probe.observe(supervisor).await == Liveness::Alive => Some(Observed::Finishing),
        _ => Some(seen),
    }
}

/// Returns how a session with a running command is supervised. A supervisor that never existed or whose state
/// is unknown does not count as missing.
async fn observe_supervision(probe: &dyn ProcessProbe, session: &Session) -> Observed {
    match &session.supervisor {
        Some(supervisor) => match probe.observe(supervisor).await {
            Liveness::Gone | Liveness::Reused => Observed::Unsupervised,
            Liveness::Alive | Liveness::Unknown(_) => Observed::Alive,
        },
        None => Observed::Alive,
    }
}
