//! The programs that tests need beside Rust, git and a C compiler. A missing one is installed where that is
//! possible, and named where it is not: no test skips itself.

use std::process::{Command, Stdio};

use crate::Result;

/// Each program that the tests need, and the Debian package it comes in.
const TOOLS: [(&str, &str); 1] = [("strace", "strace")];
/// A program, how it shows that it is there whole, and the Debian package it comes in.
struct Tool {
    program: &'static str,
    shows: &'static [&'static str],
    package: &'static str,
}

const VERSION: &[&str] = &["--version"];

const TOOLS: [Tool; 4] = [
    Tool { program: "strace", shows: VERSION, package: "strace" },
    // Debian has the part of Python that makes environments in a package of its own.
    Tool { program: "python3", shows: &["-c", "import ensurepip, venv"], package: "python3-venv" },
    Tool { program: "node", shows: VERSION, package: "nodejs" },
    Tool { program: "npm", shows: VERSION, package: "npm" },
];

/// Installs what the tests need and is missing, or says what to install.
pub(crate) fn require_all() -> Result {
    require(&TOOLS)
}

/// Installs what is missing of these programs, each with its Debian package, or says what to install.
pub(crate) fn require(tools: &[(&str, &str)]) -> Result {
    let missing: Vec<_> = tools.iter().filter(|(program, _)| !is_installed(program)).collect();
    let missing: Vec<_> = TOOLS.iter().filter(|tool| !tool.is_installed()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
    let installed = runs("apt-get", VERSION) && crate::unprivileged::is_root() && install(&packages);
    if installed && missing.iter().all(|tool| tool.is_installed()) {
        return Ok(());
    }
    Err(format!("this needs {0}: install it first (on Debian: apt-get install {0})", packages.join(" "))
        .into())
}

fn is_installed(program: &str) -> bool {
    // Some programs know no harmless argument, so none is asked.
    let directories = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&directories).any(|directory| directory.join(program).is_file())
impl Tool {
    fn is_installed(&self) -> bool {
        runs(self.program, self.shows)
    }
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut asked = Command::new(program);
    asked.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}

fn install(packages: &[&str]) -> bool {
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    apt(&["update", "-qq"]) && apt(&[&["install", "-y", "-qq", "--no-install-recommends"], packages].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_noticed() {
        assert!(runs("git", VERSION));
        assert!(!runs("no-such-program-anywhere", VERSION));
        assert!(!runs("git", &["--no-such-option"]));
    }
}
