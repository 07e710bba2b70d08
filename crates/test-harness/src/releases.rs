//! Several releases of the program on one store, as during an upgrade: this release, the next one, and the previous
//! one if its binary is available.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{Ran, TestEnv, program};

/// A release of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Name in messages.
    pub name: &'static str,
    program: PathBuf,
    is_next: bool,
}

impl Release {
    /// Returns the release under test.
    pub fn this() -> Release {
        Release { name: "this release", program: program().into(), is_next: false }
    }

    /// Returns the next release: the same program, with a store format that is not released yet.
    pub fn next() -> Release {
        Release { name: "the next release", is_next: true, ..Release::this() }
    }

    /// Returns the previous release, with this binary.
    pub fn previous(program: &Path) -> Release {
        Release { name: "the previous release", program: program.to_owned(), is_next: false }
    }

    /// Returns a command that runs its binary with these arguments in `test_env`.
    pub fn command(&self, test_env: &TestEnv, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        self.enclose(test_env, &mut command);
        command.args(arguments);
        command
    }

    /// Returns a command that runs its binary under strace with these options and arguments.
    pub fn traced(&self, test_env: &TestEnv, options: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new("strace");
        self.enclose(test_env, &mut command);
        command.args(options).arg(&self.program).args(arguments);
        command
    }

    fn enclose(&self, test_env: &TestEnv, command: &mut Command) {
        test_env.enclose(command);
        if self.is_next {
            command.env("SEXTON_TRIAL", "format");
        }
    }

    /// Runs it and returns its exit code and output.
    pub fn run(&self, test_env: &TestEnv, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(test_env, arguments).output().unwrap())
    }

    /// Runs it, requires success, and returns its output without the last newline.
    pub fn ok(&self, test_env: &TestEnv, arguments: &[&str]) -> String {
        let ran = self.run(test_env, arguments);
        let name = self.name;
        assert_eq!(ran.code, 0, "{name}, sexton {arguments:?}:\n{}{}", ran.stdout, ran.stderr);
        ran.stdout.trim_end().to_owned()
    }

    /// Runs it with `--json`, requires success, and returns the document.
    pub fn json(&self, test_env: &TestEnv, arguments: &[&str]) -> Value {
        let text = self.ok(test_env, &[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}
