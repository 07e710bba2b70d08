//! `sexton forget`: marks unreachable sessions as gone.

use clap::Args;
use sexton_core::recover::{Forgotten, Outcome, forget};
use sexton_core::session::find_session;
use sexton_core::{Query, SessionId};
use sexton_service::Tools;
use sexton_supervise::raise_descriptor_limit;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Mark unreachable sessions as gone.
///
/// Use it for sessions whose machine or container no longer exists. No process receives a signal. The work in a
/// worktree is saved, and the worktree is removed unless a process uses it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton forget k3v9               its container or machine no longer exists
  sexton forget --host old-laptop  all sessions of a decommissioned machine, or of this machine's former name")]
pub struct ForgetArgs {
    /// Session ids, prefixes of ids, or names
    #[arg(value_name = "ID", required_unless_present = "host", conflicts_with = "host")]
    sessions: Vec<String>,
    /// All unsettled sessions of this other host
    #[arg(long, value_name = "HOSTNAME")]
    host: Option<String>,
}

/// Returns the unsettled sessions of the other host `host`. Sessions of this machine are excluded, even if they were
/// recorded under that host name.
async fn list_unsettled(host: &str, tools: &Tools, context: &Context<'_>) -> Result<Vec<SessionId>, Failure> {
    let here = context.here(tools.probe.as_ref()).await?;
    let unsettled = tools.store.list(&Query::unsettled()).await?.sessions.into_iter();
    let (elsewhere, ours): (Vec<_>, Vec<_>) =
        unsettled.filter(|session| session.host.hostname == host).partition(|one| one.is_elsewhere(&here));
    if elsewhere.is_empty() {
        context.screen.note(&format!("no unsettled sessions of another host {host}"));
    }
    if !ours.is_empty() {
        let what =
            format!("{} sessions of {host} were started on this machine and were not changed", ours.len());
        context.screen.note(&what);
    }
    Ok(elsewhere.into_iter().map(|session| session.id).collect())
}

/// Marks each of the sessions as gone.
pub async fn run(args: &ForgetArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let tools = context.tools_for_writing()?;
    raise_descriptor_limit();
    let mut ids = match &args.host {
        None => Vec::new(),
        Some(host) => list_unsettled(host, &tools, context).await?,
    };
    for name in &args.sessions {
        let id = find_session(tools.store.as_ref(), name).await?.id;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let mut reports = Vec::new();
    let mut exit = Exit::DONE;
    for id in &ids {
        match forget(&tools.recovery_context(), id).await? {
            Forgotten::Done(report) => {
                if report.outcome == Outcome::Failed {
                    exit = Exit::PARTLY_DONE;
                }
                if let Some(error) = &report.error {
                    context.screen.warn(&format!("session {id}: {error}"));
                }
                context.screen.note(&format!("session {id} is {}", report.status));
                if report.rescue_ref.is_some() {
                    context.screen.hint(&format!("run `sexton rescue restore {id}` to restore its work"));
                }
                reports.push(report);
            }
            Forgotten::AlreadyFinished(status) => {
                context.screen.note(&format!("session {id} has already ended ({status})"));
            }
            Forgotten::Running => {
                return Err(Failure::new(format!("session {id} is running on this machine"))
                    .hint(format!("`sexton stop {id}` stops it")));
            }
            Forgotten::NoSuchSession => {
                let failure = Failure::new(format!("session {id} no longer exists"));
                return Err(Failure { exit: Exit::NO_SUCH_SESSION, ..failure });
            }
        }
    }
    if context.screen.json {
        context.screen.document(&reports)?;
    }
    Ok(exit)
}
