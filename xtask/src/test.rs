//! `cargo xtask test`: everything that CI checks, the cheapest first.

use crate::steps::Steps;
use crate::workspace::cargo;
use crate::{Result, tidy, tools, unprivileged};

/// The smallest program one may want, and the one without what is portable. The default, which links
/// everything, is covered by the workspace as a whole.
const FEATURE_SETS: [&str; 2] = [REDUCED, "store-sqlite,proc-linux"];

/// The feature set whose tests are run too: no C code, no Linux.
const REDUCED: &str = "store-json,proc-portable";

/// Runs every step, and says at the end what each one cost.
pub(crate) fn run() -> Result {
    let mut steps = Steps::new();
    let outcome = run_steps(&mut steps);
    eprintln!("\n{}", steps.summary());
    outcome
}

fn run_steps(steps: &mut Steps) -> Result {
    steps.call("tools", "cargo xtask test", tools::require_all)?;
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
    let mut everything = cargo(["clippy", "--workspace", "--all-targets", "--all-features"]);
    steps.run("lint", everything.args(strict))?;
    for features in FEATURE_SETS {
        let mut some = cargo(["clippy", "--package", "sexton", "--all-targets"]);
        some.args(["--no-default-features", "--features", features]).args(strict);
        steps.run(&format!("lint {features}"), &mut some)?;
    }
    Ok(())
}

fn test(steps: &mut Steps) -> Result {
    let runner: &[&str] = if has_nextest() {
        &["nextest", "run", "--no-fail-fast"]
    } else {
        // Doc tests are a step of their own, as nextest cannot run them.
        &["test", "--no-fail-fast", "--all-targets"]
    };
    steps.run("tests", cargo(runner).arg("--workspace"))?;
    let mut reduced = cargo(runner);
    reduced.args(["--package", "sexton", "--no-default-features", "--features", REDUCED]);
    steps.run(&format!("tests {REDUCED}"), &mut reduced)
}

fn has_nextest() -> bool {
    cargo(["nextest", "--version"]).output().is_ok_and(|output| output.status.success())
}
