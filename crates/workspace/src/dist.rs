//! The program as it is distributed, which `cargo xtask dist` builds.
//!
//! On Linux it is one static file, built with musl. Every `run` starts this program twice, so the cost before
//! its first line matters: looking for shared libraries, and what glibc finds out about the processor each
//! time, which in a virtual machine takes most of a millisecond. A plain `cargo build --release` gives the
//! same program, a little slower, and needs neither target nor compiler.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Result;

/// Builds it and returns its path.
pub fn build() -> Result<PathBuf> {
    if !cfg!(target_os = "linux") {
        return build_with(&["--profile", "dist"]);
    }
    require_musl()?;
    build_with(&["--profile", "dist", "--target", &target()])
}

/// Builds the program with a plain `cargo build --release`.
pub fn build_plain() -> Result<PathBuf> {
    build_with(&["--release"])
}

fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Fails with a hint if SQLite and libgit2 cannot be compiled; cargo itself reports a missing target.
fn require_musl() -> Result {
    let found =
        Command::new("musl-gcc").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let target = target();
    Err(format!(
        "musl-gcc is missing\nhint: install the package musl-tools (Debian, Ubuntu) or musl-gcc (Fedora), and \
         run `rustup target add {target}`"
    )
    .into())
}

fn build_with(options: &[&str]) -> Result<PathBuf> {
    let program: &[&str] = &["build", "--package", "sexton", "--bin", "sexton"];
    let built = crate::build(&[program, options].concat())?;
    let sexton = built.into_iter().find(|program| program.name == "sexton");
    Ok(sexton.ok_or("cargo built no sexton")?.path)
}
