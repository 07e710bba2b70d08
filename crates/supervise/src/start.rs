//! The starter's side: executes the shim, records the session, and only then lets the command run.
//!
//! Executing a program takes longer than anything else here, so the shim is executed first
//! ([`Shim::execute`]) and receives its plan when the starter has it. A shim that receives no plan creates
//! nothing and exits.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sexton_core::probe::COOKIE;
use sexton_core::session::Log;
use sexton_core::{Batch, Session, SessionId, Status, Store, StoreError, Time};

use crate::control::{Control, FromShim, FromStarter, Ready};
use crate::limits::restore_descriptor_limit;
use crate::plan::Plan;
use crate::shim::SHIM_WORD;

/// A session whose command runs.
pub struct Started {
    /// Its record, as committed.
    pub session: Session,
    /// Its shim, a child of this process. It keeps running if it is not waited for.
    pub shim: Child,
    /// The store that contains the record.
    pub store: Box<dyn Store>,
}

/// Why a session did not start. Nothing is running then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The command could not be executed; a `failed` record is committed.
    #[error("cannot {doing}: {}", io::Error::from_raw_os_error(*.errno))]
    NotExecuted {
        /// The step that failed.
        doing: String,
        /// The error number.
        errno: i32,
    },
    /// The shim could not be started, or failed.
    #[error("the supervisor did not start: {why}")]
    Shim {
        /// The cause.
        why: String,
    },
    /// The session could not be recorded, so it was not started.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StartError {
    fn shim(why: &str) -> StartError {
        StartError::Shim { why: why.to_owned() }
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Shim { why: error.to_string() }
    }
}

/// The access token of an MCP server, which its sessions must not inherit.
const SERVER_SECRET: &str = "SEXTON_MCP_TOKEN";

/// A shim that was executed and waits for its plan. Dropping it makes the shim exit.
pub struct Shim {
    // Dropped in this order: the shim exits when the channel closes, and is then reaped.
    control: Option<Control>,
    process: Option<Child>,
}

impl Shim {
    /// Executes this program as the shim of `session`, with its cookie. `stdin` becomes the command's
    /// standard input; the shim closes its own copy. `/proc/self/exe` is the running program, even if its
    /// file was replaced.
    pub fn execute(session: &SessionId, stdin: Stdio) -> Result<Shim, StartError> {
        reap_watchers();
        let (ours, theirs) = UnixStream::pair()?;
        let process = Command::new(this_program()?)
            .arg(SHIM_WORD)
            .arg(session.as_str())
            .env(COOKIE, session.as_str())
            .env_remove(SERVER_SECRET)
            .stdin(stdin)
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::null())
            .spawn()?;
        // Before it receives the plan.
        let shim = Shim { control: Some(Control::over(ours)), process: Some(process) };
        shim.process.as_ref().map_or(Ok(()), restore_descriptor_limit)?;
        Ok(shim)
    }
}

/// Starts a shim for a command that already runs and lost its own. Returns once it watches: `true`, or
/// `false` if it was no longer needed.
pub(crate) fn start_watcher(plan: &Plan) -> io::Result<bool> {
    let mut shim = Shim::execute(&plan.session, Stdio::null()).map_err(io::Error::other)?;
    let control = shim.control.as_mut().ok_or_else(|| io::Error::other("the supervisor is gone"))?;
    control.send(plan)?;
    match control.receive()? {
        Some(FromShim::Executed) => {
            // It keeps running by itself, and `reap_watchers` reaps it.
            keep_watcher(shim.process.take());
            Ok(true)
        }
        Some(FromShim::NotNeeded) => Ok(false),
        Some(FromShim::Failed { why }) => Err(io::Error::other(why)),
        _ => Err(io::Error::other("the supervisor exited before it watched the command")),
    }
}

/// The watchers that this process started and has not reaped yet.
static WATCHERS: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Reaps exited watchers, so that a long-running process keeps no zombies. Does not block. A watcher is a
/// supervisor that a recovery started for a command that already runs; every start and every recovery calls
/// this, and a server calls it whenever a child exits.
pub fn reap_watchers() {
    watchers().retain_mut(|watcher| matches!(watcher.try_wait(), Ok(None)));
}

fn keep_watcher(watcher: Option<Child>) {
    watchers().extend(watcher);
    reap_watchers();
}

fn watchers() -> MutexGuard<'static, Vec<Child>> {
    WATCHERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the path of this program, which is valid even if its file was replaced.
pub(crate) fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { std::env::current_exe() }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // Its gate never opens now, and the shim cleans up by itself.
        self.control = None;
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
        }
    }
}

/// Starts `session` according to `plan`, under a `shim` that was executed for it. Returns once its command
/// has been executed.
///
/// `open_store` is called while the shim prepares the command. `clock` is read immediately before the record
/// is written.
pub async fn start(
    open_store: impl FnOnce() -> Result<Box<dyn Store>, StoreError>,
    session: Session,
    plan: &Plan,
    mut shim: Shim,
    clock: fn() -> Time,
) -> Result<Started, StartError> {
    let mut control = shim.control.take().ok_or_else(|| StartError::shim("it already received a plan"))?;
    let (session, store) = match record_and_run(open_store, session, plan, &mut control, clock).await {
        Ok(recorded) => recorded,
        Err(error) => {
            drop(control);
            return Err(error);
        }
    };
    match shim.process.take() {
        Some(process) => Ok(Started { session, shim: process, store }),
        None => Err(StartError::shim("it already received a plan")),
    }
}

async fn record_and_run(
    open_store: impl FnOnce() -> Result<Box<dyn Store>, StoreError>,
    mut session: Session,
    plan: &Plan,
    control: &mut Control,
    clock: fn() -> Time,
) -> Result<(Session, Box<dyn Store>), StartError> {
    control.send(plan)?;
    let store = match open_store() {
        Ok(store) => store,
        Err(error) => {
            control.send(&FromStarter::CalledOff)?;
            return Err(error.into());
        }
    };
    let ready = match control.receive()? {
        Some(FromShim::Ready(ready)) => *ready,
        Some(FromShim::Failed { why }) => return Err(StartError::Shim { why }),
        _ => return Err(StartError::shim("it exited before the command was ready")),
    };
    fill_in(&mut session, plan, ready, clock());
    // With a worktree, it was recorded before the worktree was created; a later change by another process
    // wins.
    let recorded = session.revision > 0;
    let batch = Batch::new();
    let batch = if recorded { batch.replace(session.clone()) } else { batch.insert(session.clone()) };
    match store.commit(batch).await {
        Ok(committed) => session.revision = committed.revision_of(&session.id),
        Err(error) => {
            // The result of a failed commit is unknown: the shim makes sure that no record says that it runs.
            control.send(&FromStarter::NotRecorded)?;
            return Err(error.into());
        }
    }
    control.send(&FromStarter::Recorded { store: store.describe().uuid })?;
    match control.receive()? {
        Some(FromShim::Executed) => Ok((session, store)),
        Some(FromShim::NotExecuted { errno, doing }) => Err(StartError::NotExecuted { doing, errno }),
        _ => Err(StartError::shim("it exited before the command was executed")),
    }
}

fn fill_in(session: &mut Session, plan: &Plan, ready: Ready, now: Time) {
    session.status = Status::Running;
    session.process = Some(ready.process);
    session.supervisor = Some(ready.supervisor);
    session.cgroup = ready.cgroup;
    session.containment = ready.containment.map(|by| by.as_str().to_owned());
    session.limit_mark = ready.limit_mark;
    session.started_at = Some(now);
    session.deadline_at = plan.timeout.map(|timeout| now.saturating_add(timeout));
    session.log = Some(Log {
        path: plan.log_path.clone(),
        stderr_path: plan.stderr_path.clone(),
        extra: serde_json::Map::new(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i9_exited_watcher_leaves_no_zombie() {
        let watcher = Command::new("true").spawn().unwrap();
        let stat = format!("/proc/{}/stat", watcher.id());
        keep_watcher(Some(watcher));
        let begun = std::time::Instant::now();
        while std::fs::exists(&stat).unwrap() {
            assert!(begun.elapsed().as_secs() < 60, "it is still a child of this process");
            reap_watchers();
            std::thread::yield_now();
        }
        assert!(watchers().is_empty());
    }
}
