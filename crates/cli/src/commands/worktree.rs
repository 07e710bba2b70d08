//! `sexton worktree`: manages the worktrees that Sexton created.

use clap::{Args, Subcommand};
use serde_json::json;
use sexton_core::recover::RecoveryContext;
use sexton_core::session::{WorktreeOutcome, find_session};
use sexton_core::worktree::{Inspection, WorktreeLocation};
use sexton_core::{Incarnation, Query, Session, WorktreeCleaner};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::{Cell, Column, Table, Tone};
use sexton_service::{Gone, remove_worktree};

/// List and remove the worktrees that Sexton created.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton worktree list
  sexton worktree rm k3v9          save its work and remove it
  sexton worktree prune            remove worktrees without work")]
pub struct WorktreeArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List worktrees
    #[command(after_help = "\
Examples:
  sexton worktree list
  sexton worktree list --json")]
    List,
    /// Remove worktrees of finished sessions, after saving their work
    #[command(after_help = "\
Examples:
  sexton worktree rm nightly
  sexton worktree rm k3v9 m2x7 --if-clean      only if there is no work to save")]
    Rm {
        /// Session ids, prefixes of ids, or names
        #[arg(value_name = "ID", required = true)]
        sessions: Vec<String>,
        /// Remove a worktree only if it has no work to save
        #[arg(long)]
        if_clean: bool,
    },
    /// Remove all worktrees of finished sessions that have no work to save
    #[command(after_help = "\
Examples:
  sexton worktree prune --dry-run
  sexton worktree prune")]
    Prune {
        /// Show how many worktrees would be removed without removing them
        #[arg(long)]
        dry_run: bool,
    },
}

/// Runs the subcommand.
pub async fn run(args: &WorktreeArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    match &args.action {
        Action::List => list(context).await,
        Action::Rm { sessions, if_clean } => remove(sessions, *if_clean, context).await,
        Action::Prune { dry_run } => prune(*dry_run, context).await,
    }
}

/// An existing worktree and its session.
struct Found {
    session: Session,
    location: WorktreeLocation,
    inspection: Result<Inspection, String>,
}

/// Returns the existing worktrees of this machine's sessions, newest session first. Sessions of other machines are
/// skipped, because their paths mean nothing here.
async fn find_worktrees(
    recovery_context: &RecoveryContext<'_>,
    here: &Incarnation,
    cleaner: &dyn WorktreeCleaner,
) -> Result<Vec<Found>, Failure> {
    let store = recovery_context.store.describe().uuid.unwrap_or_default();
    let mut found = Vec::new();
    for session in recovery_context.store.list(&Query::all()).await?.sessions {
        if session.is_elsewhere(here) {
            continue;
        }
        let outcome = session.recovery.as_ref().and_then(|recovery| recovery.worktree);
        let Some(location) =
            WorktreeLocation::of(&session, &store).filter(|_| outcome != Some(WorktreeOutcome::Removed))
        else {
            continue;
        };
        let inspection = cleaner.inspect(&location).await.map_err(|error| crate::failure::chain(&error));
        if inspection != Ok(Inspection::Absent) {
            found.push(Found { session, location, inspection });
        }
    }
    Ok(found)
}

async fn list(context: &mut Context<'_>) -> Result<Exit, Failure> {
    let tools = context.tools_for_reading()?;
    let here = context.here(tools.probe.as_ref()).await?;
    let found = find_worktrees(&tools.recovery_context(), &here, tools.require_cleaner()?).await?;
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
            one.location.path.display().to_string().into(),
        ]);
    }
    if table.is_empty() {
        context.screen.note("no worktrees; `sexton run --worktree` creates one");
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
        Ok(Inspection::Foreign(_)) => ("foreign".to_owned(), Tone::Error),
        Err(_) => ("unreadable".to_owned(), Tone::Error),
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
    let recovery_context = tools.recovery_context();
    let cleaner = tools.require_cleaner()?;
    let store = recovery_context.store.describe().uuid.unwrap_or_default();
    let here = context.here(recovery_context.probe).await?;
    let mut locations = Vec::new();
    for name in names {
        let session = find_session(recovery_context.store, name).await?;
        if session.is_elsewhere(&here) {
            let (id, host) = (&session.id, &session.host.hostname);
            return Err(Failure::new(format!("session {id} belongs to another host ({host})"))
                .hint(format!("if that host is permanently gone, run `sexton forget {id}`")));
        }
        if session.status.is_active() {
            return Err(Failure::new(format!("session {} is {}", session.id, session.status))
                .hint(format!("`sexton stop {}` stops it", session.id)));
        }
        let location = WorktreeLocation::of(&session, &store).ok_or_else(|| {
            Failure::new(format!("session {} has no worktree that Sexton created", session.id))
        })?;
        locations.push((session, location));
    }
    let mut outcomes = Vec::new();
    for (session, location) in &locations {
        let outcome = remove_worktree(
            recovery_context.store,
            recovery_context.probe,
            cleaner,
            session,
            location,
            if_clean,
        )
        .await?;
        report_outcome(&outcome, session, context);
        outcomes.push((session, outcome));
    }
    if context.screen.json {
        let documents: Vec<_> = outcomes
            .iter()
            .map(|(session, outcome)| {
                json!({"session": session.id, "removed": outcome.removed, "rescue_ref": outcome.rescue_ref,
                       "kept": outcome.kept, "undeleted": outcome.undeleted})
            })
            .collect();
        context.screen.document(&documents)?;
    }
    let whole = |outcome: &Gone| outcome.undeleted.is_none() && (outcome.kept.is_none() || if_clean);
    let whole = outcomes.iter().all(|(_, outcome)| whole(outcome));
    Ok(if whole { Exit::DONE } else { Exit::PARTLY_DONE })
}

fn report_outcome(outcome: &Gone, session: &Session, context: &Context<'_>) {
    let id = &session.id;
    match (&outcome.kept, outcome.removed) {
        (None, _) if outcome.undeleted.is_some() => {
            let why = outcome.undeleted.as_deref().unwrap_or_default();
            context
                .screen
                .warn(&format!("the worktree of session {id} could not be deleted completely: {why}"));
            context.screen.hint("`sexton recover` retries; `sexton doctor` shows how to delete it manually");
        }
        (Some(why), _) => context.screen.warn(&format!("the worktree of session {id} was kept: {why}")),
        (None, true) => context.screen.note(&format!("removed the worktree of session {id}")),
        (None, false) => context.screen.note(&format!("the worktree of session {id} no longer exists")),
    }
    if outcome.rescue_ref.is_some() {
        context.screen.hint(&format!("run `sexton rescue restore {id}` to restore its work"));
    }
}

async fn prune(dry_run: bool, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let tools = if dry_run { context.tools_for_reading()? } else { context.tools_for_writing()? };
    let recovery_context = tools.recovery_context();
    let cleaner = tools.require_cleaner()?;
    let here = context.here(recovery_context.probe).await?;
    let found = find_worktrees(&recovery_context, &here, cleaner).await?;
    let empty = Ok(Inspection::Present { dirty: false, own_commits: 0 });
    let due: Vec<_> =
        found.into_iter().filter(|one| !one.session.status.is_active() && one.inspection == empty).collect();
    let (mut removed, mut undeleted) = (Vec::new(), Vec::new());
    for one in &due {
        let mut is_gone = dry_run;
        if !dry_run {
            let gone = remove_worktree(
                recovery_context.store,
                recovery_context.probe,
                cleaner,
                &one.session,
                &one.location,
                true,
            );
            let gone = gone.await?;
            if gone.undeleted.is_some() {
                report_outcome(&gone, &one.session, context);
                undeleted.push(one.session.id.clone());
            }
            is_gone = gone.removed;
        }
        if is_gone {
            removed.push(one.session.id.clone());
        }
    }
    if context.screen.json {
        let document = json!({"dry_run": dry_run, "removed": removed, "undeleted": undeleted});
        context.screen.document(&document)?;
    } else {
        let verb = if dry_run { "would remove" } else { "removed" };
        let worktrees = if removed.len() == 1 { "worktree" } else { "worktrees" };
        context.screen.note(&format!("{verb} {} {worktrees} without work", removed.len()));
    }
    Ok(if undeleted.is_empty() { Exit::DONE } else { Exit::PARTLY_DONE })
}
