//! `sexton worktree`: the worktrees that Sexton made.

use clap::{Args, Subcommand};
use serde_json::json;
use sexton_core::recover::Ground;
use sexton_core::session::{WorktreeOutcome, find_session};
use sexton_core::worktree::{Inspection, Plot};
use sexton_core::{Query, Session, WorktreeCleaner};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::{Cell, Column, Table, Tone};
use sexton_embed::{Gone, remove_worktree};

/// See and remove the worktrees that Sexton made.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton worktree list
  sexton worktree rm k3v9          rescues what is in it first
  sexton worktree prune            those that hold nothing of their own")]
pub struct WorktreeArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the worktrees there are
    #[command(after_help = "\
Examples:
  sexton worktree list
  sexton worktree list --json")]
    List,
    /// Remove the worktrees of finished sessions; what is in them is rescued first
    #[command(after_help = "\
Examples:
  sexton worktree rm nightly
  sexton worktree rm k3v9 m2x7 --if-clean      only where there is nothing to rescue")]
    Rm {
        /// Ids, beginnings of ids, or names
        #[arg(value_name = "ID", required = true)]
        sessions: Vec<String>,
        /// Only where there is nothing to rescue
        #[arg(long)]
        if_clean: bool,
    },
    /// Remove the worktrees of finished sessions that hold nothing of their own
    #[command(after_help = "\
Examples:
  sexton worktree prune --dry-run
  sexton worktree prune")]
    Prune {
        /// Say which would go, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Does what was asked.
pub async fn run(args: &WorktreeArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    match &args.action {
        Action::List => list(context).await,
        Action::Rm { sessions, if_clean } => remove(sessions, *if_clean, context).await,
        Action::Prune { dry_run } => prune(*dry_run, context).await,
    }
}

/// A worktree that is there, and whose it is.
struct Found {
    session: Session,
    plot: Plot,
    inspection: Result<Inspection, String>,
}

/// The worktrees of recorded sessions that are still there, the newest session first.
async fn find_worktrees(ground: &Ground<'_>, cleaner: &dyn WorktreeCleaner) -> Result<Vec<Found>, Failure> {
    let store = ground.store.describe().uuid.unwrap_or_default();
    let mut found = Vec::new();
    for session in ground.store.list(&Query::all()).await?.sessions {
        let outcome = session.recovery.as_ref().and_then(|recovery| recovery.worktree);
        let Some(plot) = Plot::of(&session, &store).filter(|_| outcome != Some(WorktreeOutcome::Removed))
        else {
            continue;
        };
        let inspection = cleaner.inspect(&plot).await.map_err(|error| crate::failure::chain(&error));
        if inspection != Ok(Inspection::Absent) {
            found.push(Found { session, plot, inspection });
        }
    }
    Ok(found)
}

async fn list(context: &mut Context<'_>) -> Result<Exit, Failure> {
    let tools = context.tools_for_reading()?;
    let found = find_worktrees(&tools.ground(), tools.require_cleaner()?).await?;
    if context.screen.json {
        let documents: Vec<_> = found.iter().map(document).collect();
        context.screen.document(&documents)?;
        return Ok(Exit::DONE);
    }
    let mut table = Table::new([
        Column::fixed("SESSION"),
        Column::fixed("STATUS"),
        Column::shrinking("BRANCH"),
        Column::fixed("HOLDS"),
        Column::shrinking("PATH"),
    ]);
    for one in &found {
        let branch = one.session.worktree.as_ref().and_then(|worktree| worktree.branch.clone());
        let (holds, tone) = holds(&one.inspection);
        table.row([
            one.session.id.as_str().into(),
            one.session.status.as_str().into(),
            branch.unwrap_or_default().into(),
            Cell::toned(tone, &holds),
            one.plot.path.display().to_string().into(),
        ]);
    }
    if table.is_empty() {
        context.screen.note("there are no worktrees; `sexton run --worktree` makes one");
    } else {
        context.screen.table(&table)?;
    }
    Ok(Exit::DONE)
}

fn holds(inspection: &Result<Inspection, String>) -> (String, Tone) {
    match inspection {
        Ok(Inspection::Absent) => (String::new(), Tone::Plain),
        Ok(Inspection::Present { dirty: false, own_commits: 0 }) => ("nothing".to_owned(), Tone::Plain),
        Ok(Inspection::Present { dirty, own_commits }) => {
            let commits = match own_commits {
                0 => None,
                1 => Some("1 commit".to_owned()),
                many => Some(format!("{many} commits")),
            };
            let changes = dirty.then(|| "changes".to_owned());
            let parts: Vec<_> = changes.into_iter().chain(commits).collect();
            (parts.join(", "), Tone::Warning)
        }
        Ok(Inspection::Foreign(_)) => ("not ours".to_owned(), Tone::Error),
        Err(_) => ("cannot be read".to_owned(), Tone::Error),
    }
}

fn document(found: &Found) -> serde_json::Value {
    let (dirty, own_commits) = match found.inspection {
        Ok(Inspection::Present { dirty, own_commits }) => (Some(dirty), Some(own_commits)),
        _ => (None, None),
    };
    let trouble = match &found.inspection {
        Ok(Inspection::Foreign(why)) | Err(why) => Some(why),
        Ok(_) => None,
    };
    json!({
        "session": found.session.id, "status": found.session.status, "worktree": found.session.worktree,
        "dirty": dirty, "own_commits": own_commits, "trouble": trouble,
    })
}

async fn remove(names: &[String], if_clean: bool, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let tools = context.tools_for_writing()?;
    let ground = tools.ground();
    let cleaner = tools.require_cleaner()?;
    let store = ground.store.describe().uuid.unwrap_or_default();
    let mut plots = Vec::new();
    for name in names {
        let session = find_session(ground.store, name).await?;
        if session.status.is_active() {
            return Err(Failure::new(format!("session {} is {}", session.id, session.status))
                .hint(format!("`sexton stop {}` ends it", session.id)));
        }
        let plot = Plot::of(&session, &store)
            .ok_or_else(|| Failure::new(format!("session {} has no worktree of ours", session.id)))?;
        plots.push((session, plot));
    }
    let mut outcomes = Vec::new();
    for (session, plot) in &plots {
        let outcome = remove_worktree(ground.store, ground.probe, cleaner, session, plot, if_clean).await?;
        tell(&outcome, session, context);
        outcomes.push((session, outcome));
    }
    sweep(&ground, cleaner, plots.iter().map(|(_, plot)| plot)).await?;
    if context.screen.json {
        let documents: Vec<_> = outcomes
            .iter()
            .map(|(session, outcome)| {
                json!({"session": session.id, "removed": outcome.removed, "rescue_ref": outcome.rescue_ref,
                       "kept": outcome.kept})
            })
            .collect();
        context.screen.document(&documents)?;
    }
    let whole = outcomes.iter().all(|(_, outcome)| outcome.kept.is_none() || if_clean);
    Ok(if whole { Exit::DONE } else { Exit::PARTLY_DONE })
}

fn tell(outcome: &Gone, session: &Session, context: &Context<'_>) {
    let id = &session.id;
    match (&outcome.kept, outcome.removed) {
        (Some(why), _) => context.screen.warn(&format!("the worktree of session {id} stays: {why}")),
        (None, true) => context.screen.note(&format!("the worktree of session {id} is removed")),
        (None, false) => context.screen.note(&format!("the worktree of session {id} is gone already")),
    }
    if outcome.rescue_ref.is_some() {
        context.screen.hint(&format!("`sexton rescue restore {id}` gives its work back"));
    }
}

async fn sweep(
    ground: &Ground<'_>,
    cleaner: &dyn WorktreeCleaner,
    plots: impl Iterator<Item = &Plot>,
) -> Result<(), Failure> {
    let roots: std::collections::BTreeSet<_> = plots.map(|plot| &plot.root).collect();
    for root in roots {
        cleaner.sweep(root, ground.probe).await?;
    }
    Ok(())
}

async fn prune(dry_run: bool, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let tools = if dry_run { context.tools_for_reading()? } else { context.tools_for_writing()? };
    let ground = tools.ground();
    let cleaner = tools.require_cleaner()?;
    let found = find_worktrees(&ground, cleaner).await?;
    let empty = Ok(Inspection::Present { dirty: false, own_commits: 0 });
    let due: Vec<_> =
        found.into_iter().filter(|one| !one.session.status.is_active() && one.inspection == empty).collect();
    let mut removed = Vec::new();
    for one in &due {
        let gone = dry_run
            || remove_worktree(ground.store, ground.probe, cleaner, &one.session, &one.plot, true)
                .await?
                .removed;
        if gone {
            removed.push(one.session.id.clone());
        }
    }
    if !dry_run {
        sweep(&ground, cleaner, due.iter().map(|one| &one.plot)).await?;
    }
    if context.screen.json {
        context.screen.document(&json!({"dry_run": dry_run, "removed": removed}))?;
    } else {
        let verb = if dry_run { "would be removed" } else { "removed" };
        context.screen.note(&format!("{} worktrees without work in them {verb}", removed.len()));
    }
    Ok(Exit::DONE)
}
