//! Worktrees in memory, and a cleaner that panics where a real one could lose work.
//!
//! It refuses worktrees outside the worktree root, and panics if a worktree to remove has occupants, because both are
//! errors of the caller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use sexton_core::worktree::{
    Cleared, CreatedWorktree, Inspection, Leftover, Marked, PathChange, Removal, Rescue, RescueDetails,
    RescueEntry, RescueList, Rescued, RescuedPath, RestoredWork, Spare, StartPoint, Swept, WorktreeLocation,
};
use sexton_core::{Host, ProcessProbe, SessionId, Time, WorktreeCleaner, WorktreeError};

/// The base commit of every fake worktree.
const BASE: &str = "0000000000000000000000000000000000000001";

/// A [`WorktreeCleaner`] with worktrees in memory. Clones share them.
#[derive(Clone, Default)]
pub struct FakeCleaner {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    worktrees: BTreeMap<PathBuf, Worktree>,
    rescues: BTreeMap<(PathBuf, SessionId), Saved>,
    /// Number of rescues so far, from which their commits are derived.
    rescued: u64,
    removed: Vec<PathBuf>,
    /// Removed, and not yet swept.
    trash: Vec<(PathBuf, SessionId)>,
    undeletable: BTreeMap<PathBuf, String>,
    unrescuable: BTreeMap<PathBuf, String>,
    late_occupants: BTreeMap<PathBuf, String>,
}

/// Files of a worktree that are not in its base.
type Files = BTreeMap<String, String>;

struct Worktree {
    location: WorktreeLocation,
    /// Whether it has the mark of its location's session.
    marked: bool,
    made_at: Time,
    files: Files,
    own_commits: usize,
    /// The host on which it was created.
    host: Option<Host>,
}

struct Saved {
    rescue: Rescue,
    created_at: Time,
    files: Files,
    own_commits: usize,
    host: Option<Host>,
}

impl Worktree {
    fn empty(location: &WorktreeLocation, made_at: Time) -> Worktree {
        let files = Files::new();
        Worktree { location: location.clone(), marked: true, made_at, files, own_commits: 0, host: None }
    }

    fn has_work(&self) -> bool {
        !self.files.is_empty() || self.own_commits > 0
    }
}

impl FakeCleaner {
    /// Creates a cleaner without worktrees.
    pub fn new() -> FakeCleaner {
        FakeCleaner::default()
    }

    /// Adds a worktree at `location`, as an earlier `create` would have.
    pub fn place(&self, location: &WorktreeLocation, made_at: Time) {
        self.state().worktrees.insert(location.path.clone(), Worktree::empty(location, made_at));
    }

    /// Adds a worktree without a mark at `location`, as another program would have.
    pub fn place_unmarked(&self, location: &WorktreeLocation, made_at: Time) {
        let worktree = Worktree { marked: false, ..Worktree::empty(location, made_at) };
        self.state().worktrees.insert(location.path.clone(), worktree);
    }

    /// Writes a file into a worktree.
    pub fn write(&self, path: &Path, file: &str, content: &str) {
        self.state().require(path).files.insert(file.to_owned(), content.to_owned());
    }

    /// Adds a commit to a worktree that is on no other branch.
    pub fn commit(&self, path: &Path) {
        self.state().require(path).own_commits += 1;
    }

    /// Makes every rescue of a worktree fail with `why`.
    pub fn refuse_rescue(&self, path: &Path, why: &str) {
        self.state().unrescuable.insert(path.to_owned(), why.to_owned());
    }

    /// Lets rescues of a worktree succeed again.
    pub fn allow_rescue(&self, path: &Path) {
        self.state().unrescuable.remove(path);
    }

    /// Makes the deletion of a removed worktree's files fail with `why`.
    pub fn refuse_deletion(&self, path: &Path, why: &str) {
        self.state().undeletable.insert(path.to_owned(), why.to_owned());
    }

    /// Lets the deletion of a removed worktree's files succeed again.
    pub fn allow_deletion(&self, path: &Path) {
        self.state().undeletable.remove(path);
    }

    /// Records that a worktree was created on `host`.
    pub fn make_on(&self, path: &Path, host: Host) {
        self.state().require(path).host = Some(host);
    }

    /// Simulates a process that enters the worktree during the next removal, which then keeps it because of `why`. No
    /// caller can prevent this race, so it is the only occupant that does not panic.
    pub fn enter_during_removal(&self, path: &Path, why: &str) {
        self.state().late_occupants.insert(path.to_owned(), why.to_owned());
    }

    /// Returns whether a worktree exists at `path`.
    pub fn exists(&self, path: &Path) -> bool {
        self.state().worktrees.contains_key(path)
    }

    /// Returns the removed worktrees, in order.
    pub fn removed(&self) -> Vec<PathBuf> {
        self.state().removed.clone()
    }

    /// Returns the worktrees in the trash.
    pub fn trash(&self) -> Vec<PathBuf> {
        self.state().trash.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Returns the files in the rescue of a session, or `None` if it has no rescue.
    pub fn find_rescued(&self, repo: &Path, session: &SessionId) -> Option<BTreeMap<String, String>> {
        let key = (repo.to_owned(), session.clone());
        self.state().rescues.get(&key).map(|saved| saved.files.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked inside a call has already failed; other tests can continue.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Saved {
    fn entry(&self, session: &SessionId) -> RescueEntry {
        RescueEntry {
            session: session.clone(),
            rescue: self.rescue.clone(),
            created_at: self.created_at,
            host: self.host.clone(),
        }
    }
}

impl State {
    fn require_rescue(&self, repo: &Path, session: &SessionId) -> Result<&Saved, WorktreeError> {
        let (repo, session) = (repo.to_owned(), session.clone());
        self.rescues.get(&(repo.clone(), session.clone())).ok_or(WorktreeError::NoRescue { session, repo })
    }

    fn require(&mut self, path: &Path) -> &mut Worktree {
        self.worktrees.get_mut(path).expect("a worktree that was made")
    }

    /// Returns the worktree at `location`, or `None` if nothing is there. Fails if it has no mark or another one.
    fn find(&self, location: &WorktreeLocation) -> Result<Option<&Worktree>, WorktreeError> {
        require_inside(location)?;
        let Some(worktree) = self.worktrees.get(&location.path) else { return Ok(None) };
        if !worktree.marked {
            return Err(not_ours(location, "it has no mark"));
        }
        if worktree.location == *location {
            return Ok(Some(worktree));
        }
        Err(not_ours(location, &format!("it has the mark of session {}", worktree.location.session)))
    }
}

fn not_ours(location: &WorktreeLocation, why: &str) -> WorktreeError {
    let (path, root) = (location.path.clone(), location.root.clone());
    WorktreeError::NotOurs { path, root, session: location.session.clone(), why: why.to_owned() }
}

/// Fails unless the worktree is a direct child of the worktree root, without resolving `..`.
fn require_inside(location: &WorktreeLocation) -> Result<(), WorktreeError> {
    if location.path.parent() == Some(&*location.root) && location.path.file_name().is_some() {
        return Ok(());
    }
    Err(not_ours(location, "it is not directly inside the worktree root"))
}

#[async_trait]
impl WorktreeCleaner for FakeCleaner {
    fn name(&self) -> &'static str {
        "fake"
    }

    async fn find_repository(&self, directory: &Path) -> Result<PathBuf, WorktreeError> {
        Ok(directory.to_owned())
    }

    async fn find_commit(&self, _: &Path, name: &str) -> Result<Option<String>, WorktreeError> {
        Ok((name == "HEAD").then(|| BASE.to_owned()))
    }

    async fn create(
        &self,
        location: &WorktreeLocation,
        from: &StartPoint,
        now: Time,
    ) -> Result<CreatedWorktree, WorktreeError> {
        let mut state = self.state();
        if state.find(location)?.is_none() {
            state.worktrees.insert(location.path.clone(), Worktree::empty(location, now));
        }
        Ok(CreatedWorktree { base: from.base.clone().unwrap_or_else(|| BASE.to_owned()) })
    }

    async fn claim(&self, location: &WorktreeLocation, now: Time) -> Result<(), WorktreeError> {
        require_inside(location)?;
        let mut state = self.state();
        if let Some(worktree) = state.worktrees.get_mut(&location.path).filter(|worktree| !worktree.marked) {
            (worktree.location, worktree.marked, worktree.made_at) = (location.clone(), true, now);
        }
        match state.find(location)? {
            Some(_) => Ok(()),
            None => Err(not_ours(location, "there is no worktree")),
        }
    }

    async fn inspect(&self, location: &WorktreeLocation) -> Result<Inspection, WorktreeError> {
        require_inside(location)?;
        Ok(match self.state().find(location) {
            Ok(None) => Inspection::Absent,
            Ok(Some(worktree)) => {
                Inspection::Present { dirty: !worktree.files.is_empty(), own_commits: worktree.own_commits }
            }
            Err(foreign) => Inspection::Foreign(foreign.to_string()),
        })
    }

    async fn survey(&self, location: &WorktreeLocation) -> Result<Inspection, WorktreeError> {
        let unmarked = |state: &State| {
            let worktree = state.worktrees.get(&location.path).filter(|worktree| !worktree.marked)?;
            Some(Inspection::Present { dirty: !worktree.files.is_empty(), own_commits: worktree.own_commits })
        };
        require_inside(location)?;
        let found = unmarked(&self.state());
        match found {
            Some(present) => Ok(present),
            None => self.inspect(location).await,
        }
    }

    async fn rescue(&self, location: &WorktreeLocation, now: Time) -> Result<Rescued, WorktreeError> {
        let mut state = self.state();
        if let Some(why) = state.unrescuable.get(&location.path) {
            return Err(WorktreeError::CannotRescue { path: location.path.clone(), why: why.clone() });
        }
        let key = (location.repo.clone(), location.session.clone());
        let Some(worktree) = state.find(location)? else {
            // An earlier run rescued and removed it: return that rescue.
            return Ok(Rescued { saved: state.rescues.get(&key).map(|saved| saved.rescue.clone()) });
        };
        if !worktree.has_work() {
            return Ok(Rescued { saved: None });
        }
        let (files, own_commits, host) =
            (worktree.files.clone(), worktree.own_commits, worktree.host.clone());
        let earlier = state.rescues.get(&key);
        if let Some(same) = earlier.filter(|saved| saved.files == files && saved.own_commits == own_commits) {
            return Ok(Rescued { saved: Some(same.rescue.clone()) });
        }
        state.rescued += 1;
        let rescue = Rescue {
            reference: format!("refs/sexton/rescue/{}", location.session),
            commit: format!("{:040x}", state.rescued),
            files: files.len(),
        };
        state
            .rescues
            .insert(key, Saved { rescue: rescue.clone(), created_at: now, files, own_commits, host });
        Ok(Rescued { saved: Some(rescue) })
    }

    async fn clear(
        &self,
        location: &WorktreeLocation,
        probe: &dyn ProcessProbe,
        now: Time,
    ) -> Result<Cleared, WorktreeError> {
        let rescued = self.rescue(location, now).await?;
        if self.state().find(location)?.is_none() {
            return Ok(Cleared { rescued, removal: Ok(Removal::AlreadyGone) });
        }
        let occupants = probe.occupants(&location.path).await.expect("the fake probe does not fail");
        assert!(
            occupants.is_empty(),
            "{} is removed while occupied by {occupants:?}",
            location.path.display()
        );
        let mut state = self.state();
        if let Some(why) = state.late_occupants.remove(&location.path) {
            return Ok(Cleared { rescued, removal: Ok(Removal::Kept(why)) });
        }
        state.worktrees.remove(&location.path);
        state.removed.push(location.path.clone());
        state.trash.push((location.path.clone(), location.session.clone()));
        Ok(Cleared { rescued, removal: Ok(Removal::Removed) })
    }

    async fn sweep(
        &self,
        root: &Path,
        _: &dyn ProcessProbe,
        spare: &Spare<'_>,
    ) -> Result<Swept, WorktreeError> {
        let mut state = self.state();
        let (mut swept, mut kept) = (Swept::default(), Vec::new());
        for (path, session) in std::mem::take(&mut state.trash) {
            if path.parent() != Some(root) || spare(&session) {
                kept.push((path, session));
            } else if let Some(why) = state.undeletable.get(&path) {
                let why = why.clone();
                swept.left.push(Leftover { session: Some(session.clone()), path: path.clone(), why });
                kept.push((path, session));
            } else {
                swept.deleted += 1;
            }
        }
        state.trash = kept;
        Ok(swept)
    }

    async fn marked(&self, root: &Path, store: &str) -> Result<Vec<Marked>, WorktreeError> {
        let state = self.state();
        let ours = |worktree: &&Worktree| {
            worktree.marked && worktree.location.root == root && worktree.location.store == store
        };
        let marked = |worktree: &Worktree| Marked {
            location: worktree.location.clone(),
            made_at: worktree.made_at,
            host: worktree.host.clone(),
        };
        Ok(state.worktrees.values().filter(ours).map(marked).collect())
    }

    async fn rescues(&self, repo: &Path) -> Result<RescueList, WorktreeError> {
        let state = self.state();
        let here = state.rescues.iter().filter(|((of, _), _)| of == repo);
        let mut entries: Vec<_> = here.map(|((_, session), saved)| saved.entry(session)).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.created_at));
        Ok(RescueList { entries, unreadable: Vec::new() })
    }

    async fn describe_rescue(
        &self,
        repo: &Path,
        session: &SessionId,
    ) -> Result<RescueDetails, WorktreeError> {
        let state = self.state();
        let saved = state.require_rescue(repo, session)?;
        let path = |path: &String| RescuedPath { path: path.clone().into(), change: PathChange::Added };
        Ok(RescueDetails {
            entry: saved.entry(session),
            branch: None,
            head: Some(BASE.to_owned()),
            paths: saved.files.keys().map(path).collect(),
            left_out: Vec::new(),
        })
    }

    async fn restore(
        &self,
        repo: &Path,
        session: &SessionId,
        into: &Path,
    ) -> Result<RestoredWork, WorktreeError> {
        let state = self.state();
        let files = state.require_rescue(repo, session)?.files.len();
        Ok(RestoredWork { path: into.to_owned(), files, branch: None })
    }

    async fn drop_rescue(
        &self,
        repo: &Path,
        session: &SessionId,
        commit: &str,
    ) -> Result<bool, WorktreeError> {
        let mut state = self.state();
        let key = (repo.to_owned(), session.clone());
        let still = state.rescues.get(&key).is_some_and(|saved| saved.rescue.commit == commit);
        Ok(still && state.rescues.remove(&key).is_some())
    }
}

#[cfg(test)]
mod tests;
