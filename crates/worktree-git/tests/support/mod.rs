//! What the tests of this crate share: a real repository in a directory of its own, a yard beside it, and
//! probes that say what a test wants said.

// Each test target uses its own part, and what cannot go on panics.
#![allow(dead_code, clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use async_trait::async_trait;
use sexton_core::probe::{EndPolicy, Ended, Group, Members, Occupants, ProbeCapabilities, ProcessDetails};
use sexton_core::worktree::{
    Begun, CreatedWorktree, Inspection, Plot, Removal, Rescued, StartPoint, WorktreeOptions,
};
use sexton_core::{
    Liveness, ProbeError, ProcessIdentity, ProcessProbe, Time, WorktreeCleaner, WorktreeError,
};
use tempfile::TempDir;

/// The store of every plot that does not say otherwise.
pub const STORE: &str = "0b5cbe2a-1111-4222-8333-444455556666";

/// The moment at which everything happens.
pub fn now() -> Time {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

/// A repository, a yard and a home, all in a temporary directory.
pub struct Ground {
    pub dir: TempDir,
    pub repo: PathBuf,
    pub root: PathBuf,
}

impl Ground {
    /// A repository with one commit of a few files.
    pub fn new() -> Ground {
        let ground = Ground::empty();
        ground.write("README.md", "hello\n");
        ground.write("src/main.rs", "fn main() {}\n");
        ground.write("src/deep/er/file.txt", "deep\n");
        ground.write("run.sh", "#!/bin/sh\n");
        fs::set_permissions(ground.repo.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("README.md", ground.repo.join("link")).unwrap();
        ground.commit("first");
        ground
    }

    /// A repository without a commit.
    pub fn empty() -> Ground {
        Ground::in_directory(tempfile::tempdir().unwrap())
    }

    /// A repository without a commit, in `dir`.
    pub fn in_directory(dir: TempDir) -> Ground {
        let top = dir.path().canonicalize().unwrap();
        let (repo, root) = (top.join("repo"), top.join("yard"));
        for made in [&repo, &top.join("home")] {
            fs::create_dir(made).unwrap();
        }
        let ground = Ground { dir, repo, root };
        ground.git(["init", "--quiet", "--initial-branch=main", "--template="]);
        ground
    }

    pub fn top(&self) -> &Path {
        self.repo.parent().unwrap()
    }

    /// A git command in `directory`, untouched by whatever this machine is configured for.
    pub fn git_command<S: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        git_command(&self.top().join("home"), directory, arguments)
    }

    /// Runs git in the main worktree and returns what it said.
    pub fn git<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        self.git_in(&self.repo, arguments)
    }

    /// Runs git in `directory` and returns what it said.
    pub fn git_in<S: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> String {
        let mut command = self.git_command(directory, arguments);
        let output = command.output().expect("git is installed");
        assert!(output.status.success(), "{command:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Writes a file of the main worktree.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write(&self.repo.join(path), content);
    }

    /// Commits everything in the main worktree.
    pub fn commit(&self, message: &str) -> String {
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--message", message]);
        self.git(["rev-parse", "HEAD"])
    }

    /// The plot of a session.
    pub fn plot(&self, session: &str) -> Plot {
        Plot {
            store: STORE.to_owned(),
            session: session.parse().unwrap(),
            repo: self.repo.clone(),
            root: self.root.clone(),
            path: self.root.join(session),
        }
    }

    /// Makes the worktree of a session.
    pub fn create(&self, session: &str) -> Plot {
        let plot = self.plot(session);
        try_create(&plot).unwrap();
        plot
    }

    /// The names in the trash.
    pub fn trash(&self) -> Vec<String> {
        names(&self.root.join(".trash"))
    }

    /// Requires that git finds nothing wrong with the repository and knows these worktrees beside the main one.
    #[track_caller]
    pub fn require_clean(&self, worktrees: &[&Path]) {
        self.git(["fsck", "--strict", "--no-dangling"]);
        let list = self.git(["worktree", "list", "--porcelain"]);
        let mut known: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("worktree ")).collect();
        known.retain(|path| Path::new(path) != self.repo);
        known.sort_unstable();
        let mut expected: Vec<&str> = worktrees.iter().map(|path| path.to_str().unwrap()).collect();
        expected.sort_unstable();
        assert_eq!(known, expected, "{list}");
        assert!(!list.contains("prunable"), "{list}");
        let mut left = names(&self.repo.join(".git/sexton"));
        left.retain(|name| !name.starts_with("rescues.lock"));
        assert_eq!(left, [""; 0], "nothing is left half done");
    }
}

/// A git command with a home of its own and fixed authors and dates.
pub fn git_command<S: AsRef<OsStr>>(
    home: &Path,
    directory: &Path,
    arguments: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    command
        .env("HOME", home)
        .env_remove("XDG_CONFIG_HOME")
        .env("GIT_CONFIG_GLOBAL", home.join(".gitconfig"))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
        .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.org")])
        .envs([("GIT_COMMITTER_NAME", "C"), ("GIT_COMMITTER_EMAIL", "c@example.org")])
        .current_dir(directory)
        .args(arguments);
    command
}

/// What a program said, for a failure's message.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Writes a file, and the directories above it.
pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// The names in a directory, sorted; none where it does not exist.
pub fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Every path below a directory with what is there: a whole picture, to compare before with after.
/// Locks are left out: they come with the first who needs one, and stay.
pub fn picture(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with(".locks") || path.ends_with("sexton-rescues.lock") {
                continue;
            }
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if metadata.is_dir() {
                waiting.push(path.clone());
                "/".to_owned()
            } else {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            };
            let mode = metadata.permissions().mode();
            found.push((path.strip_prefix(directory).unwrap().to_owned(), format!("{mode:o} {content}")));
        }
    }
    found.sort();
    found
}

/// Requires that two pictures are the same, and says where they are not.
#[track_caller]
pub fn require_same(after: &[(PathBuf, String)], before: &[(PathBuf, String)]) {
    let gone: Vec<_> = before.iter().filter(|entry| !after.contains(entry)).collect();
    let new: Vec<_> = after.iter().filter(|entry| !before.contains(entry)).collect();
    assert!(gone.is_empty() && new.is_empty(), "gone: {gone:?}\nnew: {new:?}");
}

/// The cleaner, as a program opens it.
pub fn cleaner() -> Box<dyn WorktreeCleaner> {
    sexton_worktree_git::open(&WorktreeOptions { rescue_ignored: true }).unwrap()
}

/// Where a session's worktree begins.
pub fn start(plot: &Plot) -> StartPoint {
    StartPoint { branch: branch(plot), base: None, begun: Begun::Nothing }
}

/// The branch of a session.
pub fn branch(plot: &Plot) -> String {
    format!("sexton/{}", plot.session)
}

pub fn try_create(plot: &Plot) -> Result<CreatedWorktree, WorktreeError> {
    pollster::block_on(cleaner().create(plot, &start(plot), now()))
}

#[track_caller]
pub fn inspect(plot: &Plot) -> Inspection {
    pollster::block_on(cleaner().inspect(plot)).unwrap()
}

#[track_caller]
pub fn rescue(plot: &Plot) -> Rescued {
    try_rescue(plot).unwrap()
}

pub fn try_rescue(plot: &Plot) -> Result<Rescued, WorktreeError> {
    pollster::block_on(cleaner().rescue(plot, now()))
}

/// Rescues and removes, with nobody inside.
pub fn try_remove(plot: &Plot) -> Result<Removal, WorktreeError> {
    remove_with(plot, &Stub::nobody())
}

/// Rescues and removes, with what `probe` sees.
pub fn remove_with(plot: &Plot, probe: &dyn ProcessProbe) -> Result<Removal, WorktreeError> {
    pollster::block_on(cleaner().clear(plot, probe, now()))?.removal
}

/// Sweeps the yard, with nobody inside.
#[track_caller]
pub fn sweep(root: &Path) -> usize {
    pollster::block_on(cleaner().sweep(root, &Stub::nobody())).unwrap()
}

/// Why a removal did not happen, whichever way it was said.
#[track_caller]
pub fn refusal(outcome: Result<Removal, WorktreeError>) -> String {
    match outcome {
        Ok(Removal::Kept(why)) => why,
        Ok(other) => panic!("it was not kept but {other:?}"),
        Err(error) => error.to_string(),
    }
}

/// What a stub says of a directory.
type Look = dyn FnMut(&Path) -> Result<Occupants, ProbeError> + Send;

/// A probe that only ever says who is inside a directory, and says what its test wants.
pub struct Stub(Mutex<Box<Look>>);

impl Stub {
    /// One that sees nobody anywhere.
    pub fn nobody() -> Stub {
        Stub::watching(|_| Occupants::default())
    }

    /// One that cannot look.
    pub fn blind() -> Stub {
        let why = "it is blind".to_owned();
        Stub(Mutex::new(Box::new(move |_| Err(ProbeError::Unsupported { probe: "stub", why: why.clone() }))))
    }

    /// One that calls a function for every look.
    pub fn watching(mut look: impl FnMut(&Path) -> Occupants + Send + 'static) -> Stub {
        Stub(Mutex::new(Box::new(move |directory| Ok(look(directory)))))
    }
}

/// Somebody.
pub fn somebody() -> Occupants {
    Occupants { processes: vec![ProcessIdentity::of_pid(4242)], unreadable: Vec::new() }
}

#[async_trait]
impl ProcessProbe for Stub {
    fn name(&self) -> &'static str {
        "stub"
    }

    fn capabilities(&self) -> ProbeCapabilities {
        ProbeCapabilities { handle: false, exact_identity: false, cgroup: false }
    }

    async fn identify(&self, pid: u32) -> Result<ProcessIdentity, ProbeError> {
        Err(ProbeError::Gone { pid })
    }

    async fn observe(&self, _: &ProcessIdentity) -> Liveness {
        Liveness::Unknown("a stub".to_owned())
    }

    async fn describe(&self, pid: u32) -> Result<ProcessDetails, ProbeError> {
        Err(ProbeError::Gone { pid })
    }

    async fn members(&self, _: &Group) -> Result<Members, ProbeError> {
        Ok(Members::default())
    }

    async fn occupants(&self, directory: &Path) -> Result<Occupants, ProbeError> {
        (self.0.lock().unwrap())(directory)
    }

    async fn terminate(&self, _: &[Group], _: &EndPolicy) -> Result<Vec<Ended>, ProbeError> {
        panic!("a cleaner ends nobody")
    }
}
