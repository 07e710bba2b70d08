//! What every test of the whole program needs: a state directory of its own, the real binary, and the
//! certainty that nothing it started outlives it. The fault campaign stands on the same.
//!
//! Everything here panics where it cannot go on: that is how a test fails.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::missing_panics_doc, reason = "that is how a test fails")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub mod effort;
pub mod loops;
pub mod page;
pub mod project;
pub mod records;
pub mod repository;
pub mod scene;
pub mod strace;
pub mod tmux;

/// Long enough for anything on a loaded machine.
pub const GENEROUS: Duration = Duration::from_secs(60);

/// A state directory, and this project's own binary working on it.
pub struct Yard {
    directory: TempDir,
    settings: String,
    store: &'static str,
}

/// The binary: the one that SEXTON_TEST_BINARY names, as where tests run as a user who cannot reach the
/// original, else the one that cargo built together with this test.
pub fn program() -> String {
    std::env::var("SEXTON_TEST_BINARY").unwrap_or_else(|_| {
        let test = std::env::current_exe().unwrap();
        let built = test.ancestors().nth(2).unwrap().join("sexton");
        assert!(built.exists(), "{} is not built", built.display());
        built.into_os_string().into_string().unwrap()
    })
}

/// What a command did.
pub struct Ran {
    /// Its exit code; -1 where a signal ended it.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it said besides.
    pub stderr: String,
}

impl Yard {
    /// A new yard on the default store.
    #[allow(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Yard {
        Yard::on(stores()[0])
    }

    /// A new yard on the store with this scheme.
    pub fn on(store: &'static str) -> Yard {
        Yard::inside(&std::env::temp_dir(), store)
    }

    /// A new yard in a folder of this directory.
    pub fn inside(directory: &Path, store: &'static str) -> Yard {
        let directory = tempfile::tempdir_in(directory).unwrap();
        let yard = Yard { directory, settings: String::new(), store };
        std::fs::create_dir_all(yard.path().join("config/sexton")).unwrap();
        std::fs::create_dir(yard.path().join("work")).unwrap();
        yard
    }

    /// The same yard with these settings in its user's file.
    pub fn with_settings(mut self, settings: &str) -> Yard {
        self.settings.push_str(settings);
        std::fs::write(self.path().join("config/sexton/config.toml"), &self.settings).unwrap();
        self
    }

    /// The directory that everything is in.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The state directory.
    pub fn state_dir(&self) -> PathBuf {
        self.path().join("state")
    }

    /// A directory to work in, outside of any repository.
    pub fn work_dir(&self) -> PathBuf {
        self.path().join("work")
    }

    /// The store's file.
    pub fn store_path(&self) -> PathBuf {
        let file = match self.store {
            "sqlite" => "sessions.db",
            "json" => "sessions.jsonl",
            other => other,
        };
        self.state_dir().join(file)
    }

    /// The store's URL.
    pub fn store_url(&self) -> String {
        format!("{}:{}", self.store, self.store_path().display())
    }

    /// The binary with these arguments, in this yard and in nothing else of this machine.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        self.enclose(&mut command);
        command.args(arguments);
        command
    }

    /// Puts any command into this yard.
    pub fn enclose(&self, command: &mut Command) {
        command.current_dir(self.work_dir()).stdin(Stdio::null());
        for name in [
            "SEXTON_SESSION_ID",
            "SEXTON_PROBE",
            "XDG_STATE_HOME",
            "COLUMNS",
            "TMUX_PANE",
            "OMX_SESSION_ID",
            "CODEX_SESSION_ID",
            "SESSION_ID",
        ] {
            command.env_remove(name);
        }
        for name in ["CLICOLOR_FORCE", "COMPLETE"] {
            command.env_remove(name);
        }
        command.env("HOME", self.path()).env("XDG_CONFIG_HOME", self.path().join("config"));
        command.env("SEXTON_STATE_DIR", self.state_dir()).env("SEXTON_STORE", self.store_url());
        command.env("TZ", "UTC").env("NO_COLOR", "1");
    }

    /// Runs the binary and gives back everything it said.
    pub fn sexton(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(arguments).output().unwrap())
    }

    /// Runs the binary, which must succeed, and gives back its output without the last newline.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.sexton(arguments);
        assert_eq!(ran.code, 0, "sexton {arguments:?} failed:\n{}{}", ran.stdout, ran.stderr);
        ran.stdout.trim_end().to_owned()
    }

    /// Runs the binary with `--json`, which must succeed, and gives back the document.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The record of a session.
    pub fn record(&self, session: &str) -> Value {
        self.json(&["show", session])
    }

    /// Waits until the session is recorded as ended, and gives back its record.
    pub fn wait_until_ended(&self, session: &str) -> Value {
        let mut record = Value::Null;
        eventually("the session ends", || {
            record = self.record(session);
            !record["finished_at"].is_null()
        });
        record
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        // What a failed test left running is ended here, through the program that is tested and, where
        // that is what failed, by the pids that this yard's own records name.
        if self.state_dir().exists() {
            let _ = self.command(&["stop", "--all", "--force"]).output();
        }
    }
}

impl Ran {
    /// What a finished process did.
    pub fn of(output: &Output) -> Ran {
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// What a person saw, with everything that differs from run to run replaced.
    pub fn shown(&self, yard: &Yard) -> String {
        let text = format!("{}{}exit code {}", self.stdout, self.stderr, self.code);
        text.replace(&yard.path().display().to_string(), "[YARD]")
    }
}

/// Waits for `condition`, looking again and again; fails after a generous time.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < GENEROUS, "it never came to be that {what}");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A process of the test's own, ended with it.
pub struct Bystander(pub Child);

impl Bystander {
    /// Starts one that does nothing for a long time.
    pub fn start() -> Bystander {
        let child = Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Bystander(child.unwrap())
    }

    /// Its pid, as an argument.
    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Ends it, and sees it gone.
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

/// Whether a process with this pid exists and is not a zombie.
pub fn is_running(pid: u64) -> bool {
    state_of(pid).is_some_and(|state| state != 'Z')
}

/// The letter that the kernel has for what a process does; none where it is gone.
pub fn state_of(pid: u64) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// The processes that carry this session's cookie.
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

/// Kills a process that the test's own yard started.
pub fn kill_9(pid: u64) {
    send_signal(pid, rustix::process::Signal::KILL);
}

/// Sexton's own stores that are linked into the binary, the default first.
pub fn stores() -> Vec<&'static str> {
    linked(&["sqlite", "json"])
}

/// The same, with the stores of other tools whose loops can be resumed.
pub fn loop_stores() -> Vec<&'static str> {
    linked(&["sqlite", "json", "omx"])
}

fn linked(names: &[&'static str]) -> Vec<&'static str> {
    static LINKED: OnceLock<Value> = OnceLock::new();
    let ask = || {
        let output = Command::new(program()).args(["backends", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let linked = LINKED.get_or_init(ask).as_array().unwrap();
    let is_linked =
        |name: &str| linked.iter().any(|backend| backend["kind"] == "store" && backend["name"] == name);
    names.iter().copied().filter(|name| is_linked(name)).collect()
}

/// Sends a signal to a process that the test's own yard started.
pub fn send_signal(pid: u64, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// The processes that carry `variable`, a name and value, in their environment.
pub fn processes_with(variable: &str) -> Vec<u64> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    pids.filter(|pid| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        is_running(*pid) && environ.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    })
    .collect()
}
