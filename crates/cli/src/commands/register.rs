//! `sexton register`: tracks a process that another program started.

use std::path::{Path, PathBuf};

use clap::Args;
use rustix::process::geteuid;
use sexton_core::identity::Match;
use sexton_core::probe::{ProcessDetails, lineage};
use sexton_core::session::{OnOwnerDeath, Worktree};
use sexton_core::{Batch, ProbeError, ProcessProbe, Query, Session, SessionId, Status, Store};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::labels::LabelArgs;
use sexton_service::{Labels, require_owner};

/// Track a process that another program started, and print the session id.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton register --pid 4711 --name nightly --ticket T-12
  id=$(sexton register --pid $! --worktree ../wt); …; sexton finish $id --code $?")]
pub struct RegisterArgs {
    /// Process to track
    #[arg(long, value_name = "PID")]
    pid: u32,
    /// Git worktree of the process; recorded, never removed
    #[arg(long, value_name = "PATH")]
    worktree: Option<PathBuf>,
    /// Owner process; the session becomes an orphan when the owner exits
    #[arg(long, value_name = "PID")]
    owner_pid: Option<u32>,
    #[command(flatten)]
    labels: LabelArgs,
}

/// Records the process after verifying its identity and that it may be tracked.
pub async fn run(args: RegisterArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let mut session = Session::new(SessionId::random(), context.require_host()?, context.now);
    Labels::from(args.labels).apply(&mut session, context.now)?;
    let probe = context.open_probe()?;
    let details = require_trackable(probe.as_ref(), args.pid).await?;
    session.status = Status::Running;
    session.probe = Some(probe.name().to_owned());
    session.started_at = Some(context.now);
    session.command = details.command.into_iter().map(Into::into).collect();
    session.cwd = details.cwd.map(Into::into);
    session.process = Some(details.identity);
    session.worktree = args.worktree.as_deref().map(recorded_worktree).transpose()?;
    session.on_owner_death = OnOwnerDeath::Keep;
    if let Some(pid) = args.owner_pid {
        session.owner = Some(require_owner(probe.as_ref(), pid).await?);
        session.on_owner_death = OnOwnerDeath::End;
    }
    let store = context.open_for_writing()?;
    require_untracked(&session, store.as_ref()).await?;
    let id = session.id.clone();
    let committed = store.commit(Batch::new().insert(session.clone())).await?;
    session.revision = committed.revision_of(&session.id);
    if context.screen.json {
        context.screen.document(&session)?;
    } else {
        context.screen.line(id.as_str())?;
    }
    Ok(Exit::DONE)
}

/// Fails if an active session already has this process as its command or supervisor: two records of one process
/// would stop each other.
async fn require_untracked(session: &Session, store: &dyn Store) -> Result<(), Failure> {
    let Some(process) = &session.process else { return Ok(()) };
    for other in store.list(&Query::active()).await?.sessions {
        let known = other.process.iter().chain(&other.supervisor);
        if known.into_iter().any(|known| known.compare(process) == Match::Same) {
            let (pid, id) = (process.pid, &other.id);
            return Err(Failure::new(format!(
                "cannot register process {pid}: it already belongs to session {id}"
            )));
        }
    }
    Ok(())
}

/// Fails for processes that Sexton must never stop: kernel threads, processes of other users, and ancestors of
/// this command.
async fn require_trackable(probe: &dyn ProcessProbe, pid: u32) -> Result<ProcessDetails, Failure> {
    let details = probe.describe(pid).await.map_err(|error| match error {
        ProbeError::Gone { .. } => Failure::new(format!("cannot register process {pid}: no such process")),
        other => other.into(),
    })?;
    let refuse = |why: &str| Err(Failure::new(format!("cannot register process {pid}: {why}")));
    if details.kernel_thread {
        return refuse("it is a kernel thread");
    }
    if lineage(probe, std::process::id()).await?.iter().any(|ancestor| ancestor.pid == pid) {
        return refuse("it is an ancestor of this command");
    }
    match details.uid {
        Some(uid) if uid == geteuid().as_raw() => Ok(details),
        Some(uid) => refuse(&format!("it belongs to another user (uid {uid})")),
        None => refuse("its user cannot be determined"),
    }
}

fn recorded_worktree(path: &Path) -> Result<Worktree, Failure> {
    let absolute = path
        .canonicalize()
        .map_err(|error| Failure::usage(format!("--worktree {}: {error}", path.display())))?;
    if !absolute.is_dir() {
        return Err(Failure::usage(format!("--worktree {}: not a directory", path.display())));
    }
    Ok(Worktree {
        path: absolute.into(),
        root: None,
        repo: None,
        branch: None,
        base: None,
        extra: serde_json::Map::new(),
    })
}
