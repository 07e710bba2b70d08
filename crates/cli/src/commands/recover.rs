//! `sexton recover`: cleans up after a crash.

use std::time::Duration;

use clap::Args;
use sexton_core::duration::parse_duration;
use sexton_core::recover::{
    Adoption, FormatOutcome, FormatReport, Outcome, Policy, Problem, ProblemKind, Report, SessionReport,
    recover,
};
use sexton_core::session::WorktreeOutcome;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::owner::find_enclosing_owner;
use crate::problems::how_to_delete;
use crate::screen::{Bar, Cell, Column, Screen, Table, Tone};
use sexton_service::require_owner;
use sexton_supervise::raise_descriptor_limit;

/// Stop orphans, save their work, remove their worktrees and delete old records.
///
/// It is safe to run at any time: sessions that run normally are not changed, sessions whose state is unknown are
/// reported and not changed, and a second run changes nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton recover --dry-run         show what would be done
  sexton recover                   recover
  sexton recover --adopt           adopt sessions whose owner exited instead of stopping them
  sexton rescue list               list the saved work")]
pub struct RecoverArgs {
    /// Show what would be done without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Adopt sessions whose owner exited instead of stopping them
    #[arg(long)]
    adopt: bool,
    /// New owner of adopted sessions [default: the enclosing session, or none]
    #[arg(long, value_name = "PID", requires = "adopt")]
    owner_pid: Option<u32>,
    /// Skip sessions younger than this [default: recover.min_age, 0s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    min_age: Option<Duration>,
    /// Grace period before SIGKILL [default: stop.grace, 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    stop_grace: Option<Duration>,
    /// Mark dead sessions of this age as abandoned [default: recover.stale, 30d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    stale: Option<Duration>,
    /// Maximum age of finished records [default: retention.ttl, 7d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// Maximum number of finished records [default: retention.keep, 1000]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Do not back up the store before the first change
    #[arg(long)]
    no_backup: bool,
}

/// Runs a recovery and prints its report.
pub async fn run(args: &RecoverArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    raise_descriptor_limit();
    let tools = if args.dry_run { context.tools_for_reading()? } else { context.tools_for_writing()? };
    let mut policy = Policy::from_config(&context.config);
    policy.dry_run = args.dry_run;
    policy.backup = !args.no_backup;
    policy.min_age = args.min_age.unwrap_or(policy.min_age);
    policy.stop_grace = args.stop_grace.unwrap_or(policy.stop_grace);
    policy.stale = args.stale.unwrap_or(policy.stale);
    policy.retention.ttl = args.ttl.unwrap_or(policy.retention.ttl);
    policy.retention.keep = args.keep.unwrap_or(policy.retention.keep);
    if args.adopt {
        let owner = match args.owner_pid {
            Some(pid) => Some(require_owner(tools.probe.as_ref(), pid).await?),
            None => find_enclosing_owner(tools.probe.as_ref(), context).await?,
        };
        policy.adopt = Some(Adoption { owner });
    }
    let bar = Bar::for_terminal();
    let report = recover(&tools.recovery_context(), &policy, &bar).await?;
    bar.clear();
    if context.screen.json {
        context.screen.document(&report)?;
    } else {
        print_report(&report, context.screen)?;
    }
    let not_upgraded = report.format.as_ref().is_some_and(|format| format.outcome == FormatOutcome::Failed);
    // A problem that an earlier run reported must not make every later run fail.
    Ok(if report.has_new_problems() || not_upgraded { Exit::PARTLY_DONE } else { Exit::DONE })
}

/// Prints the report: a table of actions, a summary line and hints.
pub fn print_report(report: &Report, screen: &Screen) -> Result<(), Failure> {
    let changed: Vec<_> =
        report.sessions.iter().filter(|session| session.outcome != Outcome::LeftAlone).collect();
    let mut table = Table::new([
        Column::fixed("SESSION"),
        Column::shrinking("NAME"),
        Column::fixed("CAUSE"),
        Column::fixed(if report.dry_run { "PLANNED" } else { "ACTION" }),
        Column::shrinking("WORK"),
    ]);
    for session in &changed {
        let name = session.name.as_deref().unwrap_or_default();
        let (done, tone) = describe_action(session);
        let work = rescue_ref(session);
        let cause = if session.outcome == Outcome::Unknown { "unknown" } else { session.cause.as_str() };
        table.row([
            session.id.as_str().into(),
            name.into(),
            cause.into(),
            Cell::toned(tone, &done),
            work.into(),
        ]);
    }
    if !table.is_empty() {
        screen.table(&table)?;
    }
    for session in &changed {
        match (&session.error, session.outcome) {
            (Some(_), Outcome::Failed) => {}
            (Some(error), _) => screen.warn(&format!("session {}: {error}", session.id)),
            (None, Outcome::Unknown) => screen.warn(&format!("session {}: {}", session.id, session.evidence)),
            (None, _) => {}
        }
    }
    // Unreadable exit files were already reported when the store was opened for writing.
    let unreported = |problem: &&Problem| report.dry_run || problem.kind != ProblemKind::ExitFile;
    for problem in report.problems.iter().filter(unreported) {
        screen.warn(&describe_problem(problem));
    }
    screen.note(&summary(report));
    if let Some(format) = &report.format {
        print_format(format, report.dry_run, screen);
    }
    hint(report, &changed, screen);
    Ok(())
}

/// Prints whether the store's format was upgraded.
fn print_format(format: &FormatReport, dry_run: bool, screen: &Screen) {
    let FormatReport { found, newest, outcome, waits_for, backup, error } = format;
    match (outcome, waits_for.first()) {
        (FormatOutcome::Raised, _) => {
            let backup = backup.as_ref().map(|path| format!("; backup: {}", path.display()));
            screen.note(&format!(
                "the store was upgraded from format {found} to {newest}{}",
                backup.unwrap_or_default()
            ));
        }
        (FormatOutcome::Failed, _) => {
            let why = error.as_deref().unwrap_or_default();
            screen.warn(&format!("the store could not be upgraded from format {found} to {newest}: {why}"));
        }
        (FormatOutcome::Waits, Some(first)) => {
            let more = match waits_for.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            screen.note(&format!(
                "the store keeps format {found} while a supervisor of an older release may be running (session \
                 {first}{more}); a later `sexton recover` upgrades it to {newest}"
            ));
        }
        (FormatOutcome::Waits, None) if dry_run => {
            screen.note(&format!("the store would be upgraded from format {found} to {newest}"));
        }
        (FormatOutcome::Waits, None) => {}
    }
}

/// Returns a problem as one line: the session, the error, and whether an earlier recovery reported it.
fn describe_problem(problem: &Problem) -> String {
    let prefix = problem.session.as_ref().map(|id| format!("session {id}: ")).unwrap_or_default();
    let known = if problem.new { "" } else { " (unchanged since an earlier recovery)" };
    format!("{prefix}{}{known}", problem.error)
}

fn describe_action(session: &SessionReport) -> (String, Tone) {
    let mut done = match session.action.as_str() {
        "end" => vec!["stopped"],
        "adopt" => vec!["adopted"],
        "resupervised" => vec!["resupervised"],
        "commit_exit" => vec!["exit recorded"],
        "leave_alone" => vec!["left alone"],
        _ => vec!["marked"],
    };
    match session.worktree {
        Some(WorktreeOutcome::Removed) if session.rescue_ref.is_some() => done.extend(["rescued", "removed"]),
        Some(WorktreeOutcome::Removed) => done.push("removed"),
        Some(WorktreeOutcome::Kept) => done.push("worktree kept"),
        Some(WorktreeOutcome::Pending) => done.push("worktree pending"),
        Some(WorktreeOutcome::Failed) => done.push("worktree not removed"),
        None => {}
    }
    let tone = match session.outcome {
        Outcome::Failed => Tone::Error,
        Outcome::Unknown => Tone::Warning,
        _ => Tone::Good,
    };
    (done.join(", "), tone)
}

fn rescue_ref(session: &SessionReport) -> String {
    session.rescue_ref.clone().unwrap_or_default()
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// Returns whether a problem is not already counted as a failed session of this report.
fn is_counted_separately(problem: &Problem, report: &Report) -> bool {
    let failed = |session: &SessionReport| {
        Some(&session.id) == problem.session.as_ref() && session.outcome == Outcome::Failed
    };
    !report.sessions.iter().any(failed)
}

fn summary(report: &Report) -> String {
    let pruned = report.pruned.expired + report.pruned.over_limit;
    let others = report.problems.iter().filter(|problem| is_counted_separately(problem, report)).count();
    let strays = report.sessions.iter().filter(|session| session.cause == "stray").count();
    let counts = [
        (report.orphans, "orphaned"),
        (report.ended, "stopped"),
        (report.adopted, "adopted"),
        (report.resupervised, "resupervised"),
        (strays, plural(strays, "stray", "strays")),
        (report.worktrees.rescued, "rescued"),
        (report.worktrees.removed, plural(report.worktrees.removed, "worktree removed", "worktrees removed")),
        (report.unknown, "unknown"),
        (report.failed, "failed"),
        (others, plural(others, "other problem", "other problems")),
        (pruned, plural(pruned, "old record deleted", "old records deleted")),
    ];
    let parts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let running = match report.left_alone {
        0 => String::new(),
        one => format!(" ({one} left alone)"),
    };
    if parts.is_empty() {
        return format!("nothing to recover{running}");
    }
    let prefix = if report.dry_run { "dry run: " } else { "" };
    format!("{prefix}{}{running}", parts.join(", "))
}

/// Prints which commands to run next.
fn hint(report: &Report, changed: &[&SessionReport], screen: &Screen) {
    if report.dry_run {
        if changed.iter().any(|session| session.outcome == Outcome::Done) {
            screen.hint("run `sexton recover` to apply this");
        }
        return;
    }
    let saved = changed
        .iter()
        .find(|session| session.rescue_ref.is_some() && session.worktree == Some(WorktreeOutcome::Removed));
    if let Some(session) = saved {
        screen.hint(&format!("run `sexton rescue restore {}` to restore the work", session.id));
    }
    if let Some(unknown) = changed.iter().find(|session| session.outcome == Outcome::Unknown) {
        screen.hint(&format!("if the session is gone, run `sexton forget {}`", unknown.id));
    }
    if let Some(problem) = report.problems.iter().find(|problem| problem.kind == ProblemKind::Trash) {
        screen.hint(&how_to_delete(problem));
    }
    if !report.problems.is_empty() {
        screen.hint("the next `sexton recover` retries; `sexton doctor` lists unresolved problems");
    }
}
