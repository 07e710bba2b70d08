//! Runs the process tests again as a user without privileges.
//!
//! Most users are not root: they cannot read the environment of other users' processes, nor signal them, and
//! rules that only ever ran as root would not notice. CI often runs as root, so the tests change the user
//! themselves.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use sexton_workspace::{Executable, build, root};

use crate::Result;

/// The folders of the packages whose behaviour depends on the user.
const PACKAGES: [&str; 4] =
    ["crates/proc-linux", "crates/proc-portable", "crates/worktree-git", "crates/cli"];

/// The program itself.
const PROGRAM: &str = "sexton";

/// Its tests of processes and worktrees.
const WHOLE_PROGRAM: [&str; 21] = [
    "sessions",
    "crashes",
    "supervision",
    "resupervision",
    "limits",
    "membership",
    "hosts",
    "recovery",
    "recovery_crashes",
    "ticketflow_crashes",
    "worktrees",
    "mcp",
    "mcp_http",
    "mcp_limits",
    "mcp_socket",
    "init",
    "ralph",
    "ralph_campaign",
    "upgrades",
    "previous_release",
    "trust",
];

/// The user and group that own nothing.
const NOBODY: u32 = 65534;

/// Returns whether this process runs as root, and so can change its user.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Builds the test programs, and runs copies of them that every user can reach.
pub(crate) fn run() -> Result {
    if !is_root() {
        return Err(
            "only root can change the user; for any other user `cargo xtask test` runs these tests already"
                .into(),
        );
    }
    // All of them, though few are run: for some packages alone cargo would select other features of their
    // dependencies, and build most of them again.
    let (tests, others): (Vec<Executable>, Vec<Executable>) =
        build(&["test", "--no-run", "--workspace"])?.into_iter().partition(|program| program.is_test);
    let sexton = others.into_iter().find(|program| program.name == PROGRAM);
    let sexton = sexton.ok_or("cargo built no sexton")?;
    let is_whole = |test: &Executable| test.package == sexton.package;
    let folders = PACKAGES.map(|folder| root().join(folder));
    let chosen: Vec<_> = tests
        .into_iter()
        .filter(|test| folders.contains(&test.package))
        .filter(|test| !is_whole(test) || WHOLE_PROGRAM.contains(&test.name.as_str()))
        .collect();
    if chosen.iter().filter(|test| is_whole(test)).count() != WHOLE_PROGRAM.len() {
        return Err(format!("some of these tests do not exist: {}", WHOLE_PROGRAM.join(", ")).into());
    }
    for test in chosen {
        run_as_nobody(&test, &sexton)?;
    }
    Ok(())
}

/// Runs one test program with its own home directory, which must be empty again afterwards.
fn run_as_nobody(program: &Executable, sexton: &Executable) -> Result {
    // The target directory may be below a home directory that only root can enter.
    let stage = tempfile::tempdir()?;
    fs::set_permissions(stage.path(), Permissions::from_mode(0o755))?;
    let copy = stage.path().join(&program.name);
    fs::copy(&program.path, &copy)?;
    let tested = stage.path().join("tested");
    fs::copy(&sexton.path, &tested)?;
    for file in [&copy, &tested] {
        fs::set_permissions(file, Permissions::from_mode(0o755))?;
    }
    let home = stage.path().join("home");
    fs::create_dir(&home)?;
    fs::set_permissions(&home, Permissions::from_mode(0o700))?;
    chown(&home, Some(NOBODY), Some(NOBODY))?;

    let mut command = as_nobody(&copy, &home);
    command.env("CARGO_MANIFEST_DIR", &program.package).env("SEXTON_TEST_BINARY", &tested);
    let status = command.status()?;
    if !status.success() {
        return Err(format!("{} as uid {NOBODY}: {status}", program.name).into());
    }
    let left: Vec<_> = fs::read_dir(&home)?.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("{} left {left:?} behind", program.name).into()) }
}

/// Returns a command with only the rights of an ordinary user. The standard library drops root's other groups
/// along with the uid.
fn as_nobody(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.uid(NOBODY).gid(NOBODY).current_dir(home).env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.env("HOME", home).env("TMPDIR", home).env("RUST_BACKTRACE", "1");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_no_user_group_or_environment_of_root() {
        if !is_root() {
            // Only root can change the user; for any other user the attempt must fail.
            assert!(as_nobody(Path::new("/bin/true"), Path::new("/")).status().is_err());
            return;
        }
        let output = as_nobody(Path::new("/bin/sh"), Path::new("/"))
            .args(["-c", "id -u; id -G; env | grep -c '^CARGO'"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "65534\n65534\n0\n");
    }
}
