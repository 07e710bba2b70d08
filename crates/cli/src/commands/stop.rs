//! `sexton stop`: stops sessions and all of their processes.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::json;
use sexton_core::duration::parse_duration;
use sexton_core::session::find_session;
use sexton_core::{Incarnation, Query, SessionId, Store};
use sexton_service::stop_policy;
use sexton_supervise::{Stopped, raise_descriptor_limit};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::signal::parse_signal;

/// Stop sessions and all of their processes, and wait until they have exited.
#[derive(Args)]
#[command(group = ArgGroup::new("which"))]
#[command(after_help = "\
Examples:
  sexton stop nightly              send SIGINT, SIGTERM after half of the grace period, SIGKILL at its end
  sexton stop k3v9 m2x7 --grace 30s
  sexton stop --all --force        kill all running sessions immediately")]
pub struct StopArgs {
    /// Session ids, prefixes of ids, or names
    #[arg(value_name = "ID", group = "which")]
    sessions: Vec<String>,
    /// Stop all running sessions
    #[arg(long, group = "which")]
    all: bool,
    /// Send SIGKILL immediately
    #[arg(long, conflicts_with_all = ["grace", "signal"])]
    force: bool,
    /// Grace period before SIGKILL [default: stop.grace, 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    grace: Option<Duration>,
    /// First signal to send [default: SIGINT]
    #[arg(long, value_name = "SIGNAL", value_parser = parse_signal)]
    signal: Option<i32>,
}

/// Stops the sessions.
pub async fn run(args: &StopArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    if args.sessions.is_empty() && !args.all {
        return Err(missing_session(context).await?);
    }
    raise_descriptor_limit();
    let store = context.open_for_writing()?;
    let probe = context.open_probe()?;
    let here = context.here(probe.as_ref()).await?;
    let ids = chosen(args, store.as_ref(), &here).await?;
    if ids.is_empty() {
        context.screen.note("no session is running");
    }
    let grace = args.grace.unwrap_or(context.config.stop_grace.value);
    let mut policy = stop_policy(if args.force { Duration::ZERO } else { grace });
    policy.first_signal = args.signal.unwrap_or(policy.first_signal);
    let stopped = context.stop(store.as_ref(), probe.as_ref(), &ids, &policy).await?;
    report(&stopped, context)
}

/// The maximum number of running sessions to list if no session was given.
const NAMED: usize = 5;

/// Returns the error for a missing session argument. Opens the store only for reading, so that it creates nothing.
async fn missing_session(context: &mut Context<'_>) -> Result<Failure, Failure> {
    let store = context.open_for_reading()?;
    let active = store.list(&Query::active()).await?.sessions;
    if active.is_empty() {
        let failure = Failure::usage("no session given, and no session is running");
        return Ok(failure.hint("`sexton ps -a` lists finished sessions"));
    }
    let names = active.iter().map(|session| session.name.as_deref().unwrap_or(session.id.as_str()));
    let mut named: Vec<_> = names.take(NAMED).collect();
    if active.len() > NAMED {
        named.push("…");
    }
    let failure = Failure::usage(format!("no session given; running: {}", named.join(", ")));
    Ok(failure.hint(format!("`sexton stop {}` stops one, `sexton stop --all` stops all", named[0])))
}

async fn chosen(args: &StopArgs, store: &dyn Store, here: &Incarnation) -> Result<Vec<SessionId>, Failure> {
    if args.all {
        let active = store.list(&Query::active()).await?.sessions.into_iter();
        return Ok(active.filter(|session| !session.is_elsewhere(here)).map(|session| session.id).collect());
    }
    let mut ids = Vec::new();
    for name in &args.sessions {
        let session = find_session(store, name).await?;
        if session.status.is_active() && session.is_elsewhere(here) {
            let (id, host) = (&session.id, &session.host.hostname);
            return Err(Failure::new(format!("session {id} is running on another host ({host})"))
                .hint(format!("stop it on that host: ssh {host} sexton stop {id}")));
        }
        if !ids.contains(&session.id) {
            ids.push(session.id);
        }
    }
    Ok(ids)
}

fn report(stopped: &[Stopped], context: &Context<'_>) -> Result<Exit, Failure> {
    let screen = &context.screen;
    for one in stopped {
        let id = &one.session.id;
        for survivor in &one.survivors {
            screen.warn(&format!(
                "session {id}: process {} is still alive: {}",
                survivor.identity.pid, survivor.why
            ));
        }
        if screen.json {
            continue;
        }
        match (one.had_ended, one.survivors.is_empty()) {
            (true, _) => screen.note(&format!("session {id} has already ended ({})", one.session.status)),
            (false, true) => screen.note(&format!("session {id} is {}", one.session.status)),
            (false, false) => screen.note(&format!("session {id} could not be stopped completely")),
        }
    }
    if screen.json {
        let documents: Vec<_> = stopped
            .iter()
            .map(|one| {
                let survivors: Vec<_> = one.survivors.iter().map(|survivor| survivor.identity.pid).collect();
                json!({"id": one.session.id, "status": one.session.status, "had_ended": one.had_ended,
                       "survivors": survivors})
            })
            .collect();
        screen.document(&documents)?;
    }
    let whole = stopped.iter().all(|one| one.survivors.is_empty());
    Ok(if whole { Exit::DONE } else { Exit::PARTLY_DONE })
}
