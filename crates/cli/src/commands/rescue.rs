//! `sexton rescue`: manages work that was saved from removed worktrees.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use sexton_core::duration::format_age;
use sexton_core::worktree::{PathChange, RescueDetails, RescueEntry};
use sexton_core::{Query, SessionId, Store, WorktreeCleaner, WorktreeError};

use crate::context::Context;
use crate::failure::{Exit, Failure, chain};
use crate::screen::{Column, Table, visible};
use sexton_service::{Tools, default_worktree_root};

/// List, show and restore work that was saved from removed worktrees.
///
/// A rescue is a commit under refs/sexton/rescue/ in its repository, structured like a stash. Rescues do not
/// expire.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton rescue list
  sexton rescue show k3v9
  sexton rescue restore k3v9               restore staged and unstaged changes into a worktree
  sexton rescue restore k3v9 --into ../look
  git diff HEAD refs/sexton/rescue/k3v9…   inspect a rescue with git")]
pub struct RescueArgs {
    /// Also search this repository
    #[arg(long, value_name = "DIR", global = true)]
    repo: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List rescues
    #[command(after_help = "\
Examples:
  sexton rescue list
  sexton rescue list --repo ~/project --json")]
    List,
    /// Show the changed paths of a rescue
    #[command(after_help = "\
Examples:
  sexton rescue show nightly
  sexton rescue show k3v9 --json")]
    Show {
        /// Session id, prefix of an id, or name
        #[arg(value_name = "ID")]
        session: String,
    },
    /// Restore a rescue with its staged, unstaged and untracked changes
    #[command(after_help = "\
Examples:
  sexton rescue restore nightly                into the original path
  sexton rescue restore k3v9 --into ../look    into another directory")]
    Restore {
        /// Session id, prefix of an id, or name
        #[arg(value_name = "ID")]
        session: String,
        /// Directory to restore into, which must be empty or not exist [default: the original path]
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// Delete rescues permanently
    #[command(after_help = "\
Examples:
  sexton rescue drop nightly
  sexton rescue drop k3v9 m2x7")]
    Drop {
        /// Session ids, prefixes of ids, or names
        #[arg(value_name = "ID", required = true)]
        sessions: Vec<String>,
    },
}

/// Runs the subcommand.
pub async fn run(args: &RescueArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let tools = context.tools_for_reading()?;
    let cleaner = tools.require_cleaner()?;
    let rescues = Rescues::find(args.repo.as_deref(), tools.store.as_ref(), cleaner).await?;
    for why in &rescues.unreadable {
        context.screen.warn(&format!("a rescue cannot be read: {why}"));
    }
    match &args.action {
        Action::List => list(&rescues, context),
        Action::Show { session } => show(rescues.require(session)?, cleaner, context).await,
        Action::Restore { session, into } => {
            let held = rescues.require(session)?;
            let into = match into {
                Some(into) => std::path::absolute(into)
                    .map_err(|error| Failure::usage(format!("{}: {error}", into.display())))?,
                None => worktree_path(held, &tools, context).await?,
            };
            restore(held, &into, cleaner, context).await
        }
        Action::Drop { sessions } => drop_all(&rescues, sessions, cleaner, context).await,
    }
}

/// A rescue and its repository.
struct Held {
    repo: PathBuf,
    entry: RescueEntry,
    name: Option<String>,
}

struct Rescues {
    held: Vec<Held>,
    /// Descriptions of rescues that could not be read; they may contain work as well.
    unreadable: Vec<String>,
}

impl Rescues {
    /// Finds the rescues in all repositories that records name, in the current repository and in `extra`.
    async fn find(
        extra: Option<&Path>,
        store: &dyn Store,
        cleaner: &dyn WorktreeCleaner,
    ) -> Result<Rescues, Failure> {
        let mut repos = BTreeSet::new();
        let mut names = std::collections::BTreeMap::new();
        for session in store.list(&Query::all()).await?.sessions {
            if let Some(repo) = session.worktree.and_then(|worktree| worktree.repo) {
                repos.insert(repo.as_path().to_owned());
                names.extend(session.name.map(|name| (session.id, name)));
            }
        }
        if let Some(extra) = extra {
            repos.insert(cleaner.find_repository(extra).await?);
        }
        if let Ok(here) = std::env::current_dir()
            && let Ok(repo) = cleaner.find_repository(&here).await
        {
            repos.insert(repo);
        }
        let mut held = Vec::new();
        let mut unreadable = Vec::new();
        for repo in repos {
            let list = match cleaner.rescues(&repo).await {
                Ok(list) => list,
                // The rescues were deleted with the repository.
                Err(WorktreeError::NoRepository { .. }) if !repo.exists() => continue,
                Err(error) => {
                    unreadable.push(chain(&error));
                    continue;
                }
            };
            for entry in list.entries {
                let name = names.get(&entry.session).cloned();
                held.push(Held { repo: repo.clone(), entry, name });
            }
            for one in list.unreadable {
                unreadable.push(format!("{} in {}: {}", one.reference, repo.display(), one.why));
            }
        }
        held.sort_by_key(|held| std::cmp::Reverse(held.entry.created_at));
        Ok(Rescues { held, unreadable })
    }

    /// Returns the rescue of the session `text`: an id, a prefix of an id, or a name.
    fn require(&self, text: &str) -> Result<&Held, Failure> {
        let exact = |held: &&Held| held.entry.session.as_str() == text;
        let named = |held: &&Held| held.name.as_deref() == Some(text);
        if let Some(held) = self.held.iter().find(exact).or_else(|| self.held.iter().find(named)) {
            return Ok(held);
        }
        let begins = |held: &&Held| text.len() >= 4 && held.entry.session.as_str().starts_with(text);
        let found: Vec<_> = self.held.iter().filter(begins).collect();
        match found.as_slice() {
            [one] => Ok(one),
            [] => {
                let failure = Failure::new(format!("no rescue of a session `{}`", text.escape_debug()));
                Err(Failure { exit: Exit::NO_SUCH_SESSION, ..failure }
                    .hint("`sexton rescue list` lists all rescues"))
            }
            many => {
                let ids: Vec<_> = many.iter().map(|held| held.entry.session.as_str()).collect();
                Err(Failure::usage(format!("`{text}` is ambiguous: it matches {}", ids.join(", "))))
            }
        }
    }
}

fn list(rescues: &Rescues, context: &Context<'_>) -> Result<Exit, Failure> {
    if context.screen.json {
        let documents: Vec<_> = rescues.held.iter().map(document).collect();
        context.screen.document(&documents)?;
        return Ok(Exit::DONE);
    }
    let mut table = Table::new([
        Column::fixed("SESSION"),
        Column::shrinking("NAME"),
        Column::fixed("AGE"),
        Column::fixed("FILES"),
        Column::shrinking("REPO"),
    ]);
    for held in &rescues.held {
        table.row([
            held.entry.session.as_str().into(),
            held.name.as_deref().unwrap_or_default().into(),
            format_age(held.entry.created_at.age_at(context.now)).into(),
            held.entry.rescue.files.to_string().into(),
            held.repo.display().to_string().into(),
        ]);
    }
    if table.is_empty() {
        context.screen.note("no rescues found");
    } else {
        context.screen.table(&table)?;
    }
    Ok(Exit::DONE)
}

fn document(held: &Held) -> serde_json::Value {
    let entry = &held.entry;
    json!({
        "session": entry.session, "ref": entry.rescue.reference, "repo": held.repo.display().to_string(),
        "commit": entry.rescue.commit, "created_at": entry.created_at, "files": entry.rescue.files,
    })
}

async fn show(held: &Held, cleaner: &dyn WorktreeCleaner, context: &Context<'_>) -> Result<Exit, Failure> {
    let details = cleaner.describe_rescue(&held.repo, &held.entry.session).await?;
    if context.screen.json {
        context.screen.document(&whole_document(held, &details))?;
        return Ok(Exit::DONE);
    }
    let screen = &context.screen;
    let entry = &details.entry;
    screen.line(&format!("session  {}", entry.session))?;
    screen.line(&format!("saved    {} ago", format_age(entry.created_at.age_at(context.now))))?;
    screen.line(&visible(&format!("repo     {}", held.repo.display())))?;
    screen.line(&visible(&format!("ref      {}", entry.rescue.reference)))?;
    if let Some(head) = &details.head {
        let branch = details.branch.as_deref().unwrap_or("detached");
        screen.line(&visible(&format!("on       {branch} ({})", head.get(..12).unwrap_or(head))))?;
    }
    for path in &details.paths {
        let mark = match path.change {
            PathChange::Added => 'A',
            PathChange::Modified => 'M',
            PathChange::Deleted => 'D',
        };
        screen.line(&format!("{mark} {}", visible(&path.path.display().to_string())))?;
    }
    for left in &details.left_out {
        screen.warn(&format!("not saved: {}: {}", left.path.display(), left.why));
    }
    screen.hint(&format!("run `sexton rescue restore {}` to restore it", entry.session));
    Ok(Exit::DONE)
}

fn whole_document(held: &Held, details: &RescueDetails) -> serde_json::Value {
    let mut document = document(held);
    let change = |change: PathChange| match change {
        PathChange::Added => "added",
        PathChange::Modified => "modified",
        PathChange::Deleted => "deleted",
    };
    let paths: Vec<_> =
        details.paths.iter().map(|path| json!({"path": path.path, "change": change(path.change)})).collect();
    let left_out: Vec<_> =
        details.left_out.iter().map(|left| json!({"path": left.path, "why": left.why})).collect();
    document["branch"] = json!(details.branch);
    document["head"] = json!(details.head);
    document["paths"] = json!(paths);
    document["left_out"] = json!(left_out);
    document
}

/// Returns the path of the session's worktree, or the default path if no record has one.
async fn worktree_path(held: &Held, tools: &Tools, context: &Context<'_>) -> Result<PathBuf, Failure> {
    let record = tools.store.load(&held.entry.session).await?;
    if let Some(worktree) = record.and_then(|record| record.worktree) {
        return Ok(worktree.path.as_path().to_owned());
    }
    let worktree_root = context.config.worktree_root.value.0.clone();
    let worktree_root = worktree_root
        .unwrap_or_else(|| default_worktree_root(&tools.state_files.worktree_roots_dir(), &held.repo));
    Ok(worktree_root.join(held.entry.session.as_str()))
}

async fn restore(
    held: &Held,
    into: &Path,
    cleaner: &dyn WorktreeCleaner,
    context: &Context<'_>,
) -> Result<Exit, Failure> {
    let restored = cleaner.restore(&held.repo, &held.entry.session, into).await?;
    if context.screen.json {
        let document = json!({
            "session": held.entry.session, "path": restored.path.display().to_string(),
            "files": restored.files, "branch": restored.branch,
        });
        context.screen.document(&document)?;
        return Ok(Exit::DONE);
    }
    context.screen.path(&restored.path)?;
    let branch = match &restored.branch {
        Some(branch) => format!("on branch {branch}"),
        None => "on a detached HEAD".to_owned(),
    };
    let files = match restored.files {
        1 => "restored 1 file".to_owned(),
        many => format!("restored {many} files"),
    };
    context.screen.note(&format!("{files} {branch}; the rescue is kept until you drop it"));
    Ok(Exit::DONE)
}

async fn drop_all(
    rescues: &Rescues,
    names: &[String],
    cleaner: &dyn WorktreeCleaner,
    context: &Context<'_>,
) -> Result<Exit, Failure> {
    let chosen = names.iter().map(|name| rescues.require(name)).collect::<Result<Vec<_>, _>>()?;
    let mut dropped: Vec<&SessionId> = Vec::new();
    for held in chosen {
        let (session, commit) = (&held.entry.session, &held.entry.rescue.commit);
        if cleaner.drop_rescue(&held.repo, session, commit).await? {
            dropped.push(session);
            context.screen.note(&format!("dropped the rescue of session {session} (was {commit})"));
        }
    }
    if context.screen.json {
        context.screen.document(&json!({"dropped": dropped}))?;
    }
    Ok(Exit::DONE)
}
