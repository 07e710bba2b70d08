//! A scripted process: its directory, its session, and its reaction to signals.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use sexton_core::{Liveness, ProcessIdentity, SessionId, Time};

use super::SIGKILL;

/// The script of a process. By default it has no session and no directory, and ends at the first signal.
#[derive(Clone, Debug, Default)]
pub struct FakeProcess {
    pub(super) parent: Option<u32>,
    pub(super) cookie: Option<SessionId>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) uid: u32,
    pub(super) limit: Option<u64>,
    pub(super) kernel_thread: bool,
    pub(super) stopped: bool,
    pub(super) command: Vec<OsString>,
    pub(super) started_at: Option<Time>,
    ignored: BTreeSet<i32>,
    unkillable: bool,
    successor: Option<Box<FakeProcess>>,
}

impl FakeProcess {
    /// Creates a process without a session.
    pub fn new() -> FakeProcess {
        FakeProcess::default()
    }

    /// Creates a process with the cookie of `session`.
    pub fn of(session: &SessionId) -> FakeProcess {
        FakeProcess { cookie: Some(session.clone()), ..FakeProcess::new() }
    }

    /// Sets the parent.
    #[must_use]
    pub fn child_of(mut self, parent: &ProcessIdentity) -> FakeProcess {
        self.parent = Some(parent.pid);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn in_directory(mut self, cwd: impl Into<PathBuf>) -> FakeProcess {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets the command.
    #[must_use]
    pub fn running(mut self, command: &[&str]) -> FakeProcess {
        self.command = command.iter().map(OsString::from).collect();
        self
    }

    /// Sets the start time.
    #[must_use]
    pub fn started_at(mut self, time: Time) -> FakeProcess {
        self.started_at = Some(time);
        self
    }

    /// Sets the user.
    #[must_use]
    pub fn of_user(mut self, uid: u32) -> FakeProcess {
        self.uid = uid;
        self
    }

    /// Sets the limit of file locks.
    #[must_use]
    pub fn with_limit(mut self, limit: u64) -> FakeProcess {
        self.limit = Some(limit);
        self
    }

    /// Makes it a kernel thread.
    #[must_use]
    pub fn in_the_kernel(mut self) -> FakeProcess {
        self.kernel_thread = true;
        self
    }

    /// Makes it a stopped process.
    #[must_use]
    pub fn stopped(mut self) -> FakeProcess {
        self.stopped = true;
        self
    }

    /// Makes it ignore these signals.
    #[must_use]
    pub fn ignoring(mut self, signals: &[i32]) -> FakeProcess {
        self.ignored.extend(signals);
        self
    }

    /// Makes it survive SIGKILL, like a process in uninterruptible sleep.
    #[must_use]
    pub fn unkillable(mut self) -> FakeProcess {
        self.unkillable = true;
        self
    }

    /// Makes it start `successor` when a signal other than SIGKILL ends it.
    #[must_use]
    pub fn leaving(mut self, successor: FakeProcess) -> FakeProcess {
        self.successor = Some(Box::new(successor));
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
    /// Returns the liveness of `recorded`, which has the pid of this process.
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

    /// Handles a signal. Returns the successor to start, if any.
    pub(super) fn receive(&mut self, signal: i32) -> Option<FakeProcess> {
        let survives =
            if signal == SIGKILL { self.process.unkillable } else { self.process.ignored.contains(&signal) };
        if survives || self.process.unkillable {
            return None;
        }
        self.alive = false;
        self.process.successor.take().filter(|_| signal != SIGKILL).map(|successor| *successor)
    }
}
