//! The checkout that git itself makes, where a conversion or a sparse checkout is asked for.
//!
//! The only place of this crate that runs a program, and the filters that the user configured with it.

use std::path::Path;
use std::process::{Command, Stdio};

use sexton_core::WorktreeError;

use super::Blank;
use crate::fault::failed;

/// Whether the entry has patterns that say what not to check out.
pub(super) fn has_sparse_patterns(admin: &Path) -> bool {
    admin.join("info/sparse-checkout").exists()
}

/// Lets git fill the worktree. It runs no hook: this is how git itself fills a new one.
pub(super) fn check_out(blank: &Blank<'_>) -> Result<(), WorktreeError> {
    let mut git = Command::new("git");
    // Whoever called us may be a hook, whose variables are about another worktree.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        if !is_about_configuration(name.as_encoded_bytes()) {
            git.env_remove(name);
        }
    }
    git.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null()).current_dir(blank.path);
    git.arg("--git-dir").arg(blank.admin).arg("--work-tree").arg(blank.path);
    git.args(["-c", "core.hooksPath=/dev/null", "reset", "--hard", "--quiet", "--no-recurse-submodules"]);
    let done = git.output().map_err(|error| failed("running git to fill", blank.path, error))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(failed("running git to fill", blank.path, format!("git failed ({}): {said}", done.status)))
}

/// Variables that say where the user's configuration is stay.
fn is_about_configuration(name: &[u8]) -> bool {
    matches!(name, b"GIT_CONFIG_GLOBAL" | b"GIT_CONFIG_SYSTEM" | b"GIT_CONFIG_NOSYSTEM" | b"GIT_EXEC_PATH")
}
