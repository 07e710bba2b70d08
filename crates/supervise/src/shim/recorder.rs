//! How the shim writes: always within a time limit, and never losing an end. If the store cannot be written
//! in time, the exit file keeps the end.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use jiff::Timestamp;
use sexton_core::ending::{find_ending, record_outcome};
use sexton_core::plugin::{Registry, StoreOptions};
use sexton_core::probe::COOKIE;
use sexton_core::session::{Ending, EndingReason, Exit, ExitReason};
use sexton_core::store::{Access, update_session};
use sexton_core::{OsText, Others, ProcessIdentity, Session, Store, Time, release};

use crate::exit_file::{ExitFile, PendingExits};
use crate::plan::Plan;
use crate::platform::{InheritedLimits, reset_signals, stop_being_subreaper};
use crate::session_dir::SessionDir;
use crate::start::this_program;

/// How long the store may take before the exit file is written instead.
const STORE_WAIT: Duration = Duration::from_secs(2);

/// Pause when neither store nor exit file can be written: a full disk may have space again later.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Number of attempts: one day.
const RETRIES: usize = 17_280;

/// Which worktrees to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Only one without work.
    IfClean,
    /// Any; its content is rescued.
    Whole,
}

/// Writes the records of one session.
#[derive(Clone)]
pub(crate) struct Recorder {
    plan: Plan,
}

impl Recorder {
    pub(crate) fn of(plan: &Plan) -> Recorder {
        Recorder { plan: plan.clone() }
    }

    /// Reads the current record; returns `None` if there is none.
    pub(crate) fn load(&self) -> io::Result<Option<Session>> {
        let recorder = self.clone();
        within(STORE_WAIT, move || {
            let store = recorder.open(Access::Read)?;
            pollster::block_on(store.load(&recorder.plan.session)).map_err(io::Error::other)
        })
    }

    /// Reads the other active sessions, as far as the store can be read.
    pub(crate) fn load_others(&self) -> Others {
        let recorder = self.clone();
        let loaded = within(STORE_WAIT, move || {
            let store = recorder.open(Access::Read)?;
            pollster::block_on(Others::load(store.as_ref())).map_err(io::Error::other)
        });
        loaded.unwrap_or(Others::Unknown)
    }

    /// Records that the session is being stopped, and why. Returns the reason that was recorded first.
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

    /// Records `next` as the session's supervisor if that still is `from` and the session is active. Returns
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
                    session.release = Some(release::current().to_owned());
                }
                replaced
            })?;
            Ok(replaced)
        })
    }

    /// Records how the session ended: in the store, or in the exit file if the store takes too long.
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

    /// Makes sure that no record says that the session runs; does not create a record.
    pub(crate) fn record_never_started(&self) -> io::Result<()> {
        if matches!(self.load(), Ok(None)) {
            return self.remove_files();
        }
        let exit = Exit { reason: ExitReason::NeverStarted, code: None, ..Exit::exited(0) };
        self.record_end(&exit, None, Timestamp::now().into())
    }

    /// Removes the files of a session without a record.
    pub(crate) fn remove_files(&self) -> io::Result<()> {
        SessionDir::of(&self.plan.state_dir, &self.plan.session).remove()
    }

    /// Runs the user's notification command. It gets the limits and signals of an ordinary program.
    #[allow(unsafe_code, reason = "limits and signals are set between fork and exec")]
    pub(crate) fn notify(&self, command: Option<&OsText>, exit: &Exit, limits: InheritedLimits) {
        let Some(command) = command else { return };
        let status = self.load().ok().flatten().map(|session| session.status);
        let code = exit.code.map(|code| code.to_string()).unwrap_or_default();
        // It runs independently: neither its exit nor its failure affects the session.
        let mut program = Command::new("sh");
        let restore = move || {
            reset_signals();
            limits.restore();
            Ok(())
        };
        // SAFETY: the closure makes only system calls that are allowed between fork and exec.
        unsafe { program.pre_exec(restore) };
        let _ = program
            .arg("-c")
            .arg(command.as_os_str())
            .env_remove(COOKIE)
            .envs(self.plan.store_variables())
            .env("SEXTON_ENDED_SESSION", self.plan.session.as_str())
            .env("SEXTON_ENDED_STATUS", status.map_or("", |status| status.as_str()))
            .env("SEXTON_ENDED_CODE", code)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }

    /// Replaces this process with the program that removes the session's worktree. Returns only if that
    /// cannot be executed; `worktree prune` does the same later.
    pub(crate) fn become_cleaner(&self, removal: Removal) {
        let Ok(program) = this_program() else { return };
        // A program that starts as a subreaper forks, and its child would be taken for a process of the
        // session.
        stop_being_subreaper();
        let _ = Command::new(program)
            .arg("--state-dir")
            .arg(&self.plan.state_dir)
            .args(["--store", &self.plan.store_url, "--probe", &self.plan.probe])
            .args(["worktree", "rm"])
            .args(matches!(removal, Removal::IfClean).then_some("--if-clean"))
            .arg(self.plan.session.as_str())
            // It must not count as a process of the session, nor occupy a directory.
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
        let options = StoreOptions::new(path, access, self.plan.durability());
        (plugin.open)(&options).map_err(io::Error::other)
    }
}

/// Runs `work` on a separate thread and waits for at most `limit`. A thread that hangs (on a lock held by a
/// stopped process) is abandoned; this process exits soon after. If the user may have no more threads, it runs here.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let theirs = Arc::clone(&work);
    let spawned = std::thread::Builder::new().spawn(move || {
        if let Some(work) = take(&theirs) {
            let _ = sender.send(work());
        }
    });
    if let Err(error) = spawned {
        return take(&work).map_or(Err(error), |work| work());
    }
    receiver.recv_timeout(limit).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
