//! How the shim writes: always within a limit, and never losing an end. Where the store cannot be written
//! in time, the exit file keeps what it would have said.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use jiff::Timestamp;
use sexton_core::ending::{find_ending, record_outcome};
use sexton_core::plugin::{Registry, StoreOptions};
use sexton_core::probe::COOKIE;
use sexton_core::session::{Ending, EndingReason, Exit, ExitReason};
use sexton_core::store::{Access, update_session};
use sexton_core::{OsText, ProcessIdentity, Session, Store, Time};

use crate::exit_file::{ExitFile, PendingExits};
use crate::plan::Plan;
use crate::session_dir::SessionDir;
use crate::start::this_program;

/// How long the store may take before the exit file is written instead.
const STORE_WAIT: Duration = Duration::from_secs(2);

/// How long to pause when neither store nor exit file can be written: a full disk may have room again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// How often that is tried; a day's worth.
const RETRIES: usize = 17_280;

/// Which worktree is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// One in which nothing is worth keeping.
    IfClean,
    /// Any; what is in it is rescued.
    Whole,
}

/// Writes for one session.
#[derive(Clone)]
pub(crate) struct Recorder {
    plan: Plan,
}

impl Recorder {
    pub(crate) fn of(plan: &Plan) -> Recorder {
        Recorder { plan: plan.clone() }
    }

    /// The record as it stands; `None` where there is none.
    pub(crate) fn load(&self) -> io::Result<Option<Session>> {
        let recorder = self.clone();
        within(STORE_WAIT, move || {
            let store = recorder.open(Access::Read)?;
            pollster::block_on(store.load(&recorder.plan.session)).map_err(io::Error::other)
        })
    }

    /// Says that the session is being ended, and why. If somebody said so before, theirs is the reason.
    pub(crate) fn claim_ending(&self, reason: EndingReason) -> EndingReason {
        let recorder = self.clone();
        let claimed = within(STORE_WAIT, move || {
            recorder.update(|session| {
                let now = Timestamp::now().into();
                let free = find_ending(session, now).is_none() && session.status.is_active();
                if free {
                    session.ending = Some(Ending::new(reason, "supervisor", now));
                }
                free
            })
        });
        let recorded = claimed.ok().flatten().and_then(|session| session.ending);
        recorded.map_or(reason, |ending| ending.reason)
    }

    /// Names `next` as the session's supervisor, where that still is `from` and the session is active. Says
    /// whether it was.
    pub(crate) fn replace_supervisor(
        &self,
        from: Option<&ProcessIdentity>,
        next: &ProcessIdentity,
    ) -> io::Result<bool> {
        let (recorder, from, next) = (self.clone(), from.cloned(), next.clone());
        within(STORE_WAIT, move || {
            let mut replaced = false;
            recorder.update(|session| {
                replaced = session.status.is_active() && session.supervisor == from;
                if replaced {
                    session.supervisor = Some(next.clone());
                }
                replaced
            })?;
            Ok(replaced)
        })
    }

    /// Records how the session ended: in the store, or where that takes too long in the exit file.
    pub(crate) fn record_end(
        &self,
        exit: &Exit,
        ending: Option<EndingReason>,
        finished_at: Time,
    ) -> io::Result<()> {
        for _ in 0..RETRIES {
            let recorder = self.clone();
            let in_store = match sexton_mutant::is("wrong_exit") {
                true => Exit::exited(0),
                false => exit.clone(),
            };
            let committed = within(STORE_WAIT, move || {
                recorder.update(|session| record_outcome(session, in_store.clone(), ending, finished_at))
            });
            if committed.is_ok() {
                return Ok(());
            }
            let kept =
                ExitFile { session: self.plan.session.clone(), exit: exit.clone(), finished_at, ending };
            if sexton_mutant::is("no_exit_file") {
                return Ok(());
            }
            if PendingExits::of(&self.plan.state_dir).write(&kept).is_ok() {
                return Ok(());
            }
            std::thread::sleep(RETRY_PAUSE);
        }
        Err(io::Error::other("the end of the session could not be recorded"))
    }

    /// Makes sure that no record says that the session runs; one that was never written stays unwritten.
    pub(crate) fn record_never_started(&self) -> io::Result<()> {
        if matches!(self.load(), Ok(None)) {
            return self.remove_files();
        }
        let exit = Exit { reason: ExitReason::NeverStarted, code: None, ..Exit::exited(0) };
        self.record_end(&exit, None, Timestamp::now().into())
    }

    /// Removes the files of a session that no record points to.
    pub(crate) fn remove_files(&self) -> io::Result<()> {
        SessionDir::of(&self.plan.state_dir, &self.plan.session).remove()
    }

    /// Tells the user's program that the session has ended.
    pub(crate) fn notify(&self, command: Option<&OsText>, exit: &Exit) {
        let Some(command) = command else { return };
        let status = self.load().ok().flatten().map(|session| session.status);
        let code = exit.code.map(|code| code.to_string()).unwrap_or_default();
        // It runs on its own: neither its end nor its failure is the session's business.
        let _ = Command::new("sh")
            .arg("-c")
            .arg(command.as_os_str())
            .env_remove(COOKIE)
            .envs(self.plan.whereabouts())
            .env("SEXTON_ENDED_SESSION", self.plan.session.as_str())
            .env("SEXTON_ENDED_STATUS", status.map_or("", |status| status.as_str()))
            .env("SEXTON_ENDED_CODE", code)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }

    /// Becomes the program that removes the session's worktree. Comes back only where that cannot be
    /// executed; `worktree prune` does the same later.
    pub(crate) fn become_cleaner(&self, removal: Removal) {
        let Ok(program) = this_program() else { return };
        let _ = Command::new(program)
            .arg("--state-dir")
            .arg(&self.plan.state_dir)
            .args(["--store", &self.plan.store_url, "--probe", &self.plan.probe])
            .args(["worktree", "rm"])
            .args(matches!(removal, Removal::IfClean).then_some("--if-clean"))
            .arg(self.plan.session.as_str())
            // It is no process of the session, and stands in nobody's way.
            .env_remove(COOKIE)
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .exec();
    }

    fn update(&self, change: impl FnMut(&mut Session) -> bool + Send) -> io::Result<Option<Session>> {
        let store = self.open(Access::Write)?;
        pollster::block_on(update_session(store.as_ref(), &self.plan.session, change))
            .map_err(io::Error::other)
    }

    fn open(&self, access: Access) -> io::Result<Box<dyn Store>> {
        let registry = Registry::linked().map_err(io::Error::other)?;
        let (plugin, path) = registry.require_store(&self.plan.store_url).map_err(io::Error::other)?;
        let options = StoreOptions { path, access, durability: self.plan.durability() };
        (plugin.open)(&options).map_err(io::Error::other)
    }
}

/// Does `work` on a thread of its own and waits for it, but not longer than `limit`. What hangs (a lock
/// that a stopped process holds) is left behind; this process ends soon after.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::Builder::new().spawn(move || {
        let _ = sender.send(work());
    })?;
    receiver.recv_timeout(limit).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
