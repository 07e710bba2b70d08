//! `sexton logs`: a session's output, from the beginning, from the end, from a cursor, or as it comes.

use std::path::Path;

use clap::Args;
use serde::Serialize;
use sexton_core::session::find_session;
use sexton_core::{ProcessProbe, Query, Session, Store};
use sexton_supervise::{LogChunk, LogFollower, LogReader, ProcessWatch, Watched, Woken, watch_process};

use crate::context::Context;
use crate::ending::overlay_exits;
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

/// A part of the output, as programs read it.
#[derive(Serialize)]
struct Part {
    output: String,
    cursor: u64,
    eof: bool,
    truncated: bool,
}

/// Prints the output.
pub async fn run(args: &LogsArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let store = context.open_for_reading()?;
    let session = require_session(args.session.as_deref(), store.as_ref()).await?;
    let path = log_path(&session, args.stderr)?;
    let mut log = Output::open(path, args)?;
    if args.follow {
        follow(&mut log, session, store.as_ref(), context).await?;
    } else {
        let ended = is_ended(session, context)?;
        log.print(context.screen, ended, false)?;
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

fn log_path(session: &Session, stderr: bool) -> Result<&Path, Failure> {
    let Some(log) = &session.log else {
        return Err(Failure::new(format!("session {} has no log: something else started it", session.id)));
    };
    match (stderr, &log.stderr_path) {
        (false, _) => Ok(log.path.as_path()),
        (true, Some(path)) => Ok(path.as_path()),
        (true, None) => Err(Failure::new(format!("session {} has both streams in one log", session.id))
            .hint("start it with --split-output to keep standard error apart")),
    }
}

fn is_ended(mut session: Session, context: &Context<'_>) -> Result<bool, Failure> {
    overlay_exits(&context.pending_exits(), [&mut session])?;
    Ok(!session.status.is_active())
}

/// A log, and how far it was printed.
struct Output {
    reader: LogReader,
    cursor: u64,
}

impl Output {
    fn open(path: &Path, args: &LogsArgs) -> Result<Output, Failure> {
        let failed = |error| Failure::new(format!("cannot read the log {}: {error}", path.display()));
        let mut reader = LogReader::open(path).map_err(failed)?;
        let cursor = match (args.tail, args.cursor) {
            (Some(lines), _) => reader.tail_cursor(lines).map_err(failed)?,
            (None, cursor) => cursor.unwrap_or(0),
        };
        Ok(Output { reader, cursor })
    }

    /// Prints what is there, part by part. As JSON, one document answers one question and the next cursor
    /// asks the next; `all` prints as many as it takes.
    fn print(&mut self, screen: &Screen, ended: bool, all: bool) -> Result<(), Failure> {
        for parts in 0.. {
            let begun_at = self.cursor;
            let chunk = self.read()?;
            let done = chunk.bytes.is_empty();
            if screen.json {
                let eof = ended && self.is_at_end()?;
                if parts == 0 && !all || !done || eof {
                    let output = String::from_utf8_lossy(&chunk.bytes).into_owned();
                    screen.json_line(&Part {
                        output,
                        cursor: self.cursor,
                        eof,
                        truncated: chunk.truncated,
                    })?;
                }
                if done || eof || !all {
                    return Ok(());
                }
                continue;
            }
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

    /// The next part. A character that the end of the part would split is left for the next one.
    fn read(&mut self) -> Result<LogChunk, Failure> {
        let mut chunk = self.reader.read_from(self.cursor).map_err(|error| self.failure(&error))?;
        if let Err(error) = str::from_utf8(&chunk.bytes)
            && error.error_len().is_none()
            && error.valid_up_to() > 0
        {
            chunk.cursor -= (chunk.bytes.len() - error.valid_up_to()) as u64;
            chunk.bytes.truncate(error.valid_up_to());
        }
        self.cursor = chunk.cursor;
        Ok(chunk)
    }

    fn is_at_end(&mut self) -> Result<bool, Failure> {
        let next = self.reader.read_from(self.cursor).map_err(|error| self.failure(&error))?;
        Ok(next.bytes.is_empty())
    }

    fn failure(&self, error: &std::io::Error) -> Failure {
        Failure::new(format!("cannot read the log {}: {error}", self.reader.path().display()))
    }
}

/// Prints what comes until the session has ended.
async fn follow(
    log: &mut Output,
    session: Session,
    store: &dyn Store,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let failed = |error| Failure::new(format!("cannot follow the log: {error}"));
    let follower = LogFollower::new(vec![log.reader.path().to_owned()]).map_err(failed)?;
    let probe = context.open_probe()?;
    let mut session = session;
    loop {
        follower.arm().map_err(failed)?;
        let watch = watch_session(probe.as_ref(), &session);
        let ended = watch.is_none();
        log.print(context.screen, ended, true)?;
        let Some(watch) = watch else { return Ok(()) };
        if follower.wait(Some(&watch), None, None).map_err(failed)? == Woken::Ended {
            session = store.load(&session.id).await?.unwrap_or(session);
        }
    }
}

/// Watches whoever tells the end of the session: its shim, and where that was killed its command.
pub fn watch_session(probe: &dyn ProcessProbe, session: &Session) -> Option<ProcessWatch> {
    if !session.status.is_active() {
        return None;
    }
    let known = [session.supervisor.as_ref(), session.process.as_ref()];
    known.into_iter().flatten().find_map(|process| match watch_process(probe, process) {
        Watched::Alive(watch) => Some(watch),
        Watched::Gone | Watched::Unknown(_) => None,
    })
}
