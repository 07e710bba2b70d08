//! The cases: a command exits and leaves a process behind.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sexton_core::config::Containment;
use sexton_core::plugin::{Registry, StoreOptions};
use sexton_core::store::{Access, Durability};
use sexton_core::{Host, OsText, ProcessProbe, Session, SessionId, Status, Store, Time};
use sexton_supervise::{Plan, SessionDir, Shim, start};
use tempfile::TempDir;

use crate::scripted::{self, Script};

/// How long any step may take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The cases by name.
pub const CASES: [(&str, fn()); 4] = [
    ("i10_end_is_not_recorded_before_survivors_are_gone", survivors),
    ("i10_failed_probe_is_retried_before_the_end_is_recorded", probe_failures),
    ("i10_stop_is_repeated_after_a_stale_report", stale_reports),
    ("i10_process_that_cannot_be_watched_does_not_count_as_gone", unwatchable),
];

fn survivors() {
    let mut test_session = TestSession::start(Script { refusals: 1, ..Script::default() });
    test_session.script.wait_for_calls(1, LIMIT);
    // It waits for the process that it could not stop, and records nothing meanwhile.
    assert!(!test_session.is_over_within(Duration::from_secs(1)), "the shim did not wait");
    assert_eq!(test_session.status(), Status::Running);
    assert!(is_alive(test_session.left_over));
    kill(test_session.left_over);
    assert!(test_session.is_over_within(LIMIT), "the shim waits although no process is left");
    assert_eq!(test_session.status(), Status::Completed);
}

fn probe_failures() {
    let mut test_session = TestSession::start(Script { failures: 2, ..Script::default() });
    assert!(test_session.is_over_within(LIMIT));
    assert!(!is_alive(test_session.left_over), "an end was recorded while a process was left");
    assert_eq!((test_session.status(), test_session.script.calls()), (Status::Completed, 3));
}

fn stale_reports() {
    let mut test_session = TestSession::start(Script { stale_reports: 2, ..Script::default() });
    assert!(test_session.is_over_within(LIMIT));
    assert!(!is_alive(test_session.left_over), "an end was recorded while a process was left");
    assert_eq!((test_session.status(), test_session.script.calls()), (Status::Completed, 3));
}

fn unwatchable() {
    let mut test_session =
        TestSession::start(Script { refusals: 1, unknown_observations: 1, ..Script::default() });
    assert!(test_session.is_over_within(LIMIT));
    assert!(!is_alive(test_session.left_over), "an end was recorded while a process was left");
    assert_eq!((test_session.status(), test_session.script.calls()), (Status::Completed, 2));
}

/// A session whose command exited and left a process behind.
struct TestSession {
    dir: TempDir,
    id: SessionId,
    shim: Child,
    script: scripted::ScriptState,
    left_over: Pid,
}

impl TestSession {
    fn start(script: Script) -> TestSession {
        let id = SessionId::random();
        let dir = tempfile::Builder::new().prefix(&scripted::name_of(id.as_str())).rand_bytes(0).tempdir();
        let dir = dir.unwrap();
        let script = script.write_to(dir.path());
        let pid_file = dir.path().join("pid");
        let leave = format!("sleep 600 </dev/null & echo $! > {0}.new; mv {0}.new {0}", pid_file.display());
        let files = SessionDir::of(dir.path(), &id);
        let plan = Plan {
            session: id.clone(),
            store_url: format!("json:{}", dir.path().join("sessions.jsonl").display()),
            power_safe: false,
            probe: scripted::NAME.to_owned(),
            state_dir: dir.path().to_owned(),
            command: ["sh", "-c", &leave].map(OsText::from).into(),
            env: Vec::new(),
            cwd: "/".into(),
            log_path: files.log_path().into(),
            stderr_path: None,
            log_max_bytes: None,
            owner: None,
            on_owner_death: Default::default(),
            owner_grace: LIMIT,
            stop_grace: Duration::from_millis(200),
            timeout: None,
            worktree: false,
            watch: None,
            notify: None,
            containment: Containment::Tree,
            memory_max: None,
            pids_max: None,
        };
        let host = Host::new("m", "h");
        let session = Session::new(id.clone(), host, now());
        let shim = Shim::execute(&id, Stdio::null()).unwrap();
        let started = pollster::block_on(start(|| Ok(open(dir.path())), session, &plan, shim, now)).unwrap();
        let began = Instant::now();
        let left_over = loop {
            if let Ok(text) = std::fs::read_to_string(&pid_file) {
                break Pid::from_raw(text.trim().parse().unwrap()).unwrap();
            }
            assert!(began.elapsed() < LIMIT, "the command left no process");
            std::thread::sleep(Duration::from_millis(5));
        };
        TestSession { dir, id, shim: started.shim, script, left_over }
    }

    fn status(&self) -> Status {
        let store = open(self.dir.path());
        pollster::block_on(store.load(&self.id)).unwrap().unwrap().status
    }

    fn is_over_within(&mut self, limit: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < limit {
            if self.shim.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for TestSession {
    fn drop(&mut self) {
        // A process is left only if the case failed.
        if is_alive(self.left_over) {
            kill(self.left_over);
        }
        let _ = self.shim.kill();
        let _ = self.shim.wait();
    }
}

fn now() -> Time {
    jiff::Timestamp::now().into()
}

fn open(dir: &Path) -> Box<dyn Store> {
    let registry = Registry::linked().unwrap();
    let (plugin, path) =
        registry.require_store(&format!("json:{}", dir.join("sessions.jsonl").display())).unwrap();
    let options = StoreOptions::new(path, Access::Write, Durability::Process);
    (plugin.open)(&options).unwrap()
}

/// Returns whether that process is alive; a zombie is not. Its pid cannot be reused within a test.
fn is_alive(pid: Pid) -> bool {
    let probe: Box<dyn ProcessProbe> = sexton_proc_linux::open().unwrap();
    pollster::block_on(probe.identify(pid.as_raw_nonzero().get().try_into().unwrap())).is_ok()
}

fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
}
