//! The base branch. Finished work is merged only here.
//!
//! The merge commit is created from objects alone, so a conflict changes nothing visible. Then the branch is moved: by
//! its ref if it is not checked out, else in the worktree that has it, where git refuses to overwrite uncommitted
//! changes. The commits show whether work is already merged, so the merge can be repeated after a killed loop.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sexton_durable::{SMALL_FILE, find, read_regular, sync_file_system};

use crate::git::{Git, GitError, error_text};
use crate::schedule::MergeOutcome;
use crate::state::How;
use crate::ticket::Ticket;

/// Maximum number of paths in a message.
const MAX_NAMED: usize = 5;

/// The branch that work is merged into.
#[derive(Clone, Debug)]
pub(crate) struct BaseBranch {
    git: Git,
    base: String,
    /// Whether merges must survive a power failure.
    power_safe: bool,
}

/// A worktree, as listed by `git worktree list`.
struct Checkout {
    path: PathBuf,
    git_dir: PathBuf,
    has_base: bool,
}

/// Result of moving the branch.
enum Moved {
    Yes,
    /// Another process moved it in the meantime, so the merge must be repeated.
    Overtaken,
    /// It cannot be moved now, for this reason.
    NotNow(String),
}

/// Maximum number of merges while another process moves the branch.
const ATTEMPTS: usize = 5;

impl BaseBranch {
    /// Creates a handle of the branch `base` in the repository at `repo`.
    pub(crate) fn new(repo: &Path, base: &str, power_safe: bool) -> BaseBranch {
        BaseBranch { git: Git::at(repo), base: base.to_owned(), power_safe }
    }

    /// Returns the full ref name.
    pub(crate) fn reference(&self) -> String {
        format!("refs/heads/{}", self.base)
    }

    /// Returns the commit of the branch of `ticket`, if the branch exists.
    pub(crate) fn find_branch(&self, ticket: &Ticket) -> Result<Option<String>, GitError> {
        self.git.find_commit(&format!("refs/heads/{}", ticket.branch()))
    }

    /// Deletes the branch of `ticket` if it is still at `tip`, `saved` contains `tip`, and it is not checked out.
    /// Returns whether it was deleted.
    pub(crate) fn discard_branch(&self, ticket: &Ticket, tip: &str, saved: &str) -> Result<bool, GitError> {
        let reference = format!("refs/heads/{}", ticket.branch());
        let listed = self.git.output(&["worktree", "list", "--porcelain", "-z"])?;
        let line = format!("branch {reference}");
        if listed.split('\0').any(|found| found == line) || !self.git.contains(saved, tip)? {
            return Ok(false);
        }
        Ok(self.git.run(&["update-ref", "-d", &reference, tip])?.status.success())
    }

    /// Returns the commit of the branch.
    pub(crate) fn require_tip(&self) -> Result<String, GitError> {
        let found = self.git.find_commit(&self.reference())?;
        found.ok_or_else(|| GitError::Failed {
            command: "rev-parse".to_owned(),
            why: format!("the branch `{}` does not exist or has no commit", self.base),
        })
    }

    /// Returns whether the branch contains `commit`.
    pub(crate) fn contains(&self, commit: &str) -> Result<bool, GitError> {
        self.git.contains(&self.reference(), commit)
    }

    /// Merges `tip`, the work on `ticket`. The caller holds the merge lock.
    ///
    /// `Merged` means durable, because the worktree is removed next and git syncs neither the objects that the agent
    /// wrote nor the moved branch.
    pub(crate) fn merge(&self, ticket: &Ticket, tip: &str) -> Result<MergeOutcome, GitError> {
        let outcome = self.merge_in_memory(ticket, tip)?;
        if self.power_safe
            && matches!(outcome, MergeOutcome::Merged { .. })
            && let Err(error) = self.sync()
        {
            let why = format!("cannot sync the merge into `{}` to disk: {error}", self.base);
            return Ok(MergeOutcome::Deferred { why });
        }
        Ok(outcome)
    }

    /// Syncs the repository to disk.
    fn sync(&self) -> io::Result<()> {
        if sexton_mutant::is("no_merge_sync") {
            return Ok(());
        }
        let common = self.git.output(&["rev-parse", "--git-common-dir"]).map_err(io::Error::other)?;
        sync_file_system(&self.git.directory().join(common))
    }

    fn merge_in_memory(&self, ticket: &Ticket, tip: &str) -> Result<MergeOutcome, GitError> {
        for _ in 0..ATTEMPTS {
            let base = self.require_tip()?;
            if self.git.contains(&base, tip)? {
                return Ok(MergeOutcome::Merged { commit: base, how: How::Already });
            }
            let (commit, how) = if self.git.contains(tip, &base)? {
                (tip.to_owned(), How::FastForward)
            } else {
                match self.make_merge(ticket, &base, tip)? {
                    Ok(commit) => (commit, How::MergeCommit),
                    Err(paths) => return Ok(MergeOutcome::Conflict { paths, worktree: None }),
                }
            };
            match self.move_to(&base, &commit)? {
                Moved::Yes => return Ok(MergeOutcome::Merged { commit, how }),
                Moved::NotNow(why) => return Ok(MergeOutcome::Deferred { why }),
                Moved::Overtaken => {}
            }
        }
        Ok(MergeOutcome::Deferred { why: format!("another process keeps moving the branch `{}`", self.base) })
    }

    /// Creates a merge commit. Returns the conflicting files if there are any.
    fn make_merge(
        &self,
        ticket: &Ticket,
        base: &str,
        tip: &str,
    ) -> Result<Result<String, Vec<String>>, GitError> {
        let arguments = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", base, tip];
        let output = self.git.run(&arguments)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut parts = text.split('\0').filter(|part| !part.is_empty());
        match (output.status.code(), parts.next()) {
            (Some(0), Some(tree)) => {
                let message = format!("Merge branch '{}'", ticket.branch());
                let commit = ["commit-tree", tree, "-p", base, "-p", tip, "-m", &message];
                Ok(Ok(self.git.output_with_identity(&commit)?))
            }
            (Some(1), Some(_)) => Ok(Err(parts.map(str::to_owned).collect())),
            _ => Err(GitError::Failed { command: "merge-tree".to_owned(), why: error_text(&output) }),
        }
    }

    /// Moves the branch from `old` to `new`, which contains it.
    fn move_to(&self, old: &str, new: &str) -> Result<Moved, GitError> {
        let checkouts = self.checkouts()?;
        for checkout in &checkouts {
            if self.is_rebased_in(checkout)? {
                return Ok(self.not_now(&format!("is being rebased in {}", checkout.path.display())));
            }
        }
        let mut with_base = checkouts.iter().filter(|checkout| checkout.has_base);
        match (with_base.next(), with_base.next()) {
            (None, _) => self.move_ref(old, new),
            (Some(only), None) => self.move_checkout(only, old, new),
            (Some(one), Some(other)) => {
                let (one, other) = (one.path.display(), other.path.display());
                Ok(self.not_now(&format!("is checked out twice, in {one} and in {other}")))
            }
        }
    }

    fn not_now(&self, why: &str) -> Moved {
        Moved::NotNow(format!("the branch `{}` {why}", self.base))
    }

    /// Moves the ref of a branch that is not checked out.
    fn move_ref(&self, old: &str, new: &str) -> Result<Moved, GitError> {
        let message = "ralph: merged finished work";
        let output = self.git.run(&["update-ref", "-m", message, &self.reference(), new, old])?;
        if output.status.success() {
            return Ok(Moved::Yes);
        }
        if self.require_tip()? != old {
            return Ok(Moved::Overtaken);
        }
        Ok(self.not_now(&format!("cannot be moved: {}", error_text(&output))))
    }

    /// Moves a branch that is checked out. Git updates files, index and branch together, or nothing.
    fn move_checkout(&self, checkout: &Checkout, old: &str, new: &str) -> Result<Moved, GitError> {
        let place = checkout.path.display();
        if !exists(&checkout.path.join(".git"))? {
            return Ok(self.not_now(&format!("is checked out in {place}, which does not exist")));
        }
        let there = Git::at(&checkout.path);
        for (file, what) in UNFINISHED {
            if exists(&checkout.git_dir.join(file))? {
                return Ok(self.not_now(&format!("is checked out in {place}, where {what} is in progress")));
            }
        }
        let status =
            ["--no-optional-locks", "status", "--porcelain", "-z", "--untracked-files=no", "--no-renames"];
        let changed = there.output(&status)?;
        let changed: Vec<_> = changed.split('\0').filter_map(|entry| entry.get(3..)).collect();
        if !changed.is_empty() {
            return Ok(self.not_now(&format!("has uncommitted changes in {place}: {}", named(&changed))));
        }
        let merged = there.run(&["merge", "--ff-only", "--no-stat", "--quiet", new])?;
        match self.require_tip()? {
            tip if tip == new => Ok(Moved::Yes),
            tip if tip != old => Ok(Moved::Overtaken),
            _ => Ok(self.not_now(&format!("cannot be moved forward in {place}: {}", error_text(&merged)))),
        }
    }

    /// Returns whether the branch is being rebased in `checkout`. The rebase moves the ref when it is done.
    fn is_rebased_in(&self, checkout: &Checkout) -> Result<bool, GitError> {
        for file in ["rebase-merge/head-name", "rebase-apply/head-name"] {
            let file = checkout.git_dir.join(file);
            let name = find(read_regular(&file, SMALL_FILE)).map_err(GitError::unreadable(&file))?;
            if name.is_some_and(|name| name.trim_ascii() == self.reference().as_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the worktrees of the repository.
    fn checkouts(&self) -> Result<Vec<Checkout>, GitError> {
        let listed = self.git.output(&["worktree", "list", "--porcelain", "-z"])?;
        let reference = format!("branch {}", self.reference());
        let mut checkouts = Vec::new();
        for entry in listed.split("\0\0") {
            let mut lines = entry.split('\0').filter(|line| !line.is_empty());
            let Some(path) = lines.next().and_then(|line| line.strip_prefix("worktree ")) else { continue };
            let lines: Vec<_> = lines.collect();
            let path = PathBuf::from(path);
            // A bare repository has nothing checked out, whatever its HEAD is.
            let has_base = lines.contains(&reference.as_str()) && !lines.contains(&"bare");
            match find_git_dir(&path) {
                // A worktree that another user made inaccessible, and that does not have the branch.
                Err(error) if !has_base && error.is_denied() => {}
                git_dir => checkouts.push(Checkout { git_dir: git_dir?, path, has_base }),
            }
        }
        Ok(checkouts)
    }
}

/// Returns the git directory of the worktree at `path`.
fn find_git_dir(path: &Path) -> Result<PathBuf, GitError> {
    let dot_git = path.join(".git");
    match find(read_regular(&dot_git, SMALL_FILE)) {
        Ok(Some(link)) => {
            let named = link.trim_ascii_end().strip_prefix(b"gitdir: ").unwrap_or_default();
            Ok(path.join(OsStr::from_bytes(named)))
        }
        Ok(None) => Ok(path.to_owned()),
        Err(error) if error.kind() == ErrorKind::IsADirectory => Ok(dot_git),
        Err(error) => Err(GitError::unreadable(&dot_git)(error)),
    }
}

fn exists(path: &Path) -> Result<bool, GitError> {
    Ok(find(path.metadata()).map_err(GitError::unreadable(path))?.is_some())
}

/// Files that git leaves while an operation is in progress.
const UNFINISHED: [(&str, &str); 5] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];

/// Formats the first paths and the number of the others.
pub(crate) fn named(paths: &[&str]) -> String {
    let shown: Vec<_> = paths.iter().take(MAX_NAMED).map(|path| path.escape_debug().to_string()).collect();
    match paths.len().saturating_sub(MAX_NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
