//! A state directory of oh-my-codex, and a resumption in it.

#![allow(dead_code, reason = "each test target uses only a part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollster::block_on;
use serde_json::{Value, json};
use sexton_core::plugin::StoreOptions;
use sexton_core::resume::{AgentIdentity, Claim, ResumeContext, Resumption, resume};
use sexton_core::store::{Access, Durability, Listing};
use sexton_core::{Query, SessionId, Store, StoreError, Time};
use sexton_proc_linux as _;
use tempfile::TempDir;

/// The age at which a loop is stale.
pub const DAY: Duration = Duration::from_secs(86_400);

/// The time of all events.
pub const NOW: &str = "2026-01-10T01:00:00Z";

pub fn now() -> Time {
    NOW.parse().unwrap()
}

pub fn id(text: &str) -> SessionId {
    text.parse().unwrap()
}

/// A state directory, deleted on drop.
pub struct TestEnv {
    directory: TempDir,
}

impl TestEnv {
    /// Creates an empty directory.
    pub fn new() -> TestEnv {
        let test_env = TestEnv { directory: TempDir::new().unwrap() };
        fs::create_dir_all(test_env.path().join("sessions")).unwrap();
        test_env
    }

    /// Creates a copy of the checked-in directory.
    pub fn fixture() -> TestEnv {
        let test_env = TestEnv::new();
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/state"), &test_env.path());
        test_env
    }

    /// Returns the state directory.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// Returns a path outside of it.
    pub fn elsewhere(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the state file of `session`.
    pub fn state_file(&self, session: &str) -> PathBuf {
        self.path().join("sessions").join(session).join("ralph-state.json")
    }

    /// Creates a session without a loop.
    pub fn enter(&self, session: &str) {
        fs::create_dir_all(self.path().join("sessions").join(session)).unwrap();
    }

    /// Writes a loop as oh-my-codex does.
    pub fn write(&self, session: &str, state: &Value) {
        self.enter(session);
        fs::write(self.state_file(session), serde_json::to_string_pretty(state).unwrap()).unwrap();
    }

    /// Returns the content of the file of `session`; `None` if there is none.
    pub fn state(&self, session: &str) -> Option<Value> {
        fs::read(self.state_file(session)).ok().map(|bytes| serde_json::from_slice(&bytes).unwrap())
    }

    /// Returns the sessions whose files are active.
    pub fn drivers(&self) -> Vec<String> {
        let names = fs::read_dir(self.path().join("sessions")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut drivers: Vec<_> = names
            .filter(|name| self.state(name).is_some_and(|state| state["active"] == json!(true)))
            .collect();
        drivers.sort();
        drivers
    }

    /// Returns the files of oh-my-codex, by path, with their content.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        collect(&self.path(), "", &mut files);
        files.retain(|path, _| !path.starts_with(".sexton/"));
        files
    }

    pub fn open(&self, access: Access) -> Result<Box<dyn Store>, StoreError> {
        open(&self.path(), access, Durability::Process)
    }

    pub fn writer(&self) -> Box<dyn Store> {
        self.open(Access::Write).unwrap()
    }

    pub fn reader(&self) -> Box<dyn Store> {
        self.open(Access::Read).unwrap()
    }

    pub fn list(&self) -> Listing {
        block_on(self.reader().list(&Query::all())).unwrap()
    }

    /// Resumes in `current` as the agent of `claim`.
    pub fn resume(&self, current: &str, claim: &Claim) -> Resumption {
        resume_in(self.writer().as_ref(), current, claim, Duration::from_secs(60)).unwrap()
    }
}

pub fn open(path: &Path, access: Access, durability: Durability) -> Result<Box<dyn Store>, StoreError> {
    sexton_store_omx::open(&StoreOptions::new(path.to_owned(), access, durability))
}

pub fn resume_in(
    store: &dyn Store,
    current: &str,
    claim: &Claim,
    lock_wait: Duration,
) -> Result<Resumption, StoreError> {
    let blind = || Err("no process is probed here".to_owned());
    let context = ResumeContext { store, sight: &blind, clock: &now, lock_wait };
    block_on(resume(&context, Some(&id(current)), claim))
}

/// Returns a claim of the agent with this session id and thread id.
pub fn agent(session: Option<&str>, thread: Option<&str>) -> Claim {
    Claim { agent: AgentIdentity::new(session, thread), stale: DAY, ..Claim::default() }
}

/// Returns an active loop, driven by the conversation `codex`.
pub fn driving(codex: &str) -> Value {
    json!({
        "active": true, "current_phase": "executing", "iteration": 3, "max_iterations": 50,
        "owner_codex_session_id": codex, "updated_at": "2026-01-10T00:30:00.000Z", "kept": {"as": "it is"},
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn collect(directory: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{name}/"), files);
        } else {
            files.insert(name, fs::read(entry.path()).unwrap_or_default());
        }
    }
}
