//! `sexton logs`: prints a session's output from the beginning, the end or a cursor, or follows it.

use clap::Args;
use sexton_core::session::find_session;
use sexton_core::{Query, Session, Store};
use sexton_service::{Output, watch_session};
use sexton_supervise::{LogFollower, Woken};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::Screen;

/// Print a session's output.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton logs                      print the output of the newest session
  sexton logs nightly -f           follow the output until the session ends
  sexton logs nightly --tail 20    print the last 20 lines
  sexton logs nightly --json --cursor 4096   print the output after a cursor as JSON")]
pub struct LogsArgs {
    /// Session id, prefix of an id, or name [default: the newest session]
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// Follow the output until the session ends
    #[arg(short, long)]
    follow: bool,
    /// Number of lines to print from the end of the log
    #[arg(long, value_name = "N", conflicts_with = "cursor")]
    tail: Option<usize>,
    /// Start at this byte offset; use the cursor of the previous JSON document
    #[arg(long, value_name = "BYTES")]
    cursor: Option<u64>,
    /// Print standard error, for sessions started with --split-output
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
        let ended = is_ended(session, context).await?;
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

async fn is_ended(mut session: Session, context: &Context<'_>) -> Result<bool, Failure> {
    context.overlay_exits([&mut session]).await?;
    Ok(!session.status.is_active())
}

/// Prints the available output in parts. With JSON, prints one document, whose cursor is for the next call; with
/// `all`, prints as many documents as needed.
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
            screen.warn("part of the output is missing: the log was truncated or exceeded its size limit");
        }
        if done {
            return Ok(());
        }
        screen.raw(&chunk.bytes)?;
    }
    Ok(())
}

/// Prints new output until the session has ended.
async fn follow(
    log: &mut Output,
    session: Session,
    store: &dyn Store,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("cannot follow the log: {error}"));
    let follower = LogFollower::new(vec![log.path().to_owned()]);
    let probe = context.open_probe()?;
    context.require_here(&session, probe.as_ref()).await?;
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
