//! The yard: the [`WorktreeCleaner`] trait makes worktrees, saves what is in them, and takes them away.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::{OsText, ProcessProbe, SessionId, Time};

/// Makes and removes git worktrees, and never loses what was in one.
///
/// # Contract
/// - **Rescue before removal.** [`remove`](WorktreeCleaner::remove) takes the [`Rescued`] that
///   [`rescue`](WorktreeCleaner::rescue) returned; there is no other way to get one. Everything that exists
///   nowhere else is durable before `rescue` returns.
/// - **Nothing outside the yard.** Only a path inside [`Plot::root`] that carries this session's mark is
///   removed; no symlink is followed out of it and no mount point crossed.
/// - **Never under a living process.** `remove` asks the probe before it moves the worktree and again
///   after; if somebody came in, it is moved back and kept.
/// - **By state, not by steps.** Every call looks at what is there and does what is missing, so that one
///   cut off anywhere can simply be made again.
/// - **Concurrency.** Two callers with the same plot do the work once; neither sees an error for it.
#[async_trait]
pub trait WorktreeCleaner: Send + Sync {
    /// The plugin's name.
    fn name(&self) -> &'static str;

    /// Makes the worktree of a session that is already recorded.
    async fn create(&self, plot: &Plot, from: &StartPoint) -> Result<CreatedWorktree, WorktreeError>;

    /// What is there now. Changes nothing.
    async fn inspect(&self, plot: &Plot) -> Result<Inspection, WorktreeError>;

    /// Saves everything that exists nowhere else under a ref of the session.
    async fn rescue(&self, plot: &Plot, now: Time) -> Result<Rescued, WorktreeError>;

    /// Removes a worktree that was rescued and that nobody is in. Says so where it is gone already.
    async fn remove(
        &self,
        plot: &Plot,
        rescued: &Rescued,
        probe: &dyn ProcessProbe,
    ) -> Result<Removal, WorktreeError>;

    /// Puts a rescue back: staged, unstaged and untracked as they were, into `into` or a new worktree.
    async fn restore(&self, plot: &Plot, into: &Path) -> Result<RestoredWork, WorktreeError>;

    /// Worktrees in `root` that carry the mark of `store`.
    async fn strays(&self, root: &Path, store: &str) -> Result<Vec<Stray>, WorktreeError>;
}

/// The place of a session's worktree, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// The store that knows the session.
    pub store: String,
    /// The session.
    pub session: SessionId,
    /// The repository.
    pub repo: PathBuf,
    /// The yard.
    pub root: PathBuf,
    /// The worktree, directly inside the yard.
    pub path: PathBuf,
}

/// What a new worktree begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartPoint {
    /// The branch to make; a detached worktree without one.
    pub branch: Option<String>,
    /// Where it begins; HEAD without one.
    pub base: Option<String>,
}

/// A worktree that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedWorktree {
    /// Its branch.
    pub branch: Option<String>,
    /// The commit it began at.
    pub base: String,
}

/// What is at a plot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// Nothing: it was never made, or is removed.
    Absent,
    /// A worktree of this session.
    Present {
        /// Whether it differs from its HEAD in anything.
        dirty: bool,
        /// Commits that no other branch, tag or remote has.
        own_commits: usize,
    },
    /// Something that is not this session's worktree, and what it is.
    Foreign(String),
}

/// Proof that a worktree's content is safe. Only [`WorktreeCleaner::rescue`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rescued {
    /// The ref and commit that hold it; `None` where there was nothing that exists nowhere else.
    pub saved: Option<Rescue>,
}

/// A rescue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rescue {
    /// `refs/sexton/rescue/<session>`.
    pub reference: String,
    /// The commit.
    pub commit: String,
    /// How many files differ from HEAD.
    pub files: usize,
}

/// What became of a worktree that was to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is gone.
    Removed,
    /// It was gone already.
    AlreadyGone,
    /// It stays, because of this.
    Kept(String),
}

/// What a restore gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredWork {
    /// Where.
    pub path: PathBuf,
    /// How many files.
    pub files: usize,
}

/// A marked worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// The session in its mark.
    pub session: SessionId,
    /// Where it is.
    pub path: OsText,
    /// Since when.
    pub made_at: Time,
}

/// Why a worktree was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// It does not lie inside the yard, or not under this session's mark.
    #[error("{}: not a worktree of session {session} in {}: {why}", .path.display(), .root.display())]
    NotOurs {
        /// The path.
        path: PathBuf,
        /// The yard.
        root: PathBuf,
        /// The session.
        session: SessionId,
        /// What was seen.
        why: String,
    },
    /// The branch, path or base cannot be used.
    #[error("cannot make a worktree at {}: {why}", .path.display())]
    CannotCreate {
        /// The path.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Its content could not be saved, so it stays.
    #[error("cannot rescue {}: {why}", .path.display())]
    CannotRescue {
        /// The path.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// There is no such rescue.
    #[error("there is no rescue of session {session} in {}", .repo.display())]
    NoRescue {
        /// The session.
        session: SessionId,
        /// The repository.
        repo: PathBuf,
    },
    /// The operating system or git failed.
    #[error("{action} {}", .path.display())]
    Backend {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
