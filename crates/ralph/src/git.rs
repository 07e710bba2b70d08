//! Git itself, for what changes branches that people work on: a merge is what their own git makes of it, with
//! their attributes, drivers and filters.
//!
//! It runs no hook, asks nobody anything, and is in a process group of its own: a Ctrl-C that ends the loop
//! does not end a merge in the middle.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::capture::capture;

/// What git would take for its own place or settings, from whoever started the loop.
const INHERITED: [&str; 9] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
];

/// Settings that a machine's merge goes by, whatever its user has chosen for their own.
const SETTINGS: [&str; 6] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "merge.autoStash=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Whose work it is where the user never told git a name.
const NAME: &str = "sexton";
const EMAIL: &str = "sexton@localhost";

/// Git, in one directory.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    directory: PathBuf,
}

/// A git that did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It could not be executed, or what it said could not be read.
    #[error("cannot run git")]
    NotRun(#[source] io::Error),
    /// What it keeps could not be read.
    #[error("cannot read {}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It failed.
    #[error("git {command}: {why}")]
    Failed {
        /// What it was told.
        command: String,
        /// What it said.
        why: String,
    },
}

impl GitError {
    pub(crate) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> GitError {
        let path = path.to_owned();
        |source| GitError::Unreadable { path, source }
    }

    /// Whether one may not even look.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, GitError::Unreadable { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl Git {
    pub(crate) fn at(directory: &Path) -> Git {
        Git { directory: directory.to_owned() }
    }

    /// Where it works.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs it, and gives back what it said and how it ended.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Output, GitError> {
        capture(&mut self.command(arguments)).map_err(GitError::NotRun)
    }

    /// Runs it, which must succeed, and gives back what it printed without the last newline.
    pub(crate) fn say<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, GitError> {
        let output = self.run(arguments)?;
        if !output.status.success() {
            return Err(failed(arguments, &output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    }

    /// Runs it, and gives back whether it ended well.
    pub(crate) fn asks<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<bool, GitError> {
        let output = self.run(arguments)?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(failed(arguments, &output)),
        }
    }

    /// The commit that `name` means, if any. Git says no of what it could not read, too, so it is asked twice.
    pub(crate) fn find_commit(&self, name: &str) -> Result<Option<String>, GitError> {
        match self.ask_for_commit(name)? {
            None => self.ask_for_commit(name),
            found => Ok(found),
        }
    }

    fn ask_for_commit(&self, name: &str) -> Result<Option<String>, GitError> {
        let name = format!("{name}^{{commit}}");
        let output = self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name])?;
        match output.status.code() {
            Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())),
            Some(1) => Ok(None),
            _ => Err(failed(&["rev-parse"], &output)),
        }
    }

    /// Whether everything up to `old` is in `new`.
    pub(crate) fn contains(&self, new: &str, old: &str) -> Result<bool, GitError> {
        self.asks(&["merge-base", "--is-ancestor", old, new])
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new("git");
        command.current_dir(&self.directory).stdin(Stdio::null()).process_group(0);
        INHERITED.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0").env("GIT_EDITOR", "true");
        SETTINGS.iter().for_each(|setting| {
            command.args(["-c", setting]);
        });
        command.args(arguments);
        command
    }

    /// The same git with a name to sign with, where its user never gave it one.
    pub(crate) fn sign<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, GitError> {
        let mut command = self.command(arguments);
        if !self.run(&["var", "GIT_COMMITTER_IDENT"])?.status.success() {
            for (who, what) in [("NAME", NAME), ("EMAIL", EMAIL)] {
                command.env(format!("GIT_AUTHOR_{who}"), what).env(format!("GIT_COMMITTER_{who}"), what);
            }
        }
        let output = capture(&mut command).map_err(GitError::NotRun)?;
        if !output.status.success() {
            return Err(failed(arguments, &output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// What git said when it failed, on one line.
pub(crate) fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(6).collect();
    if lines.is_empty() { output.status.to_string() } else { lines.join(" ") }
}

fn failed<S: AsRef<OsStr>>(arguments: &[S], output: &Output) -> GitError {
    let command = arguments.first().map(|first| first.as_ref().display().to_string()).unwrap_or_default();
    GitError::Failed { command, why: complaint(output) }
}
