//! A worktree with a session's work, for tests of rescue, removal and restore.

#![allow(dead_code)] // Each test target uses only a part.

use std::fs;
use std::path::{Path, PathBuf};

use sexton_core::worktree::{Removal, RestoredWork, WorktreeLocation};

use crate::support::{self, TestEnv, cleaner, require_same, snapshot, sweep, try_remove, write};

/// The state of a worktree, in git and on disk.
#[derive(Debug, PartialEq)]
pub struct WorktreeState {
    files: Vec<(PathBuf, String)>,
    index: Vec<u8>,
    head: String,
    status: String,
    staged: String,
    unstaged: String,
}

impl WorktreeState {
    pub fn of(env: &TestEnv, worktree: &Path) -> WorktreeState {
        // `git status` and `git diff` must not refresh the index, which would change what is compared. `git
        // diff` does so if the times of a file are in another second than the index records.
        let git = |arguments: &[&str]| {
            let read_only = [&["-c", "diff.autoRefreshIndex=false"], arguments].concat();
            let mut command = env.git_command(worktree, read_only);
            let output = command.env("GIT_OPTIONAL_LOCKS", "0").output().unwrap();
            assert!(output.status.success(), "{command:?}: {}", support::output_text(&output));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let admin = PathBuf::from(git(&["rev-parse", "--absolute-git-dir"]).trim_end());
        let mut files = snapshot(worktree);
        files.retain(|(path, _)| path != Path::new(".git"));
        WorktreeState {
            files,
            index: fs::read(admin.join("index")).unwrap_or_default(),
            head: fs::read_to_string(admin.join("HEAD")).unwrap(),
            status: git(&["status", "--porcelain=v2", "--ignored", "--untracked-files=all"]),
            staged: git(&["diff", "--cached", "--binary", "--no-ext-diff", "--no-renames"]),
            unstaged: git(&["diff", "--binary", "--no-ext-diff", "--no-renames"]),
        }
    }

    #[track_caller]
    pub fn require_same(&self, before: &WorktreeState) {
        require_same(&self.files, &before.files);
        assert_eq!(self.head, before.head, "HEAD");
        assert_eq!(self.status, before.status, "git status");
        assert_eq!(self.staged, before.staged, "what is staged");
        assert_eq!(self.unstaged, before.unstaged, "what is not staged");
        assert!(self.index == before.index, "the bytes of the index");
    }
}

/// A worktree with a session's work.
pub struct Trial {
    pub env: TestEnv,
    pub location: WorktreeLocation,
}

impl Trial {
    pub fn new() -> Trial {
        Trial::on(TestEnv::new())
    }

    pub fn on(env: TestEnv) -> Trial {
        let location = env.create("s1");
        Trial { env, location }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.location.path.join(path)
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write(&self.path(path), content);
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        self.env.git_in(&self.location.path, arguments)
    }

    /// Runs a git command that is expected to stop with an error.
    pub fn git_stops(&self, arguments: &[&str]) {
        let output = self.env.git_command(&self.location.path, arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?} succeeded");
    }

    pub fn admin(&self) -> PathBuf {
        self.git(&["rev-parse", "--absolute-git-dir"]).into()
    }

    /// Rescues, removes, collects garbage and restores; requires that the state is the same.
    #[track_caller]
    pub fn round_trip(&self) -> RestoredWork {
        let before = WorktreeState::of(&self.env, &self.location.path);
        let restored = self.remove_and_restore();
        WorktreeState::of(&self.env, &restored.path).require_same(&before);
        restored
    }

    /// The same, without comparing the state.
    #[track_caller]
    pub fn remove_and_restore(&self) -> RestoredWork {
        self.remove();
        self.env.git(["fsck", "--strict", "--no-dangling"]);
        self.env.git(["gc", "--quiet", "--prune=now"]);
        let restored = self.restore();
        self.env.require_clean(&[&restored.path]);
        restored
    }

    #[track_caller]
    pub fn remove(&self) {
        assert_eq!(try_remove(&self.location).unwrap(), Removal::Removed);
        sweep(&self.location.root);
        assert!(!self.location.path.exists());
    }

    #[track_caller]
    pub fn restore(&self) -> RestoredWork {
        let into = self.env.top().join("restored");
        let restored =
            pollster::block_on(cleaner().restore(&self.env.repo, &self.location.session, &into)).unwrap();
        assert_eq!(restored.path, into);
        restored
    }
}
