//! Sessions as they are listed: their records, with ends that wait in exit files, and what their processes do
//! now.

use serde::Serialize;
use sexton_core::store::Damage;
use sexton_core::testimony::observe_command;
use sexton_core::{Host, Liveness, ProcessProbe, Query, Session};

use crate::ending::overlay_exits;
use crate::error::HouseError;
use crate::host::this_host;
use crate::house::House;

/// A listing.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The sessions that fit, newest first.
    pub sessions: Vec<Listed>,
    /// What of the store could not be read.
    pub damage: Vec<Damage>,
}

/// A record, and what was seen of its process.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The record.
    pub session: Session,
    /// What was seen; nothing of one that has ended.
    pub observed: Option<Observed>,
}

impl House {
    /// The sessions that fit `query`, each probed now where it is recorded as active.
    pub async fn list(&self, query: &Query) -> Result<Listing, HouseError> {
        let store = self.open_for_reading()?;
        let exits = self.pending_exits();
        let waiting = exits.list().map_err(HouseError::io("cannot read the exit files"))?;
        // An end that waits in an exit file makes a record another one than its status in the store says.
        let asked = if waiting.is_empty() {
            query.clone()
        } else {
            Query { statuses: None, limit: None, ..query.clone() }
        };
        let mut listing = store.list(&asked).await?;
        overlay_exits(&exits, &mut listing.sessions)?;
        let sessions = if waiting.is_empty() { listing.sessions } else { query.select(listing.sessions) };
        Ok(Listing { sessions: self.probe_all(sessions).await?, damage: listing.damage })
    }

    /// Asks the probe about those that are recorded as active. Where none is, no probe is needed.
    async fn probe_all(&self, sessions: Vec<Session>) -> Result<Vec<Listed>, HouseError> {
        let any = sessions.iter().any(|session| session.status.is_active());
        let probe = if any { Some(self.open_probe()?) } else { None };
        let here = this_host();
        let mut listed = Vec::with_capacity(sessions.len());
        for session in sessions {
            let observed = match &probe {
                Some(probe) => observe(probe.as_ref(), &here, &session).await,
                None => None,
            };
            listed.push(Listed { session, observed });
        }
        Ok(listed)
    }
}

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
