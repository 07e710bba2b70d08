//! A repository with many files, and plain git on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::measure::succeed;

/// Files in each directory.
const PER_DIRECTORY: usize = 100;

/// A separate repository.
pub(super) struct Repository {
    /// Where it is.
    pub(super) path: PathBuf,
    home: PathBuf,
}

impl Repository {
    /// Creates one with `files` files of about a kilobyte in `home`.
    pub(super) fn make(home: &Path, files: usize) -> Result<Repository> {
        let path = home.join("repo");
        for number in 0..files {
            let directory = path.join(format!("src/part{:03}", number / PER_DIRECTORY));
            if number.is_multiple_of(PER_DIRECTORY) {
                fs::create_dir_all(&directory)?;
            }
            fs::write(directory.join(format!("file{number:05}.rs")), content(number))?;
        }
        let repository = Repository { path, home: home.to_owned() };
        for arguments in
            [&["init", "--quiet"][..], &["add", "--all"], &["commit", "--quiet", "--message", "all"]]
        {
            succeed(&mut repository.git(&repository.path, arguments))?;
        }
        succeed(&mut repository.git(&repository.path, &["gc", "--quiet"]))?;
        Ok(repository)
    }

    /// Returns git in `directory`, without the user's configuration.
    pub(super) fn git(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", &self.home).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "Bench")
                .env(format!("GIT_{role}_EMAIL"), "bench@localhost");
        }
        // Nothing runs in the background of a measurement.
        command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
        command.current_dir(directory).args(arguments);
        command
    }

    /// Changes `count` files of the worktree at `directory`, some of them new.
    pub(super) fn change(&self, directory: &Path, count: usize, turn: usize) -> Result {
        for number in 0..count {
            let name = format!("src/part{:03}/file{number:05}.rs", number / PER_DIRECTORY);
            let name = if number % 4 == 3 { format!("{name}.new") } else { name };
            fs::write(directory.join(name), format!("{}// turn {turn}\n", content(number)))?;
        }
        Ok(())
    }
}

fn content(number: usize) -> String {
    (0..20).map(|line| format!("let value_{number}_{line} = {};\n", number * 31 + line)).collect()
}
