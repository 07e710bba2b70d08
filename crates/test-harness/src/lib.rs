//! The environment for tests of the whole program: a private state directory, the real binary, and a cleanup that
//! stops everything the test started. The fault campaign uses it too.
//!
//! Every function here panics on an error, so that the test fails.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(clippy::missing_panics_doc, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub mod crashed_env;
pub mod effort;
pub mod gate;
pub mod http;
pub mod limits;
pub mod loops;
pub mod page;
pub mod project;
pub mod records;
pub mod releases;
pub mod repository;
pub mod strace;
pub mod tmux;
pub mod user;

/// A timeout that is long enough for any wait on a loaded machine.
pub const GENEROUS: Duration = Duration::from_secs(60);

/// A state directory, a working directory and settings for runs of this project's binary.
pub struct TestEnv {
    directory: TempDir,
    settings: String,
    store: &'static str,
}

/// Returns the path of the binary: the value of SEXTON_TEST_BINARY, which is set where tests run as a user that
/// cannot read the original, else the binary that cargo built together with this test.
pub fn program() -> String {
    std::env::var("SEXTON_TEST_BINARY").unwrap_or_else(|_| {
        let test = std::env::current_exe().unwrap();
        let built = test.ancestors().nth(2).unwrap().join("sexton");
        assert!(built.exists(), "{} is not built", built.display());
        built.into_os_string().into_string().unwrap()
    })
}

/// Returns the binary as a word of a shell script: its path may contain blanks.
pub fn quoted_program() -> String {
    quote(&program())
}

/// Returns a word that every shell reads as exactly this text.
pub fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Removes the variables of the test's own environment that would change what `command` does. The variables that
/// tests and the campaign set for themselves stay.
pub fn without_foreign_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let begins = |prefix: &&[u8]| name.as_encoded_bytes().starts_with(prefix);
        let is_own = [&b"SEXTON_TEST"[..], b"SEXTON_MUTANT"].iter().any(begins);
        if !is_own && [&b"SEXTON_"[..], b"GIT_", b"XDG_", b"OMX_", b"RALPH_"].iter().any(begins) {
            command.env_remove(&name);
        }
    }
}

/// The result of a command.
pub struct Ran {
    /// Exit code; -1 if a signal terminated the command.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl TestEnv {
    /// Creates a test environment on the default store.
    #[allow(clippy::new_without_default, reason = "it creates a directory")]
    pub fn new() -> TestEnv {
        TestEnv::on(stores()[0])
    }

    /// Creates a test environment on the store with this scheme.
    pub fn on(store: &'static str) -> TestEnv {
        TestEnv::inside(&std::env::temp_dir(), store)
    }

    /// Creates a test environment in a new directory below `directory`.
    pub fn inside(directory: &Path, store: &'static str) -> TestEnv {
        let directory = tempfile::tempdir_in(directory).unwrap();
        let test_env = TestEnv { directory, settings: String::new(), store };
        std::fs::create_dir_all(test_env.path().join("config/sexton")).unwrap();
        std::fs::create_dir(test_env.path().join("work")).unwrap();
        test_env
    }

    /// Appends `settings` to the user's configuration file.
    pub fn with_settings(mut self, settings: &str) -> TestEnv {
        self.settings.push_str(settings);
        std::fs::write(self.path().join("config/sexton/config.toml"), &self.settings).unwrap();
        self
    }

    /// Returns the directory that contains everything.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the state directory.
    pub fn state_dir(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Returns the directory that commands run in; it is outside of any repository.
    pub fn work_dir(&self) -> PathBuf {
        self.path().join("work")
    }

    /// Returns the path of the store's file.
    pub fn store_path(&self) -> PathBuf {
        let file = match self.store {
            "sqlite" => "sessions.db",
            "json" => "sessions.jsonl",
            other => other,
        };
        self.state_dir().join(file)
    }

    /// Returns the store's URL.
    pub fn store_url(&self) -> String {
        format!("{}:{}", self.store, self.store_path().display())
    }

    /// Returns a command that runs the binary with these arguments, isolated in this test environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        self.enclose(&mut command);
        command.args(arguments);
        command
    }

    /// Isolates `command` in this test environment.
    pub fn enclose(&self, command: &mut Command) {
        command.current_dir(self.work_dir()).stdin(Stdio::null());
        without_foreign_variables(command);
        for name in ["COLUMNS", "TMUX_PANE", "CODEX_SESSION_ID", "SESSION_ID", "CLICOLOR_FORCE", "COMPLETE"] {
            command.env_remove(name);
        }
        command.env("HOME", self.path()).env("XDG_CONFIG_HOME", self.path().join("config"));
        command.env("SEXTON_STATE_DIR", self.state_dir()).env("SEXTON_STORE", self.store_url());
        command.env("TZ", "UTC").env("NO_COLOR", "1");
    }

    /// Runs the binary and returns its exit code and output.
    pub fn sexton(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(arguments).output().unwrap())
    }

    /// Runs the binary, requires success, and returns its output without the last newline.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.sexton(arguments);
        assert_eq!(ran.code, 0, "sexton {arguments:?} failed:\n{}{}", ran.stdout, ran.stderr);
        ran.stdout.trim_end().to_owned()
    }

    /// Runs the binary with `--json`, requires success, and returns the document.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Returns the record of a session.
    pub fn record(&self, session: &str) -> Value {
        self.json(&["show", session])
    }

    /// Waits until the session is recorded as ended, and returns its record.
    pub fn wait_until_ended(&self, session: &str) -> Value {
        let mut record = Value::Null;
        eventually("the session ends", || {
            record = self.record(session);
            !record["finished_at"].is_null()
        });
        record
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        // Stops what a failed test left running, without the test's deliberate defect.
        if self.state_dir().exists() {
            let mut stop = self.command(&["stop", "--all", "--force"]);
            // The trial release reads every store format, so it can stop sessions in any store.
            stop.env("SEXTON_TRIAL", "format").env_remove("SEXTON_MUTANT");
            let _ = stop.output();
        }
    }
}

impl Ran {
    /// Converts the output of a finished process.
    pub fn of(output: &Output) -> Ran {
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Returns the output and the exit code, with the path of the test environment replaced.
    pub fn shown(&self, test_env: &TestEnv) -> String {
        let text = format!("{}{}exit code {}", self.stdout, self.stderr, self.code);
        text.replace(&test_env.path().display().to_string(), "[TEST-ENV]")
    }
}

/// Polls `condition` until it is true; panics after [`GENEROUS`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < GENEROUS, "timed out waiting until {what}");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A process that the test owns; dropping it kills the process.
pub struct Bystander(pub Child);

impl Bystander {
    /// Starts a process that sleeps for ten minutes.
    pub fn start() -> Bystander {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Bystander(child.unwrap())
    }

    /// Returns the pid, as an argument.
    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Kills the process and waits for it.
    pub fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns whether a process with this pid exists and is not a zombie.
pub fn is_running(pid: u64) -> bool {
    state_of(pid).is_some_and(|state| state != 'Z')
}

/// Returns the kernel's state letter of a process; `None` if it does not exist.
pub fn state_of(pid: u64) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Returns the peak memory of a process in KiB; `None` if it does not exist.
pub fn peak_memory(pid: u64) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Returns the processes that have this session's cookie in their environment.
pub fn carriers(session: &str) -> Vec<u64> {
    let wanted = format!("SEXTON_SESSION_ID={session}");
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    pids.filter(|pid| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    })
    .collect()
}

/// Sends SIGKILL to a process of the test environment.
pub fn kill_9(pid: u64) {
    send_signal(pid, rustix::process::Signal::KILL);
}

/// Returns Sexton's own stores that are linked into the binary, the default first.
pub fn stores() -> Vec<&'static str> {
    linked(&["sqlite", "json"])
}

/// Returns the same, with the stores of other tools whose loops can be resumed.
pub fn loop_stores() -> Vec<&'static str> {
    linked(&["sqlite", "json", "omx"])
}

fn linked(names: &[&'static str]) -> Vec<&'static str> {
    static LINKED: OnceLock<Value> = OnceLock::new();
    let query = || {
        let mut command = Command::new(program());
        without_foreign_variables(&mut command);
        let output = command.args(["backends", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let linked = LINKED.get_or_init(query).as_array().unwrap();
    let is_linked =
        |name: &str| linked.iter().any(|backend| backend["kind"] == "store" && backend["name"] == name);
    names.iter().copied().filter(|name| is_linked(name)).collect()
}

/// Sends a signal to a process of the test environment.
pub fn send_signal(pid: u64, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Returns the running processes that have `variable` (`NAME=VALUE`) in their environment.
pub fn processes_with(variable: &str) -> Vec<u64> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    pids.filter(|pid| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        is_running(*pid) && environ.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    })
    .collect()
}
