//! `cargo xtask dist`: the program as it is meant to be given to people.
//!
//! It is linked statically. Every `run` starts this program twice, and loading shared libraries is a third
//! of what starting it costs. A plain `cargo build --release` gives the same program, a little slower; it
//! needs no static C library, which not every distribution installs with its compiler.

use std::path::PathBuf;

use crate::Result;
use crate::workspace;

/// Static where the C library is glibc; musl is static anyway, and macOS has no static one. A target is
/// named, or the setting would reach build scripts and macros too, which cannot be static.
const STATIC: &str =
    r#"target.'cfg(all(target_os = "linux", target_env = "gnu"))'.rustflags=["-Ctarget-feature=+crt-static"]"#;

/// Builds it and says where it is.
pub(crate) fn run() -> Result {
    println!("{}", build()?.display());
    Ok(())
}

/// Builds it.
pub(crate) fn build() -> Result<PathBuf> {
    build_with(&["--target", "host-tuple", "--config", STATIC])
}

/// Builds the same program as anybody would.
pub(crate) fn build_plain() -> Result<PathBuf> {
    build_with(&[])
}

fn build_with(options: &[&str]) -> Result<PathBuf> {
    let plain: &[&str] = &["build", "--release", "--package", "sexton", "--bin", "sexton"];
    let built = workspace::build(&[plain, options].concat())?;
    let sexton = built.into_iter().find(|program| program.name == "sexton");
    Ok(sexton.ok_or("cargo built no sexton")?.path)
}
