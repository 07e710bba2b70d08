//! `sexton register`: track a process that something else started.

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
use sexton_embed::this_host;
use sexton_embed::{Labels, require_owner};

/// Track a process that something else started; prints the session's id.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton register --pid 4711 --name nightly --ticket T-12
  id=$(sexton register --pid $! --worktree ../wt); …; sexton finish $id --code $?")]
pub struct RegisterArgs {
    /// The process
    #[arg(long, value_name = "PID")]
    pid: u32,
    /// The git worktree it works in; recorded, never removed
    #[arg(long, value_name = "PATH")]
    worktree: Option<PathBuf>,
    /// The process whose death makes it an orphan
    #[arg(long, value_name = "PID")]
    owner_pid: Option<u32>,
    #[command(flatten)]
    labels: LabelArgs,
}

/// Records the process, once it is clear which one it is and that it may be tracked.
pub async fn run(args: RegisterArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let mut session = Session::new(SessionId::random(), this_host(), context.now);
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

/// Refuses a process that a session has already, as its command or its supervisor: two records of one
/// process would end each other.
async fn require_untracked(session: &Session, store: &dyn Store) -> Result<(), Failure> {
    let Some(process) = &session.process else { return Ok(()) };
    for other in store.list(&Query::active()).await?.sessions {
        let known = other.process.iter().chain(&other.supervisor);
        if known.into_iter().any(|known| known.compare(process) == Match::Same) {
            let (pid, id) = (process.pid, &other.id);
            return Err(Failure::new(format!("cannot register process {pid}: session {id} has it already")));
        }
    }
    Ok(())
}

/// Refuses what must never be ended through us: a part of the kernel, another user's process, and
/// whatever this command itself descends from.
async fn require_trackable(probe: &dyn ProcessProbe, pid: u32) -> Result<ProcessDetails, Failure> {
    let details = probe.describe(pid).await.map_err(|error| match error {
        ProbeError::Gone { .. } => {
            Failure::new(format!("cannot register process {pid}: there is no such process"))
        }
        other => other.into(),
    })?;
    let refuse = |why: &str| Err(Failure::new(format!("cannot register process {pid}: {why}")));
    if details.kernel_thread {
        return refuse("it is a part of the kernel");
    }
    if lineage(probe, std::process::id()).await?.iter().any(|ancestor| ancestor.pid == pid) {
        return refuse("this command descends from it");
    }
    match details.uid {
        Some(uid) if uid == geteuid().as_raw() => Ok(details),
        Some(uid) => refuse(&format!("it belongs to another user (uid {uid})")),
        None => refuse("its user cannot be seen"),
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
