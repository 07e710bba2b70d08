//! `sexton show`: shows one session's record.

use clap::Args;
use sexton_core::duration::format_age;
use sexton_core::session::{Exit as SessionExit, LoopState, find_session};
use sexton_core::{ProcessIdentity, Session, Time};

use super::ps::{Listed, command_line};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::probing::{Observed, observe};
use crate::screen::{Tone, local_time, visible};
use crate::signal::signal_name;
use sexton_supervise::SessionDir;

/// Show one session's record.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton show k3v9                 by a prefix of its id
  sexton show nightly              by its name
  sexton show nightly --json       print the whole record")]
pub struct ShowArgs {
    /// Session id, prefix of an id, or name
    #[arg(value_name = "ID")]
    session: String,
}

/// Shows the session.
pub async fn run(args: &ShowArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let store = context.open_for_reading()?;
    let mut session = find_session(store.as_ref(), &args.session).await?;
    context.overlay_exits([&mut session]).await?;
    let observed = if session.status.is_active() {
        let probe = context.open_probe()?;
        observe(probe.as_ref(), &context.here(probe.as_ref()).await?, &session).await
    } else {
        None
    };
    if context.screen.json {
        context.screen.document(&Listed { session, observed })?;
        return Ok(Exit::DONE);
    }
    let unbounded = SessionDir::of(context.state_dir(), &session.id).find_unbounded();
    let lines = describe(&session, observed.as_ref(), context.now);
    let unbounded = unbounded.map(|why| ("log bound", format!("cannot be enforced: {why}")));
    for (label, value) in lines.into_iter().chain(unbounded) {
        let label = context.screen.style().paint(Tone::Faint, &format!("{label:>12}"));
        context.screen.line(&format!("{label}  {}", visible(&value)))?;
    }
    Ok(Exit::DONE)
}

/// Returns the lines to print. Unknown values are omitted.
fn describe(session: &Session, observed: Option<&Observed>, now: Time) -> Vec<(&'static str, String)> {
    let moment = |time: Time| format!("{} ({} ago)", local_time(time), format_age(time.age_at(now)));
    let mut lines = vec![("id", session.id.to_string())];
    let mut add = |label, value: Option<String>| lines.extend(value.map(|value| (label, value)));
    add("name", session.name.clone());
    add("ticket", session.ticket.clone());
    add("status", Some(session.status.to_string()));
    add("seen", observed.map(seen));
    add("exit", session.exit.as_ref().map(ending));
    add("command", Some(command_line(session)).filter(|command| !command.is_empty()));
    add("directory", session.cwd.as_ref().map(|cwd| cwd.display().to_string()));
    add("process", session.process.as_ref().map(process));
    add("supervisor", session.supervisor.as_ref().map(process));
    add("owner", session.owner.as_ref().map(process));
    add("containment", session.containment.as_ref().map(|by| containment(by, session)));
    add("host", Some(session.host.hostname.clone()));
    add(
        "agent",
        session.agent.as_ref().map(|agent| {
            let parts = [&agent.kind, &agent.session_id, &agent.thread_id];
            parts.into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")
        }),
    );
    add("loop", session.loop_state.as_ref().filter(|state| !state.is_blank()).map(describe_loop));
    if let Some(worktree) = &session.worktree {
        add("worktree", Some(worktree.path.display().to_string()));
        add("branch", worktree.branch.clone());
    }
    for (key, value) in &session.tags {
        add("tag", Some(format!("{key}={value}")));
    }
    add("created", Some(moment(session.created_at)));
    add("started", session.started_at.map(moment));
    add("finished", session.finished_at.map(moment));
    if let Some(recovery) = &session.recovery {
        add("recovered", Some(recovery.cause.clone()));
        add("because", recovery.evidence.clone());
        add("rescue", recovery.rescue_ref.clone());
    }
    add("log", session.log.as_ref().map(|log| log.path.display().to_string()));
    lines
}

/// Describes the containment: its kind and cgroup.
fn containment(by: &str, session: &Session) -> String {
    let by = by.escape_debug();
    match &session.cgroup {
        Some(cgroup) => format!("{by} ({})", cgroup.path.display()),
        None => by.to_string(),
    }
}

fn describe_loop(state: &LoopState) -> String {
    let mut parts = vec![if state.active { "active" } else { "not active" }.to_owned()];
    parts.extend(state.phase.as_ref().map(|phase| phase.escape_debug().to_string()));
    parts.extend(state.iteration.map(|iteration| match state.max_iterations {
        Some(most) => format!("iteration {iteration} of {most}"),
        None => format!("iteration {iteration}"),
    }));
    parts.join(", ")
}

fn seen(observed: &Observed) -> String {
    match observed {
        Observed::Unknown(why) => format!("unknown: {why}"),
        other => other.as_str().to_owned(),
    }
}

fn process(identity: &ProcessIdentity) -> String {
    match &identity.exe {
        Some(exe) => format!("{} ({})", identity.pid, exe.display()),
        None => identity.pid.to_string(),
    }
}

/// Describes how a command ended.
pub fn ending(exit: &SessionExit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("code {code}"),
        (None, Some(signal)) => signal_name(signal),
        (None, None) => "unknown".to_owned(),
    }
}
