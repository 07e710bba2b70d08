//! The starter's side: executes the shim, records the session, and only then lets the command run.
//!
//! Executing a program takes longer than anything else here, so the shim is executed first ([`Shim::execute`])
//! and finds out what to do when the starter knows. A shim that is never told makes nothing and leaves.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sexton_core::probe::COOKIE;
use sexton_core::session::Log;
use sexton_core::{Batch, Session, SessionId, Status, Store, StoreError, Time};

use crate::control::{Control, FromShim, FromStarter, Ready};
use crate::plan::Plan;
use crate::shim::SHIM_WORD;

/// A session whose command runs.
pub struct Started {
    /// Its record, as committed.
    pub session: Session,
    /// Its shim, which is a child of this process. One that is not waited for lives on.
    pub shim: Child,
    /// The store in which it is recorded.
    pub store: Box<dyn Store>,
}

/// Why a session did not start. Nothing runs then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The command could not be executed; a `failed` record says so.
    #[error("cannot {doing}: {}", io::Error::from_raw_os_error(*.errno))]
    NotExecuted {
        /// What was tried.
        doing: String,
        /// The number of the error.
        errno: i32,
    },
    /// The shim could not be started, or gave up.
    #[error("the supervisor did not start: {why}")]
    Shim {
        /// Why.
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

/// What admits clients to an MCP server is none of the business of what that server starts.
const SERVER_SECRET: &str = "SEXTON_MCP_TOKEN";

/// A shim that was executed and waits to be told what to do. Dropping it sends it away.
pub struct Shim {
    // Dropped in this order: the shim leaves when the channel closes, and is reaped then.
    control: Option<Control>,
    process: Option<Child>,
}

impl Shim {
    /// Executes this very program as the shim of `session`, with its cookie. `stdin` is what the command
    /// will read; the shim lets go of it. `/proc/self/exe` is the program that runs, even where its file was
    /// replaced meanwhile.
    pub fn execute(session: &SessionId, stdin: Stdio) -> Result<Shim, StartError> {
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
        Ok(Shim { control: Some(Control::over(ours)), process: Some(process) })
    }
}

/// Starts a shim for a command that runs already and lost its own. Returns once it watches.
pub(crate) fn start_watcher(plan: &Plan) -> io::Result<()> {
    let mut shim = Shim::execute(&plan.session, Stdio::null()).map_err(io::Error::other)?;
    let control = shim.control.as_mut().ok_or_else(|| io::Error::other("the supervisor is gone"))?;
    control.send(plan)?;
    match control.receive()? {
        Some(FromShim::Executed) => {
            // It lives on by itself.
            shim.process = None;
            Ok(())
        }
        Some(FromShim::Failed { why }) => Err(io::Error::other(why)),
        _ => Err(io::Error::other("the supervisor ended before it watched")),
    }
}

/// This very program, even where its file was replaced meanwhile.
pub(crate) fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { std::env::current_exe() }
}

impl Drop for Shim {
    fn drop(&mut self) {
        // Its gate never opens now, and it tidies up after itself.
        self.control = None;
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
        }
    }
}

/// Starts `session` as `plan` says, under a `shim` that was executed for it. Returns once its command really
/// runs.
///
/// `open_store` is called while the shim prepares the command. `clock` is read when the record is about to be
/// written.
pub async fn start(
    open_store: impl FnOnce() -> Result<Box<dyn Store>, StoreError>,
    session: Session,
    plan: &Plan,
    mut shim: Shim,
    clock: fn() -> Time,
) -> Result<Started, StartError> {
    let mut control = shim.control.take().ok_or_else(|| StartError::shim("it was told already"))?;
    let (session, store) = match record_and_run(open_store, session, plan, &mut control, clock).await {
        Ok(recorded) => recorded,
        Err(error) => {
            drop(control);
            return Err(error);
        }
    };
    match shim.process.take() {
        Some(process) => Ok(Started { session, shim: process, store }),
        None => Err(StartError::shim("it was told already")),
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
        _ => return Err(StartError::shim("it ended before the command was ready")),
    };
    fill_in(&mut session, plan, ready, clock());
    // With a worktree it was recorded before that was made; whoever changed the record since has won.
    let recorded = session.revision > 0;
    let batch = Batch::new();
    let batch = if recorded { batch.replace(session.clone()) } else { batch.insert(session.clone()) };
    match store.commit(batch).await {
        Ok(committed) => session.revision = committed.revision_of(&session.id),
        Err(error) => {
            // A failed commit means "unknown": the shim makes sure that no record says that it runs.
            control.send(&FromStarter::NotRecorded)?;
            return Err(error.into());
        }
    }
    control.send(&FromStarter::Recorded { store: store.describe().uuid })?;
    match control.receive()? {
        Some(FromShim::Executed) => Ok((session, store)),
        Some(FromShim::NotExecuted { errno, doing }) => Err(StartError::NotExecuted { doing, errno }),
        _ => Err(StartError::shim("it ended before the command was executed")),
    }
}

fn fill_in(session: &mut Session, plan: &Plan, ready: Ready, now: Time) {
    session.status = Status::Running;
    session.process = Some(ready.process);
    session.supervisor = Some(ready.supervisor);
    session.cgroup = ready.cgroup;
    session.started_at = Some(now);
    session.deadline_at = plan.timeout.map(|timeout| now.saturating_add(timeout));
    session.log = Some(Log {
        path: plan.log_path.clone(),
        stderr_path: plan.stderr_path.clone(),
        extra: serde_json::Map::new(),
    });
}
