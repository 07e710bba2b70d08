//! Worktrees: the [`WorktreeCleaner`] trait creates worktrees, rescues their work and removes them.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::{Host, OsText, ProcessProbe, Session, SessionId, Time};

/// Creates and removes git worktrees without losing work.
///
/// # Contract
/// - **Rescue before removal.** The only way to remove a worktree is [`clear`](WorktreeCleaner::clear), which
///   first makes everything durable that exists nowhere else. If the rescue fails, the worktree stays in place.
/// - **Nothing outside the worktree root.** Only a path directly inside [`WorktreeLocation::root`] that carries
///   this session's mark is removed; no symlink is followed out of it and no mount point crossed.
/// - **No change is missed.** `clear` rescues what it removes after the worktree can no longer be reached by
///   its name.
/// - **Never under a living process.** `clear` checks with the probe before it moves the worktree and again
///   after. If a process entered in between, the worktree is moved back, kept, and rescued nevertheless.
/// - **By state, not by steps.** Every call examines the present state and does what is missing, so that an
///   interrupted call can be repeated.
/// - **Concurrency.** Two callers with the same worktree location do the work once; neither gets an error for
///   it.
/// - **Blocking**, as for [`Store`](crate::Store): futures do their work when first polled.
#[async_trait]
pub trait WorktreeCleaner: Send + Sync {
    /// Returns the plugin's name.
    fn name(&self) -> &'static str;

    /// Returns the repository that `directory` lies in, as records name it: its main worktree, or the
    /// repository itself if it is bare. The result is the same for every worktree of a repository.
    async fn find_repository(&self, directory: &Path) -> Result<PathBuf, WorktreeError>;

    /// Returns the commit that `name` resolves to in `directory`, where HEAD is that of the worktree; `None` if
    /// it resolves to none.
    async fn find_commit(&self, directory: &Path, name: &str) -> Result<Option<String>, WorktreeError>;

    /// Creates the worktree of a session that is already recorded, and marks it before the first file is
    /// checked out.
    async fn create(
        &self,
        location: &WorktreeLocation,
        from: &StartPoint,
        now: Time,
    ) -> Result<CreatedWorktree, WorktreeError>;

    /// Puts the session's mark on a worktree that another tool made directly inside the worktree root. Refuses
    /// one that carries another session's mark.
    async fn claim(&self, location: &WorktreeLocation, now: Time) -> Result<(), WorktreeError>;

    /// Returns what exists at the location now. Changes nothing.
    async fn inspect(&self, location: &WorktreeLocation) -> Result<Inspection, WorktreeError>;

    /// Returns what [`inspect`](WorktreeCleaner::inspect) would return for a worktree of another tool after a
    /// claim. Changes nothing.
    async fn survey(&self, location: &WorktreeLocation) -> Result<Inspection, WorktreeError>;

    /// Saves everything that exists nowhere else under a ref of the session. Changes nothing if the content is
    /// already saved. If the worktree is gone, returns what an earlier rescue saved.
    async fn rescue(&self, location: &WorktreeLocation, now: Time) -> Result<Rescued, WorktreeError>;

    /// Rescues a worktree, and removes it if no process is in it and nothing else prevents it. Its name is free
    /// immediately; its files stay in the worktree root's trash until [`sweep`](WorktreeCleaner::sweep).
    /// Reports a worktree that is already gone.
    async fn clear(
        &self,
        location: &WorktreeLocation,
        probe: &dyn ProcessProbe,
        now: Time,
    ) -> Result<Cleared, WorktreeError>;

    /// Deletes the entries in the trash of the worktree root that no process is in, including those that a
    /// killed run left. Keeps the worktrees of sessions that `spare` selects: another host deletes them.
    /// Returns what was deleted and what could not be; both are empty for a root that does not exist. An entry
    /// that cannot be deleted does not prevent the deletion of others.
    async fn sweep(
        &self,
        root: &Path,
        probe: &dyn ProcessProbe,
        spare: &Spare<'_>,
    ) -> Result<Swept, WorktreeError>;

    /// Returns every worktree in the worktree root that carries the mark of `store`. The caller knows which
    /// have a record.
    async fn marked(&self, root: &Path, store: &str) -> Result<Vec<Marked>, WorktreeError>;

    /// Returns the rescues in a repository, newest first. An unreadable one does not hide the others.
    async fn rescues(&self, repo: &Path) -> Result<RescueList, WorktreeError>;

    /// Returns one rescue with all of its paths.
    async fn describe_rescue(&self, repo: &Path, session: &SessionId)
    -> Result<RescueDetails, WorktreeError>;

    /// Restores a rescue into `into`, which must be empty or not exist: staged, unstaged and untracked as they
    /// were. The restored worktree belongs to the user: it carries no mark, and the rescue is kept.
    async fn restore(
        &self,
        repo: &Path,
        session: &SessionId,
        into: &Path,
    ) -> Result<RestoredWork, WorktreeError>;

    /// Deletes a rescue permanently if it still is `commit`. Returns whether there was one.
    async fn drop_rescue(
        &self,
        repo: &Path,
        session: &SessionId,
        commit: &str,
    ) -> Result<bool, WorktreeError>;
}

/// The location of a session's worktree, and the session and store it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeLocation {
    /// The store that holds the session's record.
    pub store: String,
    /// The session.
    pub session: SessionId,
    /// The repository.
    pub repo: PathBuf,
    /// The worktree root.
    pub root: PathBuf,
    /// The worktree, directly inside the worktree root.
    pub path: PathBuf,
}

impl WorktreeLocation {
    /// Returns the worktree location of a recorded session; `None` if the record names no worktree root or no
    /// repository: such a worktree must not be removed.
    pub fn of(session: &Session, store: &str) -> Option<WorktreeLocation> {
        let worktree = session.worktree.as_ref()?;
        Some(WorktreeLocation {
            store: store.to_owned(),
            session: session.id.clone(),
            repo: worktree.repo.as_ref()?.as_path().to_owned(),
            root: worktree.root.as_ref()?.as_path().to_owned(),
            path: worktree.path.as_path().to_owned(),
        })
    }
}

/// What a new worktree starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartPoint {
    /// The branch to create. It must not exist yet, unless `begun` allows it.
    pub branch: String,
    /// The commit that the branch starts at; the repository's HEAD if not set.
    pub base: Option<String>,
    /// The work of an earlier session that is continued.
    pub begun: Begun,
}

/// The work that exists before the worktree is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Begun {
    /// Nothing.
    #[default]
    Nothing,
    /// Perhaps the branch: if it exists and is not checked out anywhere, the worktree starts at its tip.
    Branch,
    /// The rescue of this session: its commit, its files and its index, on the branch it was on. Refused if the
    /// branch exists now and points elsewhere.
    Rescue(SessionId),
}

/// A worktree that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedWorktree {
    /// The commit that it started at.
    pub base: String,
}

/// Options of a cleaner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeOptions {
    /// Whether small ignored files whose folder is not itself ignored are rescued too.
    pub rescue_ignored: bool,
    /// The host that is written into marks.
    pub host: Option<Host>,
}

/// What exists at a worktree location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// Nothing: it was never created, or has been removed.
    Absent,
    /// A worktree of this session.
    Present {
        /// Whether a rescue would save anything besides commits.
        dirty: bool,
        /// The number of commits that no other branch, tag or remote has.
        own_commits: usize,
    },
    /// Something that is not this session's worktree, with its description.
    Foreign(String),
}

/// Proof that a worktree's content is saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rescued {
    /// The ref and commit that hold it; `None` if nothing needed saving.
    pub saved: Option<Rescue>,
}

/// A rescue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rescue {
    /// `refs/sexton/rescue/<session>`.
    pub reference: String,
    /// The commit.
    pub commit: String,
    /// The number of files that differ from HEAD.
    pub files: usize,
}

/// The rescues of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RescueList {
    /// The readable ones, newest first.
    pub entries: Vec<RescueEntry>,
    /// The unreadable ones: damaged, or of a newer version. They hold work too.
    pub unreadable: Vec<UnreadableRescue>,
}

/// A rescue that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRescue {
    /// Its ref.
    pub reference: String,
    /// Why it cannot be read.
    pub why: String,
}

/// A rescue in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescueEntry {
    /// The session whose work it is.
    pub session: SessionId,
    /// Its ref and commit.
    pub rescue: Rescue,
    /// When it was made.
    pub created_at: Time,
    /// The host of its worktree; `None` if an earlier release did not record it.
    pub host: Option<Host>,
}

/// A rescue with its paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescueDetails {
    /// The rescue.
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
    /// The path, relative to the top of the worktree.
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
    /// The path, relative to the top of the worktree.
    pub path: OsText,
    /// Why.
    pub why: String,
}

/// The outcome of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was removed.
    Removed,
    /// It was gone already.
    AlreadyGone,
    /// It was kept, for this reason.
    Kept(String),
}

/// The outcome of a rescue with removal.
#[derive(Debug)]
pub struct Cleared {
    /// The saved work.
    pub rescued: Rescued,
    /// The outcome of the removal.
    pub removal: Result<Removal, WorktreeError>,
}

/// Returns whether another host must delete what was removed of a session.
pub type Spare<'a> = dyn Fn(&SessionId) -> bool + Sync + 'a;

/// The outcome of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The number of worktrees deleted.
    pub deleted: usize,
    /// What could not be deleted, sorted by path.
    pub left: Vec<Leftover>,
}

/// A removed worktree whose files could not all be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The session whose worktree it was, if known.
    pub session: Option<SessionId>,
    /// Where its files are.
    pub path: PathBuf,
    /// What could not be deleted, and why.
    pub why: String,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredWork {
    /// The restored worktree.
    pub path: PathBuf,
    /// The number of files that differ from HEAD.
    pub files: usize,
    /// The branch that is checked out there; `None` for a detached HEAD.
    pub branch: Option<String>,
}

/// A marked worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Its location.
    pub location: WorktreeLocation,
    /// When it was created.
    pub made_at: Time,
    /// The host that it was created on; `None` if an earlier release did not record it.
    pub host: Option<Host>,
}

/// Why a worktree operation failed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// It is not inside the worktree root, or does not carry this session's mark.
    #[error("{}: not a worktree of session {session} in {}: {why}", .path.display(), .root.display())]
    NotOurs {
        /// The path.
        path: PathBuf,
        /// The worktree root.
        root: PathBuf,
        /// The session.
        session: SessionId,
        /// What was found instead.
        why: String,
    },
    /// The branch, path or base cannot be used.
    #[error("cannot create a worktree at {}: {why}", .path.display())]
    CannotCreate {
        /// The path.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Its content could not be saved, so it is kept.
    #[error("cannot rescue {}: {why}", .path.display())]
    CannotRescue {
        /// The path.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It is not a git repository, or one that cannot be used.
    #[error("{}: {why}", .path.display())]
    NoRepository {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The target of the restore cannot be used.
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
        /// The failed action.
        action: &'static str,
        /// The path it was tried on.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
