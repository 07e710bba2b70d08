//! Runs git for a checkout with a conversion or sparse patterns, and for large blobs, which git writes in
//! pieces.
//!
//! The only part of this crate that runs a program, and with it the filters that the user configured.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use git2::Oid;
use sexton_core::WorktreeError;

use super::Blank;
use crate::fault::failed;

/// git's local environment variables (`git rev-parse --local-env-vars`).
const LOCAL_VARIABLES: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Returns whether the entry has sparse checkout patterns.
pub(super) fn has_sparse_patterns(admin: &Path) -> bool {
    admin.join("info/sparse-checkout").exists()
}

/// Runs git to fill the worktree. It runs no hook: git itself fills a new worktree this way.
pub(super) fn check_out(blank: &Blank<'_>) -> Result<(), WorktreeError> {
    let mut git = git();
    git.current_dir(blank.path).arg("--git-dir").arg(blank.admin).arg("--work-tree").arg(blank.path);
    git.args(["-c", "core.hooksPath=/dev/null", "reset", "--hard", "--quiet", "--no-recurse-submodules"]);
    let (status, errors) = run(&mut git).map_err(|error| failed("running git to fill", blank.path, error))?;
    if status.success() {
        return Ok(());
    }
    Err(failed("running git to fill", blank.path, format!("git failed ({status}): {}", errors.trim())))
}

/// Runs git and returns its error output. A pipe that cannot be read is an error; `Command::output` would
/// panic.
fn run(git: &mut Command) -> io::Result<(ExitStatus, String)> {
    let mut child = git.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut errors = Vec::new();
    let read = child.stderr.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut errors));
    let status = child.wait()?;
    read?;
    Ok((status, String::from_utf8_lossy(&errors).into_owned()))
}

/// Runs git to write a blob of `size` bytes into `file`, which is empty: neither libgit2 nor this crate can
/// read a packed blob without holding all of it. Returns whether it succeeded; if not, `file` is empty again.
pub(crate) fn write_blob(common: &Path, blob: Oid, size: u64, file: &mut File) -> io::Result<bool> {
    let mut git = git();
    // Above this size, git does not hold the blob in memory either.
    git.args(["-c", "core.bigFileThreshold=1m"]).arg("--git-dir").arg(common);
    git.args(["cat-file", "blob", &blob.to_string()]).stdout(file.try_clone()?).stderr(Stdio::null());
    let done = git.status().is_ok_and(|status| status.success());
    if done && file.metadata()?.len() == size {
        return Ok(true);
    }
    file.set_len(0)?;
    file.rewind()?;
    Ok(false)
}

/// Returns a git command without git's local variables: the caller may be a hook, whose variables refer to
/// another worktree.
fn git() -> Command {
    let mut git = Command::new("git");
    for variable in LOCAL_VARIABLES {
        git.env_remove(variable);
    }
    git.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
    git
}
