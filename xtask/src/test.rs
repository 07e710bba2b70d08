//! `cargo xtask test`: everything that CI checks, the cheapest first.

use std::process::Command;

use sexton_workspace::{cargo, tools};

use crate::steps::Steps;
use crate::{Result, tidy, unprivileged};

/// The smallest useful program, and one without the portable backends. The default, which links everything,
/// is covered by the workspace as a whole.
///
/// A smaller program is checked together with the rest of the workspace: for it alone cargo would select
/// other features of its dependencies, and compile most of them again. None of these contains deliberate
/// defects, as no released program does.
const FEATURE_SETS: [&str; 2] = [REDUCED, "sexton/store-sqlite,sexton/proc-linux"];

/// The feature set whose tests are run too: no C code, no Linux.
const REDUCED: &str = "sexton/store-json,sexton/proc-portable";

/// Each program that the tests need, and its Debian package.
const TOOLS: [(&str, &str); 5] =
    [("strace", "strace"), ("tmux", "tmux"), ("python3", "python3-venv"), ("node", "nodejs"), ("npm", "npm")];

/// Installs missing programs that the tests need, or fails with what to install.
pub(crate) fn require_tools() -> Result {
    tools::require(&TOOLS)
}

/// Runs every step, and prints the time of each at the end.
pub(crate) fn run() -> Result {
    let mut steps = Steps::new();
    let outcome = run_steps(&mut steps);
    eprintln!("\n{}", steps.summary());
    outcome
}

fn run_steps(steps: &mut Steps) -> Result {
    steps.call("tools", "cargo xtask test", require_tools)?;
    steps.run("format", &mut cargo(["fmt", "--all", "--check"]))?;
    let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
    steps.run("format of the fuzzers", &mut cargo(fuzz))?;
    lint(steps)?;
    steps.call("tidy", "cargo xtask tidy", tidy::run)?;
    test(steps)?;
    steps.run("doc tests", &mut cargo(["test", "--workspace", "--doc"]))?;
    let mut doc = cargo(["doc", "--workspace", "--no-deps"]);
    steps.run("documentation", doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    if unprivileged::is_root() {
        steps.call("process tests as another user", "cargo xtask unprivileged", unprivileged::run)?;
    }
    Ok(())
}

fn lint(steps: &mut Steps) -> Result {
    let strict = ["--", "-D", "warnings"];
    // Without deliberate defects, so that the smaller programs differ only in their own crate. With them only
    // one line that links them in would differ.
    let mut everything = cargo(["clippy", "--workspace", "--all-targets"]);
    steps.run("lint", everything.args(strict))?;
    let mut defects = cargo(["clippy", "--package", "sexton-mutant", "--all-targets", "--all-features"]);
    steps.run("lint of deliberate defects", defects.args(strict))?;
    for features in FEATURE_SETS {
        let mut some = cargo(["clippy", "--workspace", "--all-targets", "--no-default-features"]);
        some.args(["--features", features]).args(strict);
        steps.run(&format!("lint {features}"), &mut some)?;
    }
    Ok(())
}

fn test(steps: &mut Steps) -> Result {
    let mut all = runner()?;
    steps.run("tests", all.arg("--workspace"))?;
    let mut reduced = runner()?;
    if has_nextest() {
        reduced.args(["--workspace", "--filterset", "package(sexton)"]);
    } else {
        // A part of the workspace cannot be selected here, so it is built separately.
        reduced.args(["--package", "sexton"]);
    }
    reduced.args(["--no-default-features", "--features", REDUCED]);
    steps.run(&format!("tests {REDUCED}"), &mut reduced)
}

/// Returns the test runner. Half of the tests wait at any moment, so twice as many run as there are
/// processors.
fn runner() -> Result<Command> {
    let at_once = (2 * std::thread::available_parallelism()?.get()).to_string();
    Ok(if has_nextest() {
        cargo(["nextest", "run", "--no-fail-fast", "--test-threads", &at_once])
    } else {
        // Doc tests are a separate step, because nextest cannot run them.
        let mut command = cargo(["test", "--no-fail-fast", "--all-targets"]);
        command.env("RUST_TEST_THREADS", at_once);
        command
    })
}

fn has_nextest() -> bool {
    cargo(["nextest", "--version"]).output().is_ok_and(|output| output.status.success())
}
