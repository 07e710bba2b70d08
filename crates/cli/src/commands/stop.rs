//! `sexton stop`: end sessions, with every process of theirs.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde_json::json;
use sexton_core::duration::parse_duration;
use sexton_core::session::find_session;
use sexton_core::{Query, SessionId, Store};
use sexton_embed::{stop_policy, this_host};
use sexton_supervise::Stopped;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::signal::parse_signal;

/// End sessions, with every process of theirs; return when they are gone.
#[derive(Args)]
#[command(group = ArgGroup::new("which"))]
#[command(after_help = "\
Examples:
  sexton stop nightly              SIGINT, at half of the grace SIGTERM, at its end SIGKILL
  sexton stop k3v9 m2x7 --grace 30s
  sexton stop --all --force        everything that runs, at once")]
pub struct StopArgs {
    /// Ids, beginnings of ids, or names
    #[arg(value_name = "ID", group = "which")]
    sessions: Vec<String>,
    /// Every session that runs
    #[arg(long, group = "which")]
    all: bool,
    /// SIGKILL at once
    #[arg(long, conflicts_with_all = ["grace", "signal"])]
    force: bool,
    /// How long they have [default: stop.grace, 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    grace: Option<Duration>,
    /// What they are told first, instead of SIGINT
    #[arg(long, value_name = "SIGNAL", value_parser = parse_signal)]
    signal: Option<i32>,
}

/// Stops the sessions.
pub async fn run(args: &StopArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    if args.sessions.is_empty() && !args.all {
        return Err(ask_which(context).await?);
    }
    let store = context.open_for_writing()?;
    let ids = chosen(args, store.as_ref()).await?;
    if ids.is_empty() {
        context.screen.note("no session is running");
    }
    let probe = context.open_probe()?;
    let grace = args.grace.unwrap_or(context.config.stop_grace.value);
    let mut policy = stop_policy(if args.force { Duration::ZERO } else { grace });
    policy.first_signal = args.signal.unwrap_or(policy.first_signal);
    let stopped = context.stop(store.as_ref(), probe.as_ref(), &ids, &policy).await?;
    report(&stopped, context)
}

/// How many running sessions are named to somebody who named none.
const NAMED: usize = 5;

/// What to say to somebody who did not say which. Nothing is opened for writing, and nothing is made.
async fn ask_which(context: &mut Context<'_>) -> Result<Failure, Failure> {
    let store = context.open_for_reading()?;
    let active = store.list(&Query::active()).await?.sessions;
    if active.is_empty() {
        let failure = Failure::usage("nothing was named to stop, and no session is running");
        return Ok(failure.hint("`sexton ps -a` shows finished ones"));
    }
    let names = active.iter().map(|session| session.name.as_deref().unwrap_or(session.id.as_str()));
    let mut named: Vec<_> = names.take(NAMED).collect();
    if active.len() > NAMED {
        named.push("…");
    }
    let failure = Failure::usage(format!("nothing was named to stop; running: {}", named.join(", ")));
    Ok(failure.hint(format!("`sexton stop {}` ends one, `sexton stop --all` all of them", named[0])))
}

async fn chosen(args: &StopArgs, store: &dyn Store) -> Result<Vec<SessionId>, Failure> {
    if args.all {
        let here = this_host();
        let active = store.list(&Query::active()).await?.sessions.into_iter();
        return Ok(active.filter(|session| session.host.is_here(&here)).map(|session| session.id).collect());
    }
    let mut ids = Vec::new();
    for name in &args.sessions {
        let session = find_session(store, name).await?;
        if session.status.is_active() && !session.host.is_here(&this_host()) {
            let (id, host) = (&session.id, &session.host.hostname);
            return Err(Failure::new(format!("session {id} runs on another host ({host})"))
                .hint(format!("stop it there: ssh {host} sexton stop {id}")));
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
            screen
                .warn(&format!("session {id}: process {} is left: {}", survivor.identity.pid, survivor.why));
        }
        if screen.json {
            continue;
        }
        match (one.had_ended, one.survivors.is_empty()) {
            (true, _) => screen.note(&format!("session {id} has ended already ({})", one.session.status)),
            (false, true) => screen.note(&format!("session {id} is {}", one.session.status)),
            (false, false) => screen.note(&format!("session {id} could not be ended whole")),
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
