//! The result of a loop: a table of the tickets, hints and the exit code.

use sexton_ralph::{How, Phase, Row, Stage, Summary, Work};

use crate::failure::{Exit, Failure};
use crate::screen::{Cell, Column, Screen, Table, Tone, visible};

/// The length of an abbreviated commit id.
const SHORT: usize = 10;

/// The offset of exit codes for signals.
const SIGNAL_BASE: i32 = 128;

/// Prints the summary.
pub(super) fn print_summary(summary: &Summary, screen: &Screen) -> Result<(), Failure> {
    let mut table = Table::new([
        Column::fixed("TICKET"),
        Column::fixed("RESULT"),
        Column::shrinking("WHERE"),
        Column::shrinking("LOG"),
    ]);
    for row in &summary.tickets {
        let (result, tone, place) = describe(row);
        // The log is not interesting for a ticket that succeeded.
        let log = match row.stage {
            Stage::Done { .. } => String::new(),
            _ => row.log.as_ref().map(|log| log.display().to_string()).unwrap_or_default(),
        };
        table.row([row.ticket.as_str().into(), Cell::toned(tone, result), place.into(), log.into()]);
    }
    if !table.is_empty() {
        screen.table(&table)?;
    }
    screen.note(&sentence(summary));
    hint(summary, screen);
    if let Some(promise) = &summary.promise {
        screen.line(&visible(promise))?;
    }
    Ok(())
}

fn describe(row: &Row) -> (&'static str, Tone, String) {
    let short = |commit: &str| commit.chars().take(SHORT).collect::<String>();
    match &row.stage {
        Stage::Done { work, kept } => {
            let (result, place) = match work {
                Work::Merged { commit, how: How::FastForward } => ("merged", short(commit)),
                Work::Merged { commit, how: How::MergeCommit } => {
                    ("merged", format!("{} (merge commit)", short(commit)))
                }
                Work::Merged { commit, how: How::Already } => ("merged", short(commit)),
                Work::OnBranch { .. } => ("done", row.ticket.branch()),
                Work::Nothing => ("done", "nothing to merge".to_owned()),
            };
            match kept {
                None => (result, Tone::Good, place),
                Some(why) => (result, Tone::Warning, format!("{place}; its worktree was kept: {why}")),
            }
        }
        Stage::Conflict { paths, worktree } => {
            let worktree = worktree.as_ref().map(|path| format!(" in {}", path.display()));
            let place =
                format!("{}{}: {}", row.ticket.branch(), worktree.unwrap_or_default(), paths.join(", "));
            ("conflict", Tone::Warning, place)
        }
        Stage::SetAside { why } => ("set aside", Tone::Error, why.clone()),
        Stage::Merging { deferred, .. } => {
            ("to be merged", Tone::Warning, deferred.clone().unwrap_or_else(|| row.ticket.branch()))
        }
        Stage::Sealing => ("to be merged", Tone::Warning, row.ticket.branch()),
        Stage::Waiting { .. } | Stage::Running { .. } | Stage::Clearing { .. } => {
            ("not done", Tone::Warning, String::new())
        }
    }
}

fn sentence(summary: &Summary) -> String {
    let done = summary.tickets.iter().filter(|row| matches!(row.stage, Stage::Done { .. })).count();
    let of = match summary.tickets.len() {
        0 => "no ticket was started".to_owned(),
        1 => format!("{done} of 1 ticket done"),
        all => format!("{done} of {all} tickets done"),
    };
    let end = match summary.phase {
        Phase::Complete if summary.is_whole() => "no tickets left",
        Phase::Complete => "no other tickets left",
        Phase::Exhausted => "reached `ralph.max_iterations`",
        Phase::Stuck => "the remaining tickets cannot be started",
        Phase::Interrupted | Phase::Stopping | Phase::Running => "stopped before it was complete",
        Phase::Failed => "stopped by an error",
    };
    format!("{of}; {end}")
}

/// Prints which commands to run next.
fn hint(summary: &Summary, screen: &Screen) {
    let mut rows = summary.tickets.iter();
    if let Some(row) = rows.clone().find(|row| matches!(row.stage, Stage::Conflict { .. })) {
        screen.hint(&format!("`git merge {}` shows the conflict; resolve it by hand", row.ticket.branch()));
    }
    if rows.clone().any(|row| matches!(row.stage, Stage::Merging { .. })) {
        screen.hint("commit or stash your changes, then run `sexton ralph start` to merge the rest");
    }
    if let Some(session) =
        rows.find(|row| matches!(row.stage, Stage::SetAside { .. })).and_then(|row| row.session.as_ref())
    {
        screen.hint(&format!("`sexton logs {session}` shows its output"));
    }
    if matches!(summary.phase, Phase::Interrupted | Phase::Failed) {
        screen.hint("run `sexton ralph start` to continue");
    }
}

/// Returns the exit code: 0 if all started tickets are done, 3 if some are, 1 if the loop failed, 128 + the signal
/// that stopped it. For one ticket: 1 if it was set aside.
pub(super) fn exit_of(summary: &Summary, is_one: bool, signal: i32) -> Exit {
    match summary.phase {
        Phase::Failed => Exit::FAILED,
        Phase::Interrupted => u8::try_from(SIGNAL_BASE + signal).map_or(Exit::FAILED, Exit),
        Phase::Complete | Phase::Exhausted if summary.is_whole() => Exit::DONE,
        _ if is_one && summary.tickets.iter().all(|row| matches!(row.stage, Stage::SetAside { .. })) => {
            Exit::FAILED
        }
        _ => Exit::PARTLY_DONE,
    }
}
