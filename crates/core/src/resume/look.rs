//! Looking: whether a prior session could still be driving its loop.

use crate::probe::Group;
use crate::{Host, Liveness, ProcessIdentity, ProcessProbe, Session};

/// What became of a prior session's processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its end is recorded.
    Ended,
    /// Its processes are gone, every one of them, and only its record does not say so yet.
    Gone,
    /// Its command is gone. Somebody else is not, or not provably: its supervisor, or a process it left
    /// behind. What becomes of those is the business of the supervisor and of recovery.
    Dying,
    /// It runs, and how that was seen.
    Running(String),
    /// Nobody can tell whether it runs, and why.
    Unclear(String),
}

/// What it takes to look at processes.
pub struct Sight {
    /// Sees them.
    pub probe: Box<dyn ProcessProbe>,
    /// This machine: sessions of any other cannot be judged here.
    pub host: Host,
}

impl Standing {
    /// Whether the session may still be driving its loop. What nobody can tell counts: two drivers of one
    /// loop do more harm than a loop that waits for its user's word (`forget`).
    pub fn may_run(&self) -> bool {
        matches!(self, Standing::Running(_) | Standing::Unclear(_))
    }

    /// Whether nothing of the session can ever act again.
    pub fn is_gone(&self) -> bool {
        matches!(self, Standing::Ended | Standing::Gone)
    }
}

impl Sight {
    /// What became of a session whose end is not recorded.
    pub(super) async fn of(&self, session: &Session) -> Standing {
        if !session.host.is_same(&self.host) {
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
            // No command yet, and somebody who may be about to start it.
            (None, Some(Liveness::Alive)) => Standing::Running("it is being started".to_owned()),
            (None, Some(Liveness::Unknown(why))) => Standing::Unclear(why.clone()),
            (_, Some(Liveness::Alive | Liveness::Unknown(_))) => Standing::Dying,
            _ if self.is_deserted(session).await => Standing::Gone,
            _ => Standing::Dying,
        }
    }

    /// Whether nobody is left who carries the session's cookie or sits in its control group.
    async fn is_deserted(&self, session: &Session) -> bool {
        let members = self.probe.members(&Group::of(session)).await;
        members.is_ok_and(|members| members.processes.is_empty() && members.unreadable.is_empty())
    }

    async fn observed(&self, identity: Option<&ProcessIdentity>) -> Option<Liveness> {
        match identity {
            Some(identity) => Some(self.probe.observe(identity).await),
            None => None,
        }
    }
}
