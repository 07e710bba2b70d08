//! `sexton wait`: blocks until sessions end.

use std::time::{Duration, Instant};

use clap::Args;
use sexton_core::duration::parse_duration;
use sexton_core::session::find_session;

use crate::context::Context;
use crate::ending::report_ends;
use crate::failure::{Exit, Failure};

/// Block until sessions end. Exits with the first exit code of the sessions that is not 0.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton wait nightly && echo succeeded
  sexton wait k3v9 m2x7 --timeout 30m")]
pub struct WaitArgs {
    /// Session ids, prefixes of ids, or names
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<String>,
    /// Maximum time to wait; exit with code 123 if a session is still running
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

/// Waits for the sessions, in the given order.
pub async fn run(args: &WaitArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let until = args.timeout.map(|timeout| Instant::now() + timeout);
    let store = context.open_for_reading()?;
    let probe = context.open_probe()?;
    let mut sessions = Vec::new();
    for name in &args.sessions {
        sessions.push(find_session(store.as_ref(), name).await?);
    }
    let mut ended = Vec::new();
    let mut in_time = true;
    for session in sessions {
        let (session, has_ended) =
            context.wait_for_end(session, store.as_ref(), probe.as_ref(), until).await?;
        in_time &= has_ended;
        ended.push(session);
    }
    if context.screen.json {
        context.screen.document(&ended)?;
    }
    if !in_time {
        context.screen.note("timed out; a session is still running");
        return Ok(Exit::STILL_RUNNING);
    }
    Ok(report_ends(&ended, context.screen))
}
