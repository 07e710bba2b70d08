//! Shared by the tests of this crate: a real repository in its own directory, a worktree root beside it, and
//! stub probes.

// Each test target uses only a part, and a failed precondition panics.
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
    Begun, CreatedWorktree, Inspection, Removal, Rescued, StartPoint, WorktreeLocation, WorktreeOptions,
};
use sexton_core::{
    Liveness, Others, ProbeError, ProcessIdentity, ProcessProbe, Time, WorktreeCleaner, WorktreeError,
};
use tempfile::TempDir;

/// The store of every worktree location, unless a test uses another.
pub const STORE: &str = "0b5cbe2a-1111-4222-8333-444455556666";

/// The fixed time of all tests.
pub fn now() -> Time {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

/// A repository, a worktree root and a home, all in a temporary directory.
pub struct TestEnv {
    pub dir: TempDir,
    pub repo: PathBuf,
    pub root: PathBuf,
}

impl TestEnv {
    /// Creates a repository with one commit of a few files.
    pub fn new() -> TestEnv {
        let env = TestEnv::empty();
        env.write("README.md", "hello\n");
        env.write("src/main.rs", "fn main() {}\n");
        env.write("src/deep/er/file.txt", "deep\n");
        env.write("run.sh", "#!/bin/sh\n");
        fs::set_permissions(env.repo.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("README.md", env.repo.join("link")).unwrap();
        env.commit("first");
        env
    }

    /// Creates a repository without a commit.
    pub fn empty() -> TestEnv {
        TestEnv::in_directory(tempfile::tempdir().unwrap())
    }

    /// Creates a repository without a commit, in `dir`.
    pub fn in_directory(dir: TempDir) -> TestEnv {
        let top = dir.path().canonicalize().unwrap();
        let (repo, root) = (top.join("repo"), top.join("worktrees"));
        for made in [&repo, &top.join("home")] {
            fs::create_dir(made).unwrap();
        }
        let env = TestEnv { dir, repo, root };
        env.git(["init", "--quiet", "--initial-branch=main", "--template="]);
        env
    }

    pub fn top(&self) -> &Path {
        self.repo.parent().unwrap()
    }

    /// Returns a git command in `directory` that ignores the configuration of this machine.
    pub fn git_command<S: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        git_command(&self.top().join("home"), directory, arguments)
    }

    /// Runs git in the main worktree and returns its output.
    pub fn git<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        self.git_in(&self.repo, arguments)
    }

    /// Runs git in `directory` and returns its output.
    pub fn git_in<S: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> String {
        let mut command = self.git_command(directory, arguments);
        let output = command.output().expect("git is installed");
        assert!(output.status.success(), "{command:?}: {}", output_text(&output));
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

    /// Returns the worktree location of a session.
    pub fn location(&self, session: &str) -> WorktreeLocation {
        WorktreeLocation {
            store: STORE.to_owned(),
            session: session.parse().unwrap(),
            repo: self.repo.clone(),
            root: self.root.clone(),
            path: self.root.join(session),
        }
    }

    /// Creates the worktree of a session.
    pub fn create(&self, session: &str) -> WorktreeLocation {
        let location = self.location(session);
        try_create(&location).unwrap();
        location
    }

    /// Returns the names in the trash.
    pub fn trash(&self) -> Vec<String> {
        names(&self.root.join(".trash"))
    }

    /// Requires that git finds no error in the repository and lists exactly these worktrees besides the main
    /// one.
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
        assert_eq!(left, [""; 0], "no staged entry is left");
    }
}

/// Returns a git command with its own home and with fixed authors and dates.
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

/// Returns the output of a program, for messages.
pub fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Writes a file and creates the directories above it.
pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Returns the names in a directory, sorted; none if it does not exist.
pub fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns every path below a directory with its mode and content, to compare before with after. Locks are
/// left out: they are created when first needed, and stay.
pub fn snapshot(directory: &Path) -> Vec<(PathBuf, String)> {
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

/// Requires that two snapshots are the same, and reports the differences.
#[track_caller]
pub fn require_same(after: &[(PathBuf, String)], before: &[(PathBuf, String)]) {
    let gone: Vec<_> = before.iter().filter(|entry| !after.contains(entry)).collect();
    let new: Vec<_> = after.iter().filter(|entry| !before.contains(entry)).collect();
    assert!(gone.is_empty() && new.is_empty(), "gone: {gone:?}\nnew: {new:?}");
}

/// Opens the cleaner as a program does.
pub fn cleaner() -> Box<dyn WorktreeCleaner> {
    sexton_worktree_git::open(&WorktreeOptions { rescue_ignored: true, host: None }).unwrap()
}

/// Returns the start point of a session's worktree.
pub fn start(location: &WorktreeLocation) -> StartPoint {
    StartPoint { branch: branch(location), base: None, begun: Begun::Nothing }
}

/// Returns the branch of a session.
pub fn branch(location: &WorktreeLocation) -> String {
    format!("sexton/{}", location.session)
}

pub fn try_create(location: &WorktreeLocation) -> Result<CreatedWorktree, WorktreeError> {
    pollster::block_on(cleaner().create(location, &start(location), now()))
}

#[track_caller]
pub fn inspect(location: &WorktreeLocation) -> Inspection {
    pollster::block_on(cleaner().inspect(location)).unwrap()
}

#[track_caller]
pub fn rescue(location: &WorktreeLocation) -> Rescued {
    try_rescue(location).unwrap()
}

pub fn try_rescue(location: &WorktreeLocation) -> Result<Rescued, WorktreeError> {
    pollster::block_on(cleaner().rescue(location, now()))
}

/// Rescues and removes, with no process inside.
pub fn try_remove(location: &WorktreeLocation) -> Result<Removal, WorktreeError> {
    remove_with(location, &Stub::empty())
}

/// Rescues and removes, with the processes that `probe` reports.
pub fn remove_with(location: &WorktreeLocation, probe: &dyn ProcessProbe) -> Result<Removal, WorktreeError> {
    pollster::block_on(cleaner().clear(location, probe, now()))?.removal
}

/// Sweeps the worktree root, with no process inside.
#[track_caller]
pub fn sweep(root: &Path) -> usize {
    pollster::block_on(cleaner().sweep(root, &Stub::empty(), &|_| false)).unwrap().deleted
}

/// Returns why a removal did not happen, whether it was kept or failed.
#[track_caller]
pub fn refusal(outcome: Result<Removal, WorktreeError>) -> String {
    match outcome {
        Ok(Removal::Kept(why)) => why,
        Ok(other) => panic!("it was not kept but {other:?}"),
        Err(error) => error.to_string(),
    }
}

/// The function that answers a stub's queries.
type Answer = dyn FnMut(&Path) -> Result<Occupants, ProbeError> + Send;

/// A probe that only reports the occupants of a directory, as its test defines.
pub struct Stub(Mutex<Box<Answer>>);

impl Stub {
    /// Returns a stub that reports no process.
    pub fn empty() -> Stub {
        Stub::watching(|_| Occupants::default())
    }

    /// Returns a stub that always fails.
    pub fn failing() -> Stub {
        let why = "the stub fails".to_owned();
        Stub(Mutex::new(Box::new(move |_| Err(ProbeError::Unsupported { probe: "stub", why: why.clone() }))))
    }

    /// Returns a stub that calls a function for every query.
    pub fn watching(mut answer: impl FnMut(&Path) -> Occupants + Send + 'static) -> Stub {
        Stub(Mutex::new(Box::new(move |directory| Ok(answer(directory)))))
    }
}

/// Returns occupants with one process.
pub fn an_occupant() -> Occupants {
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

    async fn members(&self, _: &Group, _: &Others) -> Result<Members, ProbeError> {
        Ok(Members::default())
    }

    async fn occupants(&self, directory: &Path) -> Result<Occupants, ProbeError> {
        (self.0.lock().unwrap())(directory)
    }

    async fn terminate(&self, _: &[Group], _: &EndPolicy) -> Result<Vec<Ended>, ProbeError> {
        panic!("a cleaner terminates no process")
    }
}
