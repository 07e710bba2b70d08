//! One scripted process: where it is, whose it is, and what it does when it is signalled.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use sexton_core::{Liveness, ProcessIdentity, SessionId, Time};

use super::SIGKILL;

/// The script of a process. Unless told otherwise it belongs to nobody, is nowhere, and ends at the first
/// signal it gets.
#[derive(Clone, Debug, Default)]
pub struct FakeProcess {
    pub(super) parent: Option<u32>,
    pub(super) cookie: Option<SessionId>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) uid: u32,
    pub(super) kernel_thread: bool,
    pub(super) stopped: bool,
    pub(super) command: Vec<OsString>,
    pub(super) started_at: Option<Time>,
    ignored: BTreeSet<i32>,
    unkillable: bool,
    heir: Option<Box<FakeProcess>>,
}

impl FakeProcess {
    /// A process of nobody.
    pub fn new() -> FakeProcess {
        FakeProcess::default()
    }

    /// A process that carries the cookie of `session`.
    pub fn of(session: &SessionId) -> FakeProcess {
        FakeProcess { cookie: Some(session.clone()), ..FakeProcess::new() }
    }

    /// A process with this parent.
    #[must_use]
    pub fn child_of(mut self, parent: &ProcessIdentity) -> FakeProcess {
        self.parent = Some(parent.pid);
        self
    }

    /// A process whose working directory is `cwd`.
    #[must_use]
    pub fn in_directory(mut self, cwd: impl Into<PathBuf>) -> FakeProcess {
        self.cwd = Some(cwd.into());
        self
    }

    /// A process that runs `command`.
    #[must_use]
    pub fn running(mut self, command: &[&str]) -> FakeProcess {
        self.command = command.iter().map(OsString::from).collect();
        self
    }

    /// A process that started at this time.
    #[must_use]
    pub fn started_at(mut self, time: Time) -> FakeProcess {
        self.started_at = Some(time);
        self
    }

    /// A process of another user.
    #[must_use]
    pub fn of_user(mut self, uid: u32) -> FakeProcess {
        self.uid = uid;
        self
    }

    /// A part of the kernel.
    #[must_use]
    pub fn in_the_kernel(mut self) -> FakeProcess {
        self.kernel_thread = true;
        self
    }

    /// A process that was stopped and does not go on by itself.
    #[must_use]
    pub fn stopped(mut self) -> FakeProcess {
        self.stopped = true;
        self
    }

    /// A process that does not end by these signals.
    #[must_use]
    pub fn ignoring(mut self, signals: &[i32]) -> FakeProcess {
        self.ignored.extend(signals);
        self
    }

    /// A process that not even SIGKILL ends, as one in uninterruptible sleep.
    #[must_use]
    pub fn unkillable(mut self) -> FakeProcess {
        self.unkillable = true;
        self
    }

    /// A process that starts `heir` when a signal ends it.
    #[must_use]
    pub fn leaving(mut self, heir: FakeProcess) -> FakeProcess {
        self.heir = Some(Box::new(heir));
        self
    }
}

/// A process on the fake machine.
pub(super) struct Entry {
    pub(super) identity: ProcessIdentity,
    pub(super) process: FakeProcess,
    pub(super) alive: bool,
    pub(super) hidden: Option<String>,
}

impl Entry {
    /// What can be said of `recorded`, whose pid this process has.
    pub(super) fn judge(&self, recorded: &ProcessIdentity) -> Liveness {
        use sexton_core::identity::Match;
        if let Some(why) = self.hidden.as_ref().filter(|_| self.alive) {
            return Liveness::Unknown(why.clone());
        }
        match recorded.compare(&self.identity) {
            _ if !self.alive => Liveness::Gone,
            Match::Same => Liveness::Alive,
            Match::Different => Liveness::Reused,
            Match::CannotTell(why) => Liveness::Unknown(why),
        }
    }

    /// Takes a signal; gives the heir that it leaves.
    pub(super) fn receive(&mut self, signal: i32) -> Option<FakeProcess> {
        let survives =
            if signal == SIGKILL { self.process.unkillable } else { self.process.ignored.contains(&signal) };
        if survives || self.process.unkillable {
            return None;
        }
        self.alive = false;
        self.process.heir.take().filter(|_| signal != SIGKILL).map(|heir| *heir)
    }
}
