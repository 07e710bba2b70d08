//! `sexton ps`: lists sessions and the observed state of their processes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use sexton_core::duration::format_age;
use sexton_core::store::Listing;
use sexton_core::{ProcessProbe, Query, Session, Status, Store};
use sexton_durable::MarkFile;
use sexton_supervise::{LogFollower, PendingExits};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::probing::{Observed, observe};
use crate::screen::{Cell, Column, Table, Tone};
use sexton_service::overlay_exits;

/// List sessions.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton ps                        list running sessions
  sexton ps -a --limit 20          list the 20 newest sessions, including finished ones
  sexton ps --status failed        list failed sessions
  sexton ps --json | jq '.[].id'   print ids for a script")]
pub struct PsArgs {
    /// Include finished sessions
    #[arg(short, long)]
    all: bool,
    /// Only sessions with this status (repeatable; implies -a)
    #[arg(long, value_name = "STATUS")]
    status: Vec<Status>,
    /// Only sessions of this ticket
    #[arg(long, value_name = "TICKET")]
    ticket: Option<String>,
    /// Only sessions with a worktree of this repository
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Maximum number of sessions, newest first
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Keep running, and list again after every change
    #[arg(short, long)]
    watch: bool,
}

/// A record and the observed state of its process.
#[derive(Serialize)]
pub struct Listed {
    /// The record.
    #[serde(flatten)]
    pub session: Session,
    /// The observed state; `None` for an ended session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
}

/// Lists the matching sessions.
pub async fn run(args: &PsArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let query = query(args)?;
    let store = context.open_for_reading()?;
    if args.watch {
        return watch(args, &query, store.as_ref(), context).await;
    }
    let listed = load_listed(&query, store.as_ref(), context).await?;
    if context.screen.json {
        context.screen.document(&listed)?;
    } else if listed.is_empty() {
        note_empty_list(args, context);
    } else {
        context.screen.table(&table(&listed, context))?;
    }
    Ok(Exit::DONE)
}

async fn load_listed(
    query: &Query,
    store: &dyn Store,
    context: &mut Context<'_>,
) -> Result<Vec<Listed>, Failure> {
    let exits = context.pending_exits();
    let waiting =
        exits.list().map_err(|error| Failure::new(format!("cannot list the exit files: {error}")))?;
    let probe = if waiting.is_empty() { None } else { Some(context.open_probe()?) };
    let listing = load_sessions(query, store, &exits, probe.as_deref()).await?;
    context.screen.report_damage(&store.describe().path, &listing.damage);
    probe_all(listing.sessions, context).await
}

/// Loads the matching sessions. Exits that are pending in exit files are merged into their records if the probe
/// finds that their commands are not alive.
pub async fn load_sessions(
    query: &Query,
    store: &dyn Store,
    exits: &PendingExits,
    probe: Option<&dyn ProcessProbe>,
) -> Result<Listing, Failure> {
    let waiting =
        exits.list().map_err(|error| Failure::new(format!("cannot list the exit files: {error}")))?;
    let Some(probe) = probe.filter(|_| !waiting.is_empty()) else {
        return Ok(store.list(query).await?);
    };
    // A pending exit changes a record's status, so the query is applied after merging.
    let mut listing = store.list(&Query { statuses: None, limit: None, ..query.clone() }).await?;
    overlay_exits(exits, probe, &mut listing.sessions).await?;
    listing.sessions = query.select(listing.sessions);
    Ok(listing)
}

/// How often ages and processes are refreshed on a terminal.
const REDRAW: Duration = Duration::from_secs(1);

/// Lists again after every change of a record. On a terminal also every second, because ages grow and a process
/// can end without a change of its record.
async fn watch(
    args: &PsArgs,
    query: &Query,
    store: &dyn Store,
    context: &mut Context<'_>,
) -> Result<Exit, Failure> {
    let failed = |error| Failure::new(format!("cannot watch the store: {error}"));
    let mark = MarkFile::beside(&store.describe().path).path().to_owned();
    let changes = LogFollower::exactly(vec![mark]);
    loop {
        changes.arm().map_err(failed)?;
        context.now = Timestamp::now().into();
        let listed = load_listed(query, store, context).await?;
        if context.screen.json {
            context.screen.json_line(&listed)?;
        } else {
            context.screen.clear()?;
            if listed.is_empty() {
                note_empty_list(args, context);
            } else {
                context.screen.table(&table(&listed, context))?;
            }
        }
        // A store that does not exist yet cannot be watched, so it is polled.
        let redraws = !context.screen.json || !store.describe().path.exists();
        let until = Some(Instant::now() + REDRAW).filter(|_| redraws);
        changes.wait(None, None, until).map_err(failed)?;
    }
}

fn query(args: &PsArgs) -> Result<Query, Failure> {
    let mut query = match (args.status.as_slice(), args.all) {
        ([], true) => Query::all(),
        ([], false) => Query::active(),
        (statuses, _) => Query::all().with_statuses(statuses.iter().copied()),
    };
    query.ticket.clone_from(&args.ticket);
    query.limit = args.limit;
    if let Some(repo) = &args.repo {
        let absolute = repo
            .canonicalize()
            .map_err(|error| Failure::usage(format!("--repo {}: {error}", repo.display())))?;
        query = query.repo(absolute);
    }
    Ok(query)
}

/// Observes the sessions that are recorded as active. Opens no probe if there are none.
async fn probe_all(sessions: Vec<Session>, context: &Context<'_>) -> Result<Vec<Listed>, Failure> {
    if !sessions.iter().any(|session| session.status.is_active()) {
        return Ok(sessions.into_iter().map(|session| Listed { session, observed: None }).collect());
    }
    let probe = context.open_probe()?;
    let here = context.here(probe.as_ref()).await?;
    let mut listed = Vec::with_capacity(sessions.len());
    for session in sessions {
        let observed = observe(probe.as_ref(), &here, &session).await;
        listed.push(Listed { session, observed });
    }
    Ok(listed)
}

fn note_empty_list(args: &PsArgs, context: &Context<'_>) {
    let filtered = !args.status.is_empty() || args.ticket.is_some() || args.repo.is_some();
    match (filtered, args.all) {
        (true, _) => context.screen.note("no matching sessions"),
        (false, true) => context.screen.note("there are no sessions"),
        (false, false) => {
            context.screen.note("no session is running (`sexton ps -a` lists finished sessions)");
        }
    }
}

fn table(listed: &[Listed], context: &Context<'_>) -> Table {
    let mut table = Table::new([
        Column::fixed("ID"),
        Column::shrinking("NAME"),
        Column::fixed("STATUS"),
        Column::fixed("AGE"),
        Column::shrinking("TICKET"),
        Column::fixed("PID"),
        Column::shrinking("COMMAND"),
    ]);
    for Listed { session, observed } in listed {
        let active = session.status.is_active();
        let pid = session.process.as_ref().filter(|_| active).map(|process| process.pid.to_string());
        let (tone, status) = status_words(session.status, observed.as_ref());
        table.row([
            session.id.as_str().into(),
            session.name.as_deref().unwrap_or_default().into(),
            Cell::toned(tone, &status),
            format_age(session.created_at.age_at(context.now)).into(),
            session.ticket.as_deref().unwrap_or_default().into(),
            pid.unwrap_or_default().into(),
            command_line(session).into(),
        ]);
    }
    table
}

/// Returns the status with its colour. A running session that was not observed alive has the observed state added.
pub fn status_words(status: Status, observed: Option<&Observed>) -> (Tone, String) {
    let tone = match (status, observed) {
        (Status::Running, Some(Observed::Alive) | None) | (Status::Starting, _) => Tone::Active,
        (Status::Running, Some(other)) => return (Tone::Warning, format!("running ({})", other.as_str())),
        (Status::Completed, _) => Tone::Good,
        (Status::Stopped | Status::Transferred, _) => Tone::Faint,
        (Status::Failed | Status::TimedOut | Status::CleanupFailed, _) => Tone::Error,
        (Status::Orphaned | Status::Abandoned, _) => Tone::Warning,
    };
    (tone, status.as_str().to_owned())
}

/// Returns the command line, with shell quoting where needed.
pub fn command_line(session: &Session) -> String {
    let words = session.command.iter().map(|word| quoted(&word.display().to_string()));
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_when_a_shell_needs_it() {
        assert_eq!(quoted("--model=opus"), "--model=opus");
        assert_eq!(quoted("work on it"), "'work on it'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
