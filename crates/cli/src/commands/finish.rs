//! `sexton finish`: records the exit of a registered session.

use clap::{ArgGroup, Args};
use sexton_core::Session;
use sexton_core::session::{Exit as SessionExit, find_session};
use sexton_core::store::update_session;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::probing::{Observed, observe};
use crate::signal::parse_signal;

/// Record the exit of a registered session.
#[derive(Args)]
#[command(group = ArgGroup::new("end").required(true))]
#[command(after_help = "\
Examples:
  sexton finish k3v9 --code 0
  sexton finish nightly --signal TERM")]
pub struct FinishArgs {
    /// Session id, prefix of an id, or name
    #[arg(value_name = "ID")]
    session: String,
    /// Exit code of the process
    #[arg(long, value_name = "N", group = "end", value_parser = clap::value_parser!(i32).range(0..=255))]
    code: Option<i32>,
    /// Signal that terminated the process
    #[arg(long, value_name = "SIGNAL", group = "end", value_parser = parse_signal)]
    signal: Option<i32>,
}

/// Records the exit. Fails while the process is running.
pub async fn run(args: &FinishArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let store = context.open_for_writing()?;
    let session = find_session(store.as_ref(), &args.session).await?;
    require_registered(&session)?;
    if session.status.is_active() {
        let probe = context.open_probe()?;
        let seen = observe(probe.as_ref(), &context.here(probe.as_ref()).await?, &session).await;
        if seen.as_ref().is_some_and(Observed::is_running) {
            let pid = session.process.as_ref().map_or(0, |process| process.pid);
            return Err(Failure::new(format!(
                "session {} has not ended: process {pid} is still running",
                session.id
            )));
        }
    }
    let exit = match (args.code, args.signal) {
        (Some(code), _) => SessionExit::exited(code),
        (None, signal) => SessionExit::signalled(signal.unwrap_or_default()),
    };
    let now = context.now;
    let finished = update_session(store.as_ref(), &session.id, |session| {
        let unrecorded = session.finished_at.is_none();
        session.finish(exit.clone(), now);
        unrecorded
    })
    .await?
    .unwrap_or(session);
    if finished.exit.as_ref() != Some(&exit) {
        return Err(Failure::new(format!("session {} has already ended ({})", finished.id, finished.status)));
    }
    if context.screen.json {
        context.screen.document(&finished)?;
    } else {
        context.screen.note(&format!("session {} is {}", finished.id, finished.status));
    }
    Ok(Exit::DONE)
}

fn require_registered(session: &Session) -> Result<(), Failure> {
    match &session.supervisor {
        Some(_) => Err(Failure::new(format!(
            "session {} was not registered: its supervisor records its exit",
            session.id
        ))),
        None => Ok(()),
    }
}
