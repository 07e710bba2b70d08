//! What the project's own programs share: where the workspace is, how cargo is run in it, and what machine they
//! run on.
//!
//! `xtask` and the benchmarks use this crate. It must compile in seconds: it depends on no crate of the product. It is not part of
//! the product.

pub mod bench_arguments;
pub mod command;
pub mod dist;
pub mod machine;
pub mod processor_time;
pub mod quotation;
pub mod tools;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The result of a task: its value, or a message about what failed.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Returns the folder of the workspace's manifest.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this crate lies in crates/ of the workspace")
}

/// Returns the directory for build products, and for programs that a task installs.
pub fn target_dir() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Returns the cargo that built this program, to be run in the workspace.
pub fn cargo(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(arguments);
    // A developer may work inside a session; the project's tests must not find it or its store.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SEXTON_") {
            command.env_remove(name);
        }
    }
    command
}

/// A program that cargo has built.
#[derive(Debug, PartialEq, Eq)]
pub struct Executable {
    /// The name of its target.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The folder of its package.
    pub package: PathBuf,
    /// Whether it is a test program.
    pub is_test: bool,
}

/// Builds with cargo and returns the programs that were built. `arguments` begin with the subcommand.
pub fn build(arguments: &[&str]) -> Result<Vec<Executable>> {
    let mut command = cargo(arguments);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("`cargo {}` failed", arguments.join(" ")).into());
    }
    Ok(String::from_utf8(output.stdout)?.lines().filter_map(find_executable).collect())
}

/// Returns the program that one line of cargo's messages reports; only such messages have an `executable`.
fn find_executable(line: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(line).ok()?;
    Some(Executable {
        name: message["target"]["name"].as_str()?.to_owned(),
        path: message["executable"].as_str()?.into(),
        package: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        is_test: message["profile"]["test"] == true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_artifacts_with_an_executable_are_programs() {
        let program = r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml",
            "target":{"name":"life"},"profile":{"test":true},"executable":"/t/life-1"}"#;
        let found = find_executable(&program.replace('\n', "")).unwrap();
        assert_eq!(found.package, Path::new("/w/a"));
        assert_eq!((found.name.as_str(), found.is_test), ("life", true));
        assert_eq!(find_executable(&program.replace(r#""/t/life-1""#, "null")), None);
        assert_eq!(find_executable(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(find_executable("warning: not JSON"), None);
    }

    #[test]
    fn the_root_contains_the_workspace() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }
}
