//! `cargo xtask bench`: builds the benchmarks (crates/bench) and runs them.
//!
//! They are a separate program, so that the other tasks compile without a database.

use std::os::unix::process::CommandExt;
use std::process::Command;

use sexton_workspace::build;

use crate::Result;

/// Builds the benchmarks and replaces this process with them: their output and exit code are those of the task.
/// They parse the arguments of this process again, which are known to be valid.
pub(crate) fn run() -> Result {
    let built = build(&["build", "--quiet", "--package", "sexton-bench", "--bin", "bench"])?;
    let bench = built.into_iter().find(|program| program.name == "bench");
    let bench = bench.ok_or("cargo built no `bench`")?.path;
    // Without the name of this program and the word `bench`.
    let error = Command::new(&bench).args(std::env::args_os().skip(2)).exec();
    Err(format!("{}: {error}", bench.display()).into())
}
