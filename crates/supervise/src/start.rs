//! The starter's side: executes the shim, records the session, and only then lets the command run.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sexton_core::probe::COOKIE;
use sexton_core::session::Log;
use sexton_core::{Batch, Session, Status, Store, StoreError, Time};

use crate::control::{Control, FromShim, FromStarter, Ready};
use crate::plan::Plan;
use crate::session_dir::SessionDir;
use crate::shim::SHIM_WORD;

/// A session whose command runs.
pub struct Started {
    /// Its record, as committed.
    pub session: Session,
    /// Its shim, which is a child of this process. One that is not waited for lives on.
    pub shim: Child,
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
    /// Its directory could not be made.
    #[error("cannot make {}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
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

/// Starts `session` as `plan` says. Returns once its command really runs.
///
/// `open_store` is called while the shim starts up. `stdin` is what the command reads; the shim lets go
/// of it. `clock` is read when the record is about to be written.
pub async fn start(
    open_store: impl FnOnce() -> Result<Box<dyn Store>, StoreError>,
    session: Session,
    plan: &Plan,
    stdin: Stdio,
    clock: fn() -> Time,
) -> Result<Started, StartError> {
    let directory = SessionDir::of(&plan.state_dir, &plan.session);
    let no_directory = |source| StartError::Directory { path: directory.path().to_owned(), source };
    directory.create().map_err(no_directory)?;
    let (mut shim, mut control) = execute_shim(plan, stdin)?;
    let recorded = record_and_run(open_store, session, plan, &mut control, clock).await;
    match recorded {
        Ok(session) => Ok(Started { session, shim }),
        Err(error) => {
            // The channel closes, the gate never opens, and the shim leaves, tidying up after itself.
            drop(control);
            let _ = shim.wait();
            Err(error)
        }
    }
}

async fn record_and_run(
    open_store: impl FnOnce() -> Result<Box<dyn Store>, StoreError>,
    mut session: Session,
    plan: &Plan,
    control: &mut Control,
    clock: fn() -> Time,
) -> Result<Session, StartError> {
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
    match store.commit(Batch::new().insert(session.clone())).await {
        Ok(committed) => session.revision = committed.revision,
        Err(error) => {
            // A failed commit means "unknown": the shim makes sure that no record says that it runs.
            control.send(&FromStarter::NotRecorded)?;
            return Err(error.into());
        }
    }
    if let Some(uuid) = store.describe().uuid {
        let directory = SessionDir::of(&plan.state_dir, &plan.session);
        let unmarked = |source| StartError::Directory { path: directory.path().to_owned(), source };
        directory.mark(&uuid, &plan.session).map_err(unmarked)?;
    }
    control.send(&FromStarter::Recorded)?;
    match control.receive()? {
        Some(FromShim::Executed) => Ok(session),
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

/// Executes this very program as the shim, with the new session's cookie. `/proc/self/exe` is the program
/// that runs, even where its file was replaced meanwhile.
fn execute_shim(plan: &Plan, stdin: Stdio) -> io::Result<(Child, Control)> {
    let (ours, theirs) = UnixStream::pair()?;
    let program =
        if cfg!(target_os = "linux") { PathBuf::from("/proc/self/exe") } else { std::env::current_exe()? };
    let child = Command::new(program)
        .arg(SHIM_WORD)
        .arg(plan.session.as_str())
        .env(COOKIE, plan.session.as_str())
        .env("SEXTON_STORE", &plan.store_url)
        .env("SEXTON_STATE_DIR", &plan.state_dir)
        .stdin(stdin)
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::null())
        .spawn()?;
    Ok((child, Control::over(ours)))
}
