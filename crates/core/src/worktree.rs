//! The yard: the [`WorktreeCleaner`] trait makes worktrees, saves what is in them, and takes them away.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::{OsText, ProcessProbe, Session, SessionId, Time};

/// Makes and removes git worktrees, and never loses what was in one.
///
/// # Contract
/// - **Rescue before removal.** The only way to remove a worktree is [`clear`](WorktreeCleaner::clear), which
///   makes everything durable that exists nowhere else before it gives anything up. Where the rescue fails, the
///   worktree is in its place.
/// - **Nothing outside the yard.** Only a path directly inside [`Plot::root`] that carries this session's
///   mark is removed; no symlink is followed out of it and no mount point crossed.
/// - **Nothing slips in between.** What `clear` removes, it rescues when nobody can reach it by its name any
///   more.
/// - **Never under a living process.** `clear` asks the probe before it moves the worktree and again
///   after; if somebody came in, it is moved back and kept, and rescued all the same.
/// - **By state, not by steps.** Every call looks at what is there and does what is missing, so that one
///   cut off anywhere can simply be made again.
/// - **Concurrency.** Two callers with the same plot do the work once; neither sees an error for it.
/// - **Blocking**, as for [`Store`](crate::Store): futures do their work when first polled.
#[async_trait]
pub trait WorktreeCleaner: Send + Sync {
    /// The plugin's name.
    fn name(&self) -> &'static str;

    /// The repository that `directory` lies in, as records name it: its main worktree, or the repository
    /// itself where that is bare. The same for every worktree of one repository.
    async fn find_repository(&self, directory: &Path) -> Result<PathBuf, WorktreeError>;

    /// The commit that `name` means to somebody who stands in `directory`: HEAD is that of the worktree there.
    /// `None` where it means none.
    async fn find_commit(&self, directory: &Path, name: &str) -> Result<Option<String>, WorktreeError>;

    /// Makes the worktree of a session that is already recorded, marked as its own before the first file
    /// is checked out.
    async fn create(
        &self,
        plot: &Plot,
        from: &StartPoint,
        now: Time,
    ) -> Result<CreatedWorktree, WorktreeError>;

    /// Puts the session's mark on a worktree that something else made directly inside the yard. One with
    /// another's mark is refused.
    async fn claim(&self, plot: &Plot, now: Time) -> Result<(), WorktreeError>;

    /// What is there now. Changes nothing.
    async fn inspect(&self, plot: &Plot) -> Result<Inspection, WorktreeError>;

    /// What [`inspect`](WorktreeCleaner::inspect) would say of a worktree that something else made, once
    /// it was claimed. Changes nothing.
    async fn survey(&self, plot: &Plot) -> Result<Inspection, WorktreeError>;

    /// Saves everything that exists nowhere else under a ref of the session. The same content again
    /// changes nothing. Where the worktree is gone, what an earlier rescue saved is the answer.
    async fn rescue(&self, plot: &Plot, now: Time) -> Result<Rescued, WorktreeError>;

    /// Rescues a worktree, and removes it where nobody is in it and nothing else speaks against it. Its name
    /// is free at once; its files lie in the yard's trash until [`sweep`](WorktreeCleaner::sweep). Says so
    /// where it is gone already.
    async fn clear(&self, plot: &Plot, probe: &dyn ProcessProbe, now: Time)
    -> Result<Cleared, WorktreeError>;

    /// Deletes what lies in the yard's trash and nobody is in, also what a killed run left there. Returns
    /// how many worktrees that were; a yard that does not exist has none.
    async fn sweep(&self, root: &Path, probe: &dyn ProcessProbe) -> Result<usize, WorktreeError>;

    /// Every worktree in the yard that carries the mark of `store`. The caller knows which have a record.
    async fn marked(&self, root: &Path, store: &str) -> Result<Vec<Marked>, WorktreeError>;

    /// The rescues that a repository holds, newest first. One that cannot be read hides no other.
    async fn rescues(&self, repo: &Path) -> Result<RescueList, WorktreeError>;

    /// One rescue, with every path in it.
    async fn describe_rescue(&self, repo: &Path, session: &SessionId)
    -> Result<RescueDetails, WorktreeError>;

    /// Puts a rescue back into `into`, which must be empty or not exist: staged, unstaged and untracked as
    /// they were. What comes back is its user's own: it carries no mark, and the rescue stays.
    async fn restore(
        &self,
        repo: &Path,
        session: &SessionId,
        into: &Path,
    ) -> Result<RestoredWork, WorktreeError>;

    /// Forgets a rescue, for ever, where it still is `commit`. Says whether there was one.
    async fn drop_rescue(
        &self,
        repo: &Path,
        session: &SessionId,
        commit: &str,
    ) -> Result<bool, WorktreeError>;
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

impl Plot {
    /// The plot of a recorded session; `None` where the record names no yard or no repository: such a
    /// worktree is nobody's to remove.
    pub fn of(session: &Session, store: &str) -> Option<Plot> {
        let worktree = session.worktree.as_ref()?;
        Some(Plot {
            store: store.to_owned(),
            session: session.id.clone(),
            repo: worktree.repo.as_ref()?.as_path().to_owned(),
            root: worktree.root.as_ref()?.as_path().to_owned(),
            path: worktree.path.as_path().to_owned(),
        })
    }
}

/// What a new worktree begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartPoint {
    /// The branch to make for it. It must not exist yet, unless something of it was begun.
    pub branch: String,
    /// Where it begins; the repository's HEAD without one.
    pub base: Option<String>,
    /// What an earlier session began, and this one goes on with.
    pub begun: Begun,
}

/// What there is of a piece of work before its worktree is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Begun {
    /// Nothing.
    #[default]
    Nothing,
    /// Perhaps the branch: where it is there, and nobody has it checked out, the worktree begins at its tip.
    Branch,
    /// The rescue of this session: its commit, its files and its index, on the branch it was on. Where the
    /// branch is there by now and is elsewhere, that is refused.
    Rescue(SessionId),
}

/// A worktree that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedWorktree {
    /// The commit it began at.
    pub base: String,
}

/// How a cleaner does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorktreeOptions {
    /// Whether small ignored files whose folder is not itself ignored are rescued too.
    pub rescue_ignored: bool,
}

/// What is at a plot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// Nothing: it was never made, or is removed.
    Absent,
    /// A worktree of this session.
    Present {
        /// Whether a rescue would have anything to save besides commits.
        dirty: bool,
        /// Commits that no other branch, tag or remote has.
        own_commits: usize,
    },
    /// Something that is not this session's worktree, and what it is.
    Foreign(String),
}

/// Says that a worktree's content is safe.
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

/// The rescues of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RescueList {
    /// Those that can be read, newest first.
    pub entries: Vec<RescueEntry>,
    /// Those that cannot: damaged, or of a newer version. Somebody's work all the same.
    pub unreadable: Vec<UnreadableRescue>,
}

/// A rescue that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRescue {
    /// Its ref.
    pub reference: String,
    /// Why.
    pub why: String,
}

/// A rescue that a repository holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescueEntry {
    /// The session whose work it is.
    pub session: SessionId,
    /// Where it is.
    pub rescue: Rescue,
    /// When it was made.
    pub created_at: Time,
}

/// A rescue, path by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescueDetails {
    /// Which rescue.
    pub entry: RescueEntry,
    /// The branch that was checked out; `None` for a detached HEAD.
    pub branch: Option<String>,
    /// The commit that was checked out.
    pub head: Option<String>,
    /// Every path that differed from HEAD, sorted.
    pub paths: Vec<RescuedPath>,
    /// What was not saved, and why.
    pub left_out: Vec<LeftOut>,
}

/// One path of a rescue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescuedPath {
    /// The path, from the worktree's top.
    pub path: OsText,
    /// How it differed from HEAD.
    pub change: PathChange,
}

/// How a path differed from HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange {
    /// HEAD does not have it.
    Added,
    /// HEAD has other content or another mode.
    Modified,
    /// Only HEAD has it.
    Deleted,
}

/// Something that a rescue did not save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The path, from the worktree's top.
    pub path: OsText,
    /// Why.
    pub why: String,
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

/// What became of a worktree that was to be rescued and removed.
#[derive(Debug)]
pub struct Cleared {
    /// Where its work is.
    pub rescued: Rescued,
    /// Whether it went.
    pub removal: Result<Removal, WorktreeError>,
}

/// What a restore gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredWork {
    /// Where.
    pub path: PathBuf,
    /// How many files differ from HEAD.
    pub files: usize,
    /// The branch that is checked out there; `None` for a detached HEAD.
    pub branch: Option<String>,
}

/// A marked worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Where it is, and whose.
    pub plot: Plot,
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
    /// It is no git repository, or one that cannot be used.
    #[error("{}: {why}", .path.display())]
    NoRepository {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The place to restore into cannot be used.
    #[error("cannot restore into {}: {why}", .path.display())]
    CannotRestore {
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
