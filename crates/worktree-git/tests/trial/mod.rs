//! A worktree with a session's work in it, which is to come back as it was.

#![allow(dead_code)] // Each test target uses its own part.

use std::fs;
use std::path::{Path, PathBuf};

use sexton_core::worktree::{Plot, Removal, RestoredWork};

use crate::support::{self, Ground, cleaner, picture, require_same, sweep, try_remove, write};

/// What a worktree is, for git and on disk.
#[derive(Debug, PartialEq)]
pub struct Portrait {
    files: Vec<(PathBuf, String)>,
    index: Vec<u8>,
    head: String,
    status: String,
    staged: String,
    unstaged: String,
}

impl Portrait {
    pub fn of(ground: &Ground, worktree: &Path) -> Portrait {
        // A status that refreshed the index would not be looking any more, but changing; nor would a diff, which
        // does that where a file's times are of another second than the index says.
        let git = |arguments: &[&str]| {
            let looking = [&["-c", "diff.autoRefreshIndex=false"], arguments].concat();
            let mut command = ground.git_command(worktree, looking);
            let output = command.env("GIT_OPTIONAL_LOCKS", "0").output().unwrap();
            assert!(output.status.success(), "{command:?}: {}", support::said(&output));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let admin = PathBuf::from(git(&["rev-parse", "--absolute-git-dir"]).trim_end());
        let mut files = picture(worktree);
        files.retain(|(path, _)| path != Path::new(".git"));
        Portrait {
            files,
            index: fs::read(admin.join("index")).unwrap_or_default(),
            head: fs::read_to_string(admin.join("HEAD")).unwrap(),
            status: git(&["status", "--porcelain=v2", "--ignored", "--untracked-files=all"]),
            staged: git(&["diff", "--cached", "--binary", "--no-ext-diff", "--no-renames"]),
            unstaged: git(&["diff", "--binary", "--no-ext-diff", "--no-renames"]),
        }
    }

    #[track_caller]
    pub fn require_same(&self, before: &Portrait) {
        require_same(&self.files, &before.files);
        assert_eq!(self.head, before.head, "HEAD");
        assert_eq!(self.status, before.status, "git status");
        assert_eq!(self.staged, before.staged, "what is staged");
        assert_eq!(self.unstaged, before.unstaged, "what is not staged");
        assert!(self.index == before.index, "the bytes of the index");
    }
}

/// A worktree with a session's work in it.
pub struct Trial {
    pub ground: Ground,
    pub plot: Plot,
}

impl Trial {
    pub fn new() -> Trial {
        Trial::on(Ground::new())
    }

    pub fn on(ground: Ground) -> Trial {
        let plot = ground.create("s1");
        Trial { ground, plot }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.plot.path.join(path)
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write(&self.path(path), content);
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        self.ground.git_in(&self.plot.path, arguments)
    }

    /// Runs git where it is meant to stop in the middle.
    pub fn git_stops(&self, arguments: &[&str]) {
        let output = self.ground.git_command(&self.plot.path, arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?} went through");
    }

    pub fn admin(&self) -> PathBuf {
        self.git(&["rev-parse", "--absolute-git-dir"]).into()
    }

    /// Rescue, removal, garbage collection, restoration; all that was there is there again.
    #[track_caller]
    pub fn round_trip(&self) -> RestoredWork {
        let before = Portrait::of(&self.ground, &self.plot.path);
        let restored = self.there_and_back();
        Portrait::of(&self.ground, &restored.path).require_same(&before);
        restored
    }

    /// The same, without a look at what came back.
    #[track_caller]
    pub fn there_and_back(&self) -> RestoredWork {
        self.remove();
        self.ground.git(["fsck", "--strict", "--no-dangling"]);
        self.ground.git(["gc", "--quiet", "--prune=now"]);
        let restored = self.restore();
        self.ground.require_clean(&[&restored.path]);
        restored
    }

    #[track_caller]
    pub fn remove(&self) {
        assert_eq!(try_remove(&self.plot).unwrap(), Removal::Removed);
        sweep(&self.plot.root);
        assert!(!self.plot.path.exists());
    }

    #[track_caller]
    pub fn restore(&self) -> RestoredWork {
        let into = self.ground.top().join("restored");
        let restored =
            pollster::block_on(cleaner().restore(&self.ground.repo, &self.plot.session, &into)).unwrap();
        assert_eq!(restored.path, into);
        restored
    }
}
