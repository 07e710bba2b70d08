//! Runs the git program for changes to the user's branches, so that merges use the user's attributes, drivers and
//! filters.
//!
//! It runs no hooks, never prompts, and has its own process group: Ctrl-C stops the loop but does not interrupt a
//! merge.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::capture::capture;

/// Environment variables of the caller that would change git's repository or settings.
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

/// Settings for automatic merges, which override the user's.
const SETTINGS: [&str; 6] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "merge.autoStash=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// Identity for commits if the user has not configured one.
const NAME: &str = "sexton";
const EMAIL: &str = "sexton@localhost";

/// Runs git in one directory.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    directory: PathBuf,
}

/// Why a git command failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git could not be executed, or its output could not be read.
    #[error("cannot run git")]
    NotRun(#[source] io::Error),
    /// A file of git could not be read.
    #[error("cannot read {}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Git reported an error.
    #[error("git {command}: {why}")]
    Failed {
        /// The git command.
        command: String,
        /// The error text.
        why: String,
    },
}

impl GitError {
    pub(crate) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> GitError {
        let path = path.to_owned();
        |source| GitError::Unreadable { path, source }
    }

    /// Returns whether permission was denied.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, GitError::Unreadable { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl Git {
    pub(crate) fn at(directory: &Path) -> Git {
        Git { directory: directory.to_owned() }
    }

    /// Returns the working directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs git and returns its output and exit status.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Output, GitError> {
        capture(&mut self.command(arguments)).map_err(GitError::NotRun)
    }

    /// Runs git and returns its standard output without the last newline. Fails unless git succeeds.
    pub(crate) fn output<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, GitError> {
        let output = self.run(arguments)?;
        if !output.status.success() {
            return Err(failed(arguments, &output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
    }

    /// Runs git and returns whether it exited with 0. Fails unless it exited with 0 or 1.
    pub(crate) fn test<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<bool, GitError> {
        let output = self.run(arguments)?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(failed(arguments, &output)),
        }
    }

    /// Returns the commit that `name` refers to, if any. Git also reports a ref that it could not read as missing, so
    /// a missing ref is checked twice.
    pub(crate) fn find_commit(&self, name: &str) -> Result<Option<String>, GitError> {
        match self.rev_parse(name)? {
            None => self.rev_parse(name),
            found => Ok(found),
        }
    }

    fn rev_parse(&self, name: &str) -> Result<Option<String>, GitError> {
        let name = format!("{name}^{{commit}}");
        let output = self.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &name])?;
        match output.status.code() {
            Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())),
            Some(1) => Ok(None),
            _ => Err(failed(&["rev-parse"], &output)),
        }
    }

    /// Returns whether `old` is an ancestor of `new`.
    pub(crate) fn contains(&self, new: &str, old: &str) -> Result<bool, GitError> {
        self.test(&["merge-base", "--is-ancestor", old, new])
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

    /// Runs git with a default identity if the user has not configured one. Returns its trimmed output.
    pub(crate) fn output_with_identity<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, GitError> {
        let mut command = self.command(arguments);
        if !self.run(&["var", "GIT_COMMITTER_IDENT"])?.status.success() {
            for (field, value) in [("NAME", NAME), ("EMAIL", EMAIL)] {
                command
                    .env(format!("GIT_AUTHOR_{field}"), value)
                    .env(format!("GIT_COMMITTER_{field}"), value);
            }
        }
        let output = capture(&mut command).map_err(GitError::NotRun)?;
        if !output.status.success() {
            return Err(failed(arguments, &output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Returns git's error text on one line.
pub(crate) fn error_text(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(6).collect();
    if lines.is_empty() { output.status.to_string() } else { lines.join(" ") }
}

fn failed<S: AsRef<OsStr>>(arguments: &[S], output: &Output) -> GitError {
    let command = arguments.first().map(|first| first.as_ref().display().to_string()).unwrap_or_default();
    GitError::Failed { command, why: error_text(output) }
}
