//! `sexton recover`: put everything in order.

use std::time::Duration;

use clap::Args;
use sexton_core::duration::parse_duration;
use sexton_core::recover::{Adoption, Outcome, Policy, Report, SessionReport, recover};
use sexton_core::session::WorktreeOutcome;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::owner::find_enclosing_owner;
use crate::screen::{Bar, Cell, Column, Screen, Table, Tone};
use sexton_embed::require_owner;

/// Put everything in order: end orphans, rescue their work, clean their worktrees, let old records go.
///
/// Safe at any time, as often as you like: what runs in good order is left alone, what nobody can judge is
/// left alone and said, and a second run changes nothing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton recover --dry-run         say what would be done
  sexton recover                   do it
  sexton recover --adopt           take sessions over whose owner died, instead of ending them
  sexton rescue list               find the work that was saved")]
pub struct RecoverArgs {
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Take over sessions whose owner died, instead of ending them
    #[arg(long)]
    adopt: bool,
    /// Their new owner [default: the session around this command, else nobody]
    #[arg(long, value_name = "PID", requires = "adopt")]
    owner_pid: Option<u32>,
    /// Leave younger sessions alone [default: recover.min_age, 0s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    min_age: Option<Duration>,
    /// How long processes have before they are killed [default: stop.grace, 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    stop_grace: Option<Duration>,
    /// Call dead sessions of this age abandoned [default: recover.stale, 30d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    stale: Option<Duration>,
    /// Keep finished records for so long [default: retention.ttl, 7d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// Keep so many finished records [default: retention.keep, 1000]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Do not back the store up before the first change
    #[arg(long)]
    no_backup: bool,
}

/// Recovers, and tells.
pub async fn run(args: &RecoverArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
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
    let report = recover(&tools.ground(), &policy, &bar).await?;
    bar.clear();
    if context.screen.json {
        context.screen.document(&report)?;
    } else {
        tell(&report, context.screen)?;
    }
    Ok(if report.failed > 0 { Exit::PARTLY_DONE } else { Exit::DONE })
}

/// The report as a person reads it: a table of what was done, a line of sums, and what to type next.
pub fn tell(report: &Report, screen: &Screen) -> Result<(), Failure> {
    let told: Vec<_> =
        report.sessions.iter().filter(|session| session.outcome != Outcome::LeftAlone).collect();
    let mut table = Table::new([
        Column::fixed("SESSION"),
        Column::shrinking("NAME"),
        Column::fixed("CAUSE"),
        Column::fixed(if report.dry_run { "WOULD BE" } else { "DONE" }),
        Column::shrinking("WORK"),
    ]);
    for session in &told {
        let name = session.name.as_deref().unwrap_or_default();
        let (done, tone) = what_was_done(session);
        let work = where_the_work_is(session);
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
    for session in &told {
        match (&session.error, session.outcome) {
            (Some(error), _) => screen.warn(&format!("session {}: {error}", session.id)),
            (None, Outcome::Unknown) => screen.warn(&format!("session {}: {}", session.id, session.evidence)),
            (None, _) => {}
        }
    }
    screen.note(&summary(report));
    hint(report, &told, screen);
    Ok(())
}

fn what_was_done(session: &SessionReport) -> (String, Tone) {
    let mut done = match session.action.as_str() {
        "end" => vec!["ended"],
        "adopt" => vec!["adopted"],
        "commit_exit" => vec!["exit recorded"],
        "leave_alone" => vec!["left alone"],
        _ => vec!["marked"],
    };
    match session.worktree {
        Some(WorktreeOutcome::Removed) if session.rescue_ref.is_some() => done.extend(["rescued", "removed"]),
        Some(WorktreeOutcome::Removed) => done.push("removed"),
        Some(WorktreeOutcome::Kept) => done.push("worktree kept"),
        Some(WorktreeOutcome::Pending) => done.push("worktree waits"),
        Some(WorktreeOutcome::Failed) => done.push("worktree stays"),
        None => {}
    }
    let tone = match session.outcome {
        Outcome::Failed => Tone::Error,
        Outcome::Unknown => Tone::Warning,
        _ => Tone::Good,
    };
    (done.join(", "), tone)
}

fn where_the_work_is(session: &SessionReport) -> String {
    session.rescue_ref.clone().unwrap_or_default()
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

fn summary(report: &Report) -> String {
    let pruned = report.pruned.expired + report.pruned.over_limit;
    let strays = report.sessions.iter().filter(|session| session.cause == "stray").count();
    let counts = [
        (report.orphans, "orphaned"),
        (report.ended, "ended"),
        (report.adopted, "adopted"),
        (strays, plural(strays, "stray", "strays")),
        (report.worktrees.rescued, "rescued"),
        (report.worktrees.removed, plural(report.worktrees.removed, "worktree removed", "worktrees removed")),
        (report.unknown, "cannot be judged"),
        (report.failed, "failed"),
        (pruned, plural(pruned, "old record removed", "old records removed")),
    ];
    let told: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let running = match report.left_alone {
        0 => String::new(),
        one => format!(" ({one} left alone)"),
    };
    if told.is_empty() {
        return format!("everything is in order{running}");
    }
    let tense = if report.dry_run { "would be: " } else { "" };
    format!("{tense}{}{running}", told.join(", "))
}

/// What to type next.
fn hint(report: &Report, told: &[&SessionReport], screen: &Screen) {
    if report.dry_run {
        if told.iter().any(|session| session.outcome == Outcome::Done) {
            screen.hint("`sexton recover` does it");
        }
        return;
    }
    let saved = told
        .iter()
        .find(|session| session.rescue_ref.is_some() && session.worktree == Some(WorktreeOutcome::Removed));
    if let Some(session) = saved {
        screen.hint(&format!("`sexton rescue restore {}` gives the work back", session.id));
    }
    if let Some(unknown) = told.iter().find(|session| session.outcome == Outcome::Unknown) {
        screen.hint(&format!("if you know that it is gone: `sexton forget {}`", unknown.id));
    }
    if report.failed > 0 {
        screen.hint("the next `sexton recover` tries again");
    }
}
