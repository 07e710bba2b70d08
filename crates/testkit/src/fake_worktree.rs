//! Worktrees in memory, and a cleaner that panics where a real one could have lost work.
//!
//! It may not remove what lies outside the yard or what somebody is in: those are mistakes of the caller, and
//! the test that makes one fails.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use sexton_core::worktree::{
    Cleared, CreatedWorktree, Inspection, Marked, PathChange, Plot, Removal, Rescue, RescueDetails,
    RescueEntry, RescueList, Rescued, RescuedPath, RestoredWork, StartPoint,
};
use sexton_core::{ProcessProbe, SessionId, Time, WorktreeCleaner, WorktreeError};

/// The commit that every fake worktree begins at.
const BASE: &str = "0000000000000000000000000000000000000001";

/// A [`WorktreeCleaner`] over worktrees that exist only in it. Clones see the same yard.
#[derive(Clone, Default)]
pub struct FakeCleaner {
    yard: Arc<Mutex<Yard>>,
}

#[derive(Default)]
struct Yard {
    worktrees: BTreeMap<PathBuf, Worktree>,
    rescues: BTreeMap<(PathBuf, SessionId), Saved>,
    /// How many rescues there have ever been: their commits.
    rescued: u64,
    removed: Vec<PathBuf>,
    /// Removed, and not yet swept.
    trash: Vec<PathBuf>,
    unrescuable: BTreeMap<PathBuf, String>,
    came_in: BTreeMap<PathBuf, String>,
}

/// What a worktree holds that its base does not.
type Files = BTreeMap<String, String>;

struct Worktree {
    plot: Plot,
    /// Whether the plot's session has put its mark on it.
    marked: bool,
    made_at: Time,
    files: Files,
    own_commits: usize,
}

struct Saved {
    rescue: Rescue,
    created_at: Time,
    files: Files,
    own_commits: usize,
}

impl Worktree {
    fn empty(plot: &Plot, made_at: Time) -> Worktree {
        Worktree { plot: plot.clone(), marked: true, made_at, files: Files::new(), own_commits: 0 }
    }

    fn has_work(&self) -> bool {
        !self.files.is_empty() || self.own_commits > 0
    }
}

impl FakeCleaner {
    /// An empty yard.
    pub fn new() -> FakeCleaner {
        FakeCleaner::default()
    }

    /// Puts a worktree at `plot`, as an earlier `create` had left it.
    pub fn place(&self, plot: &Plot, made_at: Time) {
        self.yard().worktrees.insert(plot.path.clone(), Worktree::empty(plot, made_at));
    }

    /// Puts a worktree at `plot` that something else made: nobody's mark is on it.
    pub fn place_unmarked(&self, plot: &Plot, made_at: Time) {
        let worktree = Worktree { marked: false, ..Worktree::empty(plot, made_at) };
        self.yard().worktrees.insert(plot.path.clone(), worktree);
    }

    /// Writes a file into a worktree.
    pub fn write(&self, path: &Path, file: &str, content: &str) {
        self.yard().require(path).files.insert(file.to_owned(), content.to_owned());
    }

    /// Makes a commit in a worktree that no other branch has.
    pub fn commit(&self, path: &Path) {
        self.yard().require(path).own_commits += 1;
    }

    /// Makes every rescue of a worktree fail with `why`.
    pub fn refuse_rescue(&self, path: &Path, why: &str) {
        self.yard().unrescuable.insert(path.to_owned(), why.to_owned());
    }

    /// Lets rescues of a worktree succeed again.
    pub fn allow_rescue(&self, path: &Path) {
        self.yard().unrescuable.remove(path);
    }

    /// Lets somebody come in just as the worktree is to be removed: that removal keeps it, because of
    /// `why`. A race that no caller can prevent, and so the one occupant that is not a panic.
    pub fn let_somebody_in(&self, path: &Path, why: &str) {
        self.yard().came_in.insert(path.to_owned(), why.to_owned());
    }

    /// Whether there is a worktree at `path`.
    pub fn exists(&self, path: &Path) -> bool {
        self.yard().worktrees.contains_key(path)
    }

    /// What has been removed, in order.
    pub fn removed(&self) -> Vec<PathBuf> {
        self.yard().removed.clone()
    }

    /// What lies in the trash.
    pub fn trash(&self) -> Vec<PathBuf> {
        self.yard().trash.clone()
    }

    /// The files that the rescue of a session holds; `None` where there is no rescue.
    pub fn find_rescued(&self, repo: &Path, session: &SessionId) -> Option<BTreeMap<String, String>> {
        let key = (repo.to_owned(), session.clone());
        self.yard().rescues.get(&key).map(|saved| saved.files.clone())
    }

    fn yard(&self) -> MutexGuard<'_, Yard> {
        // A test that panicked inside a call has already failed; the others may go on.
        self.yard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Saved {
    fn entry(&self, session: &SessionId) -> RescueEntry {
        RescueEntry { session: session.clone(), rescue: self.rescue.clone(), created_at: self.created_at }
    }
}

impl Yard {
    fn require_rescue(&self, repo: &Path, session: &SessionId) -> Result<&Saved, WorktreeError> {
        let (repo, session) = (repo.to_owned(), session.clone());
        self.rescues.get(&(repo.clone(), session.clone())).ok_or(WorktreeError::NoRescue { session, repo })
    }

    fn require(&mut self, path: &Path) -> &mut Worktree {
        self.worktrees.get_mut(path).expect("a worktree that was made")
    }

    /// The worktree of `plot`, `None` where nothing is there, an error where it is somebody else's.
    fn find(&self, plot: &Plot) -> Result<Option<&Worktree>, WorktreeError> {
        require_inside(plot)?;
        let Some(worktree) = self.worktrees.get(&plot.path) else { return Ok(None) };
        if !worktree.marked {
            return Err(not_ours(plot, "it has no mark"));
        }
        if worktree.plot == *plot {
            return Ok(Some(worktree));
        }
        Err(not_ours(plot, &format!("it has the mark of session {}", worktree.plot.session)))
    }
}

fn not_ours(plot: &Plot, why: &str) -> WorktreeError {
    let (path, root) = (plot.path.clone(), plot.root.clone());
    WorktreeError::NotOurs { path, root, session: plot.session.clone(), why: why.to_owned() }
}

/// A worktree lies directly inside the yard, by its name and not by what a `..` makes of it.
fn require_inside(plot: &Plot) -> Result<(), WorktreeError> {
    if plot.path.parent() == Some(&*plot.root) && plot.path.file_name().is_some() {
        return Ok(());
    }
    Err(not_ours(plot, "it does not lie directly inside the yard"))
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
        plot: &Plot,
        from: &StartPoint,
        now: Time,
    ) -> Result<CreatedWorktree, WorktreeError> {
        let mut yard = self.yard();
        if yard.find(plot)?.is_none() {
            yard.worktrees.insert(plot.path.clone(), Worktree::empty(plot, now));
        }
        Ok(CreatedWorktree { base: from.base.clone().unwrap_or_else(|| BASE.to_owned()) })
    }

    async fn claim(&self, plot: &Plot, now: Time) -> Result<(), WorktreeError> {
        require_inside(plot)?;
        let mut yard = self.yard();
        if let Some(worktree) = yard.worktrees.get_mut(&plot.path).filter(|worktree| !worktree.marked) {
            (worktree.plot, worktree.marked, worktree.made_at) = (plot.clone(), true, now);
        }
        match yard.find(plot)? {
            Some(_) => Ok(()),
            None => Err(not_ours(plot, "there is no worktree")),
        }
    }

    async fn inspect(&self, plot: &Plot) -> Result<Inspection, WorktreeError> {
        require_inside(plot)?;
        Ok(match self.yard().find(plot) {
            Ok(None) => Inspection::Absent,
            Ok(Some(worktree)) => {
                Inspection::Present { dirty: !worktree.files.is_empty(), own_commits: worktree.own_commits }
            }
            Err(foreign) => Inspection::Foreign(foreign.to_string()),
        })
    }

    async fn survey(&self, plot: &Plot) -> Result<Inspection, WorktreeError> {
        let unmarked = |yard: &Yard| {
            let worktree = yard.worktrees.get(&plot.path).filter(|worktree| !worktree.marked)?;
            Some(Inspection::Present { dirty: !worktree.files.is_empty(), own_commits: worktree.own_commits })
        };
        require_inside(plot)?;
        let found = unmarked(&self.yard());
        match found {
            Some(present) => Ok(present),
            None => self.inspect(plot).await,
        }
    }

    async fn rescue(&self, plot: &Plot, now: Time) -> Result<Rescued, WorktreeError> {
        let mut yard = self.yard();
        if let Some(why) = yard.unrescuable.get(&plot.path) {
            return Err(WorktreeError::CannotRescue { path: plot.path.clone(), why: why.clone() });
        }
        let key = (plot.repo.clone(), plot.session.clone());
        let Some(worktree) = yard.find(plot)? else {
            // Rescued and removed by an earlier run: what it saved is still the answer.
            return Ok(Rescued { saved: yard.rescues.get(&key).map(|saved| saved.rescue.clone()) });
        };
        if !worktree.has_work() {
            return Ok(Rescued { saved: None });
        }
        let (files, own_commits) = (worktree.files.clone(), worktree.own_commits);
        let earlier = yard.rescues.get(&key);
        if let Some(same) = earlier.filter(|saved| saved.files == files && saved.own_commits == own_commits) {
            return Ok(Rescued { saved: Some(same.rescue.clone()) });
        }
        yard.rescued += 1;
        let rescue = Rescue {
            reference: format!("refs/sexton/rescue/{}", plot.session),
            commit: format!("{:040x}", yard.rescued),
            files: files.len(),
        };
        yard.rescues.insert(key, Saved { rescue: rescue.clone(), created_at: now, files, own_commits });
        Ok(Rescued { saved: Some(rescue) })
    }

    async fn clear(
        &self,
        plot: &Plot,
        probe: &dyn ProcessProbe,
        now: Time,
    ) -> Result<Cleared, WorktreeError> {
        let rescued = self.rescue(plot, now).await?;
        if self.yard().find(plot)?.is_none() {
            return Ok(Cleared { rescued, removal: Ok(Removal::AlreadyGone) });
        }
        let occupants = probe.occupants(&plot.path).await.expect("the fake probe answers");
        assert!(occupants.is_empty(), "{} is removed under {occupants:?}", plot.path.display());
        let mut yard = self.yard();
        if let Some(why) = yard.came_in.remove(&plot.path) {
            return Ok(Cleared { rescued, removal: Ok(Removal::Kept(why)) });
        }
        yard.worktrees.remove(&plot.path);
        yard.removed.push(plot.path.clone());
        yard.trash.push(plot.path.clone());
        Ok(Cleared { rescued, removal: Ok(Removal::Removed) })
    }

    async fn sweep(&self, root: &Path, _: &dyn ProcessProbe) -> Result<usize, WorktreeError> {
        let mut yard = self.yard();
        let before = yard.trash.len();
        yard.trash.retain(|path| path.parent() != Some(root));
        Ok(before - yard.trash.len())
    }

    async fn marked(&self, root: &Path, store: &str) -> Result<Vec<Marked>, WorktreeError> {
        let yard = self.yard();
        let ours = |worktree: &&Worktree| {
            worktree.marked && worktree.plot.root == root && worktree.plot.store == store
        };
        let marked = |worktree: &Worktree| Marked { plot: worktree.plot.clone(), made_at: worktree.made_at };
        Ok(yard.worktrees.values().filter(ours).map(marked).collect())
    }

    async fn rescues(&self, repo: &Path) -> Result<RescueList, WorktreeError> {
        let yard = self.yard();
        let here = yard.rescues.iter().filter(|((of, _), _)| of == repo);
        let mut entries: Vec<_> = here.map(|((_, session), saved)| saved.entry(session)).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.created_at));
        Ok(RescueList { entries, unreadable: Vec::new() })
    }

    async fn describe_rescue(
        &self,
        repo: &Path,
        session: &SessionId,
    ) -> Result<RescueDetails, WorktreeError> {
        let yard = self.yard();
        let saved = yard.require_rescue(repo, session)?;
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
        let yard = self.yard();
        let files = yard.require_rescue(repo, session)?.files.len();
        Ok(RestoredWork { path: into.to_owned(), files, branch: None })
    }

    async fn drop_rescue(
        &self,
        repo: &Path,
        session: &SessionId,
        commit: &str,
    ) -> Result<bool, WorktreeError> {
        let mut yard = self.yard();
        let key = (repo.to_owned(), session.clone());
        let still = yard.rescues.get(&key).is_some_and(|saved| saved.rescue.commit == commit);
        Ok(still && yard.rescues.remove(&key).is_some())
    }
}

#[cfg(test)]
mod tests;
