//! Observation of whether a prior session could still be driving its loop.

use crate::probe::Group;
use crate::{Incarnation, Liveness, Others, ProcessIdentity, ProcessProbe, Session, Store};

/// The state of a prior session's processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its end is recorded.
    Ended,
    /// All of its processes are gone, but its record does not say so yet.
    Gone,
    /// Its command is gone, but another process of it is not, or not provably: its supervisor, or one that it
    /// left behind. The supervisor and recovery handle those.
    Dying,
    /// It runs, with the evidence.
    Running(String),
    /// Its state is unknown, with the reason.
    Unclear(String),
}

/// What is needed to observe processes.
pub struct Sight {
    /// The process probe.
    pub probe: Box<dyn ProcessProbe>,
    /// This host: sessions of any other cannot be judged here.
    pub here: Incarnation,
}

impl Standing {
    /// Returns whether the session may still be driving its loop. An unknown state counts: two drivers of one
    /// loop do more harm than a loop that waits until the user runs `forget`.
    pub fn may_run(&self) -> bool {
        matches!(self, Standing::Running(_) | Standing::Unclear(_))
    }

    /// Returns whether nothing of the session can ever act again.
    pub fn is_gone(&self) -> bool {
        matches!(self, Standing::Ended | Standing::Gone)
    }
}

impl Sight {
    /// Returns the state of a session whose end is not recorded.
    pub(super) async fn of(&self, store: &dyn Store, session: &Session) -> Standing {
        if session.host.is_unnamed() || session.is_elsewhere(&self.here) {
            return Standing::Unclear(format!("it belongs to the host {}", session.host.hostname));
        }
        let process = self.observed(session.process.as_ref()).await;
        let supervisor = self.observed(session.supervisor.as_ref()).await;
        match (&process, &supervisor) {
            (Some(Liveness::Alive), _) => {
                let pid = session.process.as_ref().map_or(0, |process| process.pid);
                Standing::Running(format!("process {pid} runs"))
            }
            (Some(Liveness::Unknown(why)), _) => Standing::Unclear(why.clone()),
            // No command yet, but a supervisor that may be about to start it.
            (None, Some(Liveness::Alive)) => Standing::Running("it is being started".to_owned()),
            (None, Some(Liveness::Unknown(why))) => Standing::Unclear(why.clone()),
            (_, Some(Liveness::Alive | Liveness::Unknown(_))) => Standing::Dying,
            _ if self.has_no_process(store, session).await => Standing::Gone,
            _ => Standing::Dying,
        }
    }

    /// Returns whether no process of the session is left.
    async fn has_no_process(&self, store: &dyn Store, session: &Session) -> bool {
        let others = Others::load(store).await.unwrap_or(Others::Unknown);
        let members = self.probe.members(&Group::of(session), &others).await;
        members.is_ok_and(|members| members.processes.is_empty() && members.unreadable.is_empty())
    }

    async fn observed(&self, identity: Option<&ProcessIdentity>) -> Option<Liveness> {
        match identity {
            Some(identity) => Some(self.probe.observe(identity).await),
            None => None,
        }
    }
}
