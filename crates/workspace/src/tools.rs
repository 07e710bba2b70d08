//! The programs that tests and benchmarks need beside Rust, git and a C compiler. A missing one is installed if
//! possible, and reported otherwise: no test skips itself.

use std::process::{Command, Stdio};

use crate::Result;

/// Installs the missing ones of these programs, each with its Debian package, or fails with what to install.
pub fn require(tools: &[(&str, &str)]) -> Result {
    let missing: Vec<_> = tools.iter().filter(|(program, _)| !is_installed(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    let installed = is_installed("apt-get") && rustix::process::geteuid().is_root() && install(&packages);
    if installed && missing.iter().all(|(program, _)| is_installed(program)) {
        return Ok(());
    }
    Err(format!("this needs {0}: install it first (on Debian: apt-get install {0})", packages.join(" "))
        .into())
}

fn is_installed(program: &str) -> bool {
    // The program is not executed, because some programs have no harmless argument.
    let directories = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&directories).any(|directory| directory.join(program).is_file())
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
    fn a_missing_program_is_noticed() {
        assert!(is_installed("git"));
        assert!(!is_installed("no-such-program-anywhere"));
    }
}
