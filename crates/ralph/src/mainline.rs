//! The base branch: finished work comes into it here, and nowhere else.
//!
//! The merge itself is made of objects alone, so that a conflict touches nothing anybody sees. Only then is the
//! branch moved forward: by its ref where nobody has it checked out, else in the worktree that has it, where git
//! itself refuses to touch what is not committed. What is merged already is told from the commits, so that it
//! does not matter how often, or by how many killed loops, this was tried before.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sexton_durable::{find, sync_file_system};

use crate::git::{Git, GitError, complaint};
use crate::schedule::MergeOutcome;
use crate::state::How;
use crate::ticket::Ticket;

/// How many paths a message names.
const MAX_NAMED: usize = 5;

/// The branch that work is merged into.
#[derive(Clone, Debug)]
pub(crate) struct Mainline {
    git: Git,
    base: String,
    /// Whether what is merged survives a power cut.
    power_safe: bool,
}

/// A worktree, as `git worktree list` tells it.
struct Checkout {
    path: PathBuf,
    git_dir: PathBuf,
    has_base: bool,
}

/// Whether the branch could be moved.
enum Moved {
    Yes,
    /// Somebody else moved it meanwhile: the merge is to be made anew.
    Overtaken,
    /// Not now, and why.
    NotNow(String),
}

/// How often a merge is made anew because somebody else moves the branch.
const ATTEMPTS: usize = 5;

impl Mainline {
    /// The branch `base` of the repository at `repo`.
    pub(crate) fn new(repo: &Path, base: &str, power_safe: bool) -> Mainline {
        Mainline { git: Git::at(repo), base: base.to_owned(), power_safe }
    }

    /// Its full name.
    pub(crate) fn reference(&self) -> String {
        format!("refs/heads/{}", self.base)
    }

    /// The commit that the branch of `ticket` is at, where there is one.
    pub(crate) fn find_branch(&self, ticket: &Ticket) -> Result<Option<String>, GitError> {
        self.git.find_commit(&format!("refs/heads/{}", ticket.branch()))
    }

    /// Deletes the branch of `ticket` where it still is at `tip`, all of which is in `saved`, and nobody has it
    /// checked out. Says whether it is gone.
    pub(crate) fn discard_branch(&self, ticket: &Ticket, tip: &str, saved: &str) -> Result<bool, GitError> {
        let reference = format!("refs/heads/{}", ticket.branch());
        let listed = self.git.say(&["worktree", "list", "--porcelain", "-z"])?;
        let line = format!("branch {reference}");
        if listed.split('\0').any(|found| found == line) || !self.git.contains(saved, tip)? {
            return Ok(false);
        }
        Ok(self.git.run(&["update-ref", "-d", &reference, tip])?.status.success())
    }

    /// The commit it is at.
    pub(crate) fn require_tip(&self) -> Result<String, GitError> {
        let found = self.git.find_commit(&self.reference())?;
        found.ok_or_else(|| GitError::Failed {
            command: "rev-parse".to_owned(),
            why: format!("there is no branch `{}` with a commit", self.base),
        })
    }

    /// Whether it has everything up to `commit`.
    pub(crate) fn contains(&self, commit: &str) -> Result<bool, GitError> {
        self.git.contains(&self.reference(), commit)
    }

    /// Merges `tip`, the work on `ticket`. The caller holds the lock of merges.
    ///
    /// Merged is what is durable: the worktree goes next, and neither the objects that an agent's git wrote nor
    /// the branch that ours moved are synced by git.
    pub(crate) fn merge(&self, ticket: &Ticket, tip: &str) -> Result<MergeOutcome, GitError> {
        let outcome = self.merge_in_memory(ticket, tip)?;
        if self.power_safe
            && matches!(outcome, MergeOutcome::Merged { .. })
            && let Err(error) = self.settle()
        {
            let why = format!("what was merged into `{}` cannot be made durable: {error}", self.base);
            return Ok(MergeOutcome::Deferred { why });
        }
        Ok(outcome)
    }

    /// Makes the repository durable as it stands.
    fn settle(&self) -> io::Result<()> {
        if sexton_mutant::is("no_merge_sync") {
            return Ok(());
        }
        let common = self.git.say(&["rev-parse", "--git-common-dir"]).map_err(io::Error::other)?;
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
        Ok(MergeOutcome::Deferred { why: format!("somebody else keeps moving the branch `{}`", self.base) })
    }

    /// The commit that has both sides, or the files that they do not agree about.
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
                Ok(Ok(self.git.sign(&commit)?))
            }
            (Some(1), Some(_)) => Ok(Err(parts.map(str::to_owned).collect())),
            _ => Err(GitError::Failed { command: "merge-tree".to_owned(), why: complaint(&output) }),
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
        let mut having = checkouts.iter().filter(|checkout| checkout.has_base);
        match (having.next(), having.next()) {
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

    /// Nobody has it checked out: it is a ref and nothing else.
    fn move_ref(&self, old: &str, new: &str) -> Result<Moved, GitError> {
        let message = "ralph: merged finished work";
        let output = self.git.run(&["update-ref", "-m", message, &self.reference(), new, old])?;
        if output.status.success() {
            return Ok(Moved::Yes);
        }
        if self.require_tip()? != old {
            return Ok(Moved::Overtaken);
        }
        Ok(self.not_now(&format!("cannot be moved: {}", complaint(&output))))
    }

    /// Somebody has it checked out: git brings files, index and branch forward together, or not at all.
    fn move_checkout(&self, checkout: &Checkout, old: &str, new: &str) -> Result<Moved, GitError> {
        let place = checkout.path.display();
        if !is_there(&checkout.path.join(".git"))? {
            return Ok(self.not_now(&format!("is checked out in {place}, which is not there")));
        }
        let there = Git::at(&checkout.path);
        for (file, what) in UNFINISHED {
            if is_there(&checkout.git_dir.join(file))? {
                return Ok(self.not_now(&format!("is checked out in {place}, where {what} is not finished")));
            }
        }
        let status =
            ["--no-optional-locks", "status", "--porcelain", "-z", "--untracked-files=no", "--no-renames"];
        let changed = there.say(&status)?;
        let changed: Vec<_> = changed.split('\0').filter_map(|entry| entry.get(3..)).collect();
        if !changed.is_empty() {
            return Ok(self.not_now(&format!("has uncommitted changes in {place}: {}", named(&changed))));
        }
        let merged = there.run(&["merge", "--ff-only", "--no-stat", "--quiet", new])?;
        match self.require_tip()? {
            tip if tip == new => Ok(Moved::Yes),
            tip if tip != old => Ok(Moved::Overtaken),
            _ => Ok(self.not_now(&format!("cannot be moved forward in {place}: {}", complaint(&merged)))),
        }
    }

    /// Whether the branch is being rebased there: then its ref moves when that is done.
    fn is_rebased_in(&self, checkout: &Checkout) -> Result<bool, GitError> {
        for file in ["rebase-merge/head-name", "rebase-apply/head-name"] {
            let file = checkout.git_dir.join(file);
            let name = find(fs::read(&file)).map_err(GitError::unreadable(&file))?;
            if name.is_some_and(|name| name.trim_ascii() == self.reference().as_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Every worktree of the repository.
    fn checkouts(&self) -> Result<Vec<Checkout>, GitError> {
        let listed = self.git.say(&["worktree", "list", "--porcelain", "-z"])?;
        let reference = format!("branch {}", self.reference());
        let mut checkouts = Vec::new();
        for entry in listed.split("\0\0") {
            let mut lines = entry.split('\0').filter(|line| !line.is_empty());
            let Some(path) = lines.next().and_then(|line| line.strip_prefix("worktree ")) else { continue };
            let lines: Vec<_> = lines.collect();
            let path = PathBuf::from(path);
            // A bare repository has nothing checked out, whatever its HEAD says.
            let has_base = lines.contains(&reference.as_str()) && !lines.contains(&"bare");
            match find_git_dir(&path) {
                // Another user's, who does not let anybody in. The loop has no business there.
                Err(error) if !has_base && error.is_denied() => {}
                git_dir => checkouts.push(Checkout { git_dir: git_dir?, path, has_base }),
            }
        }
        Ok(checkouts)
    }
}

/// Where git keeps the state of the worktree at `path`.
fn find_git_dir(path: &Path) -> Result<PathBuf, GitError> {
    let dot_git = path.join(".git");
    match find(fs::read(&dot_git)) {
        Ok(Some(link)) => {
            let named = link.trim_ascii_end().strip_prefix(b"gitdir: ").unwrap_or_default();
            Ok(path.join(OsStr::from_bytes(named)))
        }
        Ok(None) => Ok(path.to_owned()),
        Err(error) if error.kind() == ErrorKind::IsADirectory => Ok(dot_git),
        Err(error) => Err(GitError::unreadable(&dot_git)(error)),
    }
}

fn is_there(path: &Path) -> Result<bool, GitError> {
    Ok(find(path.metadata()).map_err(GitError::unreadable(path))?.is_some())
}

/// What git leaves where it was stopped in the middle of something.
const UNFINISHED: [(&str, &str); 5] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];

/// A few paths, and how many more there are.
pub(crate) fn named(paths: &[&str]) -> String {
    let shown: Vec<_> = paths.iter().take(MAX_NAMED).map(|path| path.escape_debug().to_string()).collect();
    match paths.len().saturating_sub(MAX_NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;
