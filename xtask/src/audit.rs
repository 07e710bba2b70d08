//! `cargo xtask audit`: runs cargo-deny on every dependency, as configured in deny.toml.
//!
//! It is not part of `test`: it installs a program, and its result can change without a change in this
//! repository.

use std::path::PathBuf;
use std::process::Command;

use sexton_workspace::{cargo, root, target_dir};

use crate::Result;
use crate::steps::Steps;

/// The checks. Advisories need the network at every run, and change from day to day.
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Checks the dependencies, and installs cargo-deny first if it is missing.
pub(crate) fn run() -> Result {
    let mut steps = Steps::new();
    let deny = require_deny(&mut steps)?;
    let mut check = Command::new(deny);
    check.current_dir(root()).arg("check").args(CHECKS);
    steps.run("dependencies", &mut check)
}

/// Returns cargo-deny: the one on the path, or one below the target directory.
fn require_deny(steps: &mut Steps) -> Result<PathBuf> {
    let installed = |program: &PathBuf| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let tools = target_dir().join("tools");
    let own = tools.join("bin/cargo-deny");
    if let Some(deny) = [PathBuf::from("cargo-deny"), own.clone()].into_iter().find(installed) {
        return Ok(deny);
    }
    let mut install = cargo(["install", "--locked", "cargo-deny", "--root"]);
    steps.run("install cargo-deny", install.arg(&tools))?;
    Ok(own)
}
