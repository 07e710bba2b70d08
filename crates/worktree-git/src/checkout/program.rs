//! The checkout that git itself makes, where a conversion or a sparse checkout is asked for, and the large
//! files that git hands over piece by piece.
//!
//! The only place of this crate that runs a program, and the filters that the user configured with it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use git2::Oid;
use sexton_core::WorktreeError;

use super::Blank;
use crate::fault::failed;

/// What git calls its local variables (`git rev-parse --local-env-vars`).
const ABOUT_ONE_REPOSITORY: [&str; 16] = [
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

/// Whether the entry has patterns that say what not to check out.
pub(super) fn has_sparse_patterns(admin: &Path) -> bool {
    admin.join("info/sparse-checkout").exists()
}

/// Lets git fill the worktree. It runs no hook: this is how git itself fills a new one.
pub(super) fn check_out(blank: &Blank<'_>) -> Result<(), WorktreeError> {
    let mut git = git();
    git.current_dir(blank.path).arg("--git-dir").arg(blank.admin).arg("--work-tree").arg(blank.path);
    git.args(["-c", "core.hooksPath=/dev/null", "reset", "--hard", "--quiet", "--no-recurse-submodules"]);
    let (status, said) = hear(&mut git).map_err(|error| failed("running git to fill", blank.path, error))?;
    if status.success() {
        return Ok(());
    }
    Err(failed("running git to fill", blank.path, format!("git failed ({status}): {}", said.trim())))
}

/// Runs it, and hears what it complains of. A pipe that cannot be read is an error; `Command::output` panics.
fn hear(git: &mut Command) -> io::Result<(ExitStatus, String)> {
    let mut child = git.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let mut said = Vec::new();
    let heard = child.stderr.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut said));
    let status = child.wait()?;
    heard?;
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}

/// Lets git write a blob of `size` bytes into `file`, which is empty: neither libgit2 nor we could read one of
/// a pack without holding all of it. Says whether it did; where not, `file` is empty again.
pub(crate) fn write_blob(common: &Path, blob: Oid, size: u64, file: &mut File) -> io::Result<bool> {
    let mut git = git();
    // What is larger than this git does not hold either.
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

/// Git, undisturbed: whoever called us may be a hook, whose variables are about another worktree.
fn git() -> Command {
    let mut git = Command::new("git");
    for variable in ABOUT_ONE_REPOSITORY {
        git.env_remove(variable);
    }
    git.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
    git
}
