//! `sexton logs`: a session's output, from the beginning, from the end, from a cursor, or as it comes.

use clap::Args;
use sexton_core::session::find_session;
use sexton_core::{Query, Session, Store};
use sexton_embed::{Output, overlay_exits, watch_session};
use sexton_supervise::{LogFollower, Woken};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::Screen;

/// Print a session's output.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton logs                      of the newest session
  sexton logs nightly -f           as it comes, until the session ends
  sexton logs nightly --tail 20    the last twenty lines
  sexton logs nightly --json --cursor 4096   what is new since, for a program")]
pub struct LogsArgs {
    /// Its id, the beginning of its id, or its name; the newest session without one
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// Go on until the session has ended
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines
    #[arg(long, value_name = "N", conflicts_with = "cursor")]
    tail: Option<usize>,
    /// From this byte on; pass back the cursor of the answer before
    #[arg(long, value_name = "BYTES")]
    cursor: Option<u64>,
    /// Standard error, of a session that was started with --split-output
    #[arg(long)]
    stderr: bool,
}

/// Prints the output.
pub async fn run(args: &LogsArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let store = context.open_for_reading()?;
    let session = require_session(args.session.as_deref(), store.as_ref()).await?;
    let mut log = Output::of(&session, args.stderr, args.cursor.unwrap_or(0))?;
    if let Some(lines) = args.tail {
        log.seek_to_tail(lines)?;
    }
    if args.follow {
        follow(&mut log, session, store.as_ref(), context).await?;
    } else {
        let ended = is_ended(session, context)?;
        print(&mut log, context.screen, ended, false)?;
    }
    Ok(Exit::DONE)
}

async fn require_session(named: Option<&str>, store: &dyn Store) -> Result<Session, Failure> {
    match named {
        Some(name) => Ok(find_session(store, name).await?),
        None => {
            let newest = store.list(&Query::all().limit(1)).await?.sessions.into_iter().next();
            newest.ok_or_else(|| Failure {
                exit: Exit::NO_SUCH_SESSION,
                ..Failure::new("there are no sessions").hint("`sexton run -- COMMAND` starts one")
            })
        }
    }
}

fn is_ended(mut session: Session, context: &Context<'_>) -> Result<bool, Failure> {
    overlay_exits(&context.pending_exits(), [&mut session])?;
    Ok(!session.status.is_active())
}

/// Prints what is there, part by part. As JSON, one document answers one question and the next cursor
/// asks the next; `all` prints as many as it takes.
fn print(log: &mut Output, screen: &Screen, ended: bool, all: bool) -> Result<(), Failure> {
    for parts in 0.. {
        if screen.json {
            let part = log.read_part(ended)?;
            let (done, eof) = (part.output.is_empty(), part.eof);
            if parts == 0 && !all || !done || eof {
                screen.json_line(&part)?;
            }
            if done || eof || !all {
                return Ok(());
            }
            continue;
        }
        let begun_at = log.cursor();
        let chunk = log.read()?;
        let done = chunk.bytes.is_empty();
        if chunk.truncated && !(done && begun_at == 0) {
            screen.warn("a part is no longer there: the log was bounded or truncated");
        }
        if done {
            return Ok(());
        }
        screen.raw(&chunk.bytes)?;
    }
    Ok(())
}

/// Prints what comes until the session has ended.
async fn follow(
    log: &mut Output,
    session: Session,
    store: &dyn Store,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("cannot follow the log: {error}"));
    let follower = LogFollower::new(vec![log.path().to_owned()]).map_err(failed)?;
    let probe = context.open_probe()?;
    let mut session = session;
    loop {
        follower.arm().map_err(failed)?;
        let watch = watch_session(probe.as_ref(), &session);
        let ended = watch.is_none();
        print(log, context.screen, ended, true)?;
        let Some(watch) = watch else { return Ok(()) };
        if follower.wait(Some(&watch), None, None).map_err(failed)? == Woken::Ended {
            session = store.load(&session.id).await?.unwrap_or(session);
        }
    }
}
