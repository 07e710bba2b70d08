//! Loops and the sessions that drive them, on any store: the base of the tests of resuming.
//!
//! The records are written through the store itself, with the words of its dialect, so that a test is the same for
//! every store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use sexton_core::resume::{Dialect, Reason};
use sexton_core::session::{Agent, Exit, LoopState};
use sexton_core::{Host, Query, Session, SessionId, Status, Store, Time};

use crate::TestEnv;
use crate::records::{insert_records, open};

/// A test environment with loops.
pub struct Loops {
    /// The test environment.
    pub test_env: TestEnv,
}

/// The agent that owns the loops.
pub const AGENT: &str = "conversation-1";

impl Loops {
    /// Creates a test environment on the store with this scheme.
    pub fn on(store: &'static str) -> Loops {
        Loops { test_env: TestEnv::on(store) }
    }

    /// Opens the store for writing.
    pub fn store(&self) -> Box<dyn Store> {
        open(&self.test_env)
    }

    /// Returns the store's dialect for loops.
    pub fn dialect(&self) -> &'static Dialect {
        self.store().dialect()
    }

    /// Inserts sessions into the store.
    pub fn insert<const N: usize>(&self, sessions: [Session; N]) {
        if self.test_env.store_url().starts_with("omx:") {
            self.test_env.ok(&["ps"]);
            sessions.iter().for_each(|session| write_as_omx(&self.test_env, session));
        } else {
            insert_records(&self.test_env, sessions.into());
        }
    }

    /// Returns the record of a session.
    pub fn record(&self, id: &str) -> Session {
        pollster::block_on(self.store().load(&id.parse().unwrap())).unwrap().unwrap()
    }

    /// Returns the loop of a session.
    pub fn state(&self, id: &str) -> LoopState {
        self.record(id).loop_state.unwrap_or_default()
    }

    /// Returns every record.
    pub fn records(&self) -> BTreeMap<SessionId, Session> {
        let listed = pollster::block_on(self.store().list(&Query::all())).unwrap().sessions;
        listed.into_iter().map(|session| (session.id.clone(), session)).collect()
    }

    /// Returns the ids of the sessions that drive a loop.
    pub fn drivers(&self) -> Vec<String> {
        let listed = pollster::block_on(self.store().list(&Query::active_loops())).unwrap().sessions;
        let mut ids: Vec<_> = listed.into_iter().map(|session| session.id.to_string()).collect();
        ids.sort();
        ids
    }

    /// Runs `resume --json` with these arguments, and returns its document and exit code.
    pub fn try_resume(&self, arguments: &[&str]) -> (Value, i32) {
        let ran = self.test_env.sexton(&[&["resume", "--json"], arguments].concat());
        let document = serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}{}", ran.stdout, ran.stderr));
        (document, ran.code)
    }

    /// Does the same, and requires exit code 0 and this reason.
    pub fn resume(&self, reason: Reason, arguments: &[&str]) -> Value {
        let (document, code) = self.try_resume(arguments);
        assert_eq!((&document["reason"], code), (&Value::from(self.dialect().word(reason)), 0), "{document}");
        document
    }

    /// Does the same, and requires that no record changes.
    pub fn resume_without_change(&self, reason: Reason, arguments: &[&str]) -> Value {
        let before = self.records();
        let document = self.resume(reason, arguments);
        assert_eq!(self.records(), before, "{reason:?} changed something");
        document
    }

    /// Returns a `resume --json` command with these arguments in the session `current`, to run many at once.
    pub fn resume_command(&self, current: &str, arguments: &[&str]) -> Command {
        let mut command = self.test_env.command(&[&["resume", "--json"], arguments].concat());
        command
            .env(self.dialect().session_variables[0], current)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// Writes `session` as oh-my-codex would: its directory, and the file of its loop if it has one.
fn write_as_omx(test_env: &TestEnv, session: &Session) {
    let directory = test_env.store_path().join("sessions").join(session.id.as_str());
    std::fs::create_dir_all(&directory).unwrap();
    let Some(state) = &session.loop_state else { return };
    let agent = session.agent.clone().unwrap_or_default();
    let mut document = json!({
        "active": state.active, "current_phase": state.phase, "iteration": state.iteration,
        "max_iterations": state.max_iterations, "updated_at": state.updated_at,
        "owner_codex_session_id": agent.session_id, "owner_codex_thread_id": agent.thread_id,
    });
    document.as_object_mut().unwrap().extend(state.extra.clone());
    let text = serde_json::to_string_pretty(&document).unwrap();
    std::fs::write(directory.join("ralph-state.json"), text).unwrap();
}

/// Returns the time `span` ago, in whole seconds.
pub fn ago(span: Duration) -> Time {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let epoch: Time = "1970-01-01T00:00:00Z".parse().unwrap();
    epoch.saturating_add(Duration::from_secs(seconds)).saturating_sub(span)
}

/// Returns a session that has ended on another host, so that its processes are not inspected.
pub fn ended(id: &str) -> Session {
    let host = Host::new("elsewhere", "far");
    let mut session = Session::new(id.parse().unwrap(), host, ago(Duration::from_secs(7200)));
    session.status = Status::Running;
    session.finish(Exit::exited(0), ago(Duration::from_secs(600)));
    session
}

/// Returns a session that has ended and left an active loop of [`AGENT`], last updated `touched` ago.
pub fn driven(id: &str, touched: Duration) -> Session {
    let mut session = ended(id);
    session.agent = Some(Agent { session_id: Some(AGENT.to_owned()), ..Agent::default() });
    session.loop_state = Some(LoopState {
        active: true,
        phase: Some("executing".to_owned()),
        iteration: Some(3),
        max_iterations: Some(10),
        updated_at: Some(ago(touched)),
        extra: [("mood".to_owned(), Value::from("good"))].into_iter().collect(),
        ..LoopState::default()
    });
    session
}

/// Returns every file below `dir` with its content, except SQLite's shared memory, which holds no data.
pub fn bytes_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(bytes_below(&path));
        } else if !path.to_string_lossy().ends_with("-shm") {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

/// Damages every copy of `text` in the files of the store, so that neither the checksum nor the parser accepts the
/// record that contains it.
pub fn damage(test_env: &TestEnv, text: &str) {
    if test_env.store_url().starts_with("sqlite:") {
        // A backup has everything in one file. With a write-ahead log beside it, SQLite would read the log.
        let backup = test_env.ok(&["backup"]);
        std::fs::copy(backup, test_env.store_path()).unwrap();
        for log in ["sessions.db-wal", "sessions.db-shm"] {
            std::fs::remove_file(test_env.state_dir().join(log)).unwrap();
        }
    }
    let mut found = false;
    for (path, mut bytes) in bytes_below(&test_env.state_dir()) {
        if path.components().any(|part| part.as_os_str() == "backups") {
            continue;
        }
        let starts: Vec<_> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(text.as_bytes())).collect();
        found |= !starts.is_empty();
        for at in &starts {
            bytes[*at] = b'"';
        }
        if !starts.is_empty() {
            std::fs::write(path, bytes).unwrap();
        }
    }
    assert!(found, "`{text}` is not in the store");
}
