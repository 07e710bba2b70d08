//! The cases: a command ends and leaves somebody behind.

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

/// How long anything may take on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(60);

/// Each by the name of what it proves.
pub const CASES: [(&str, fn()); 4] = [
    ("i10_an_end_is_not_recorded_before_those_who_survive_are_gone", survivors),
    ("i10_a_probe_that_could_not_look_is_asked_again_before_an_end_is_recorded", blindness),
    ("i10_who_slipped_away_is_looked_for_again_before_an_end_is_recorded", glimpses),
    ("i10_who_cannot_be_watched_is_not_taken_for_gone", unwatchable),
];

fn survivors() {
    let mut scene = Scene::set(Script { refusals: 1, ..Script::default() });
    scene.script.wait_for_calls(1, LIMIT);
    // It waits for the one that it could not end, and says nothing meanwhile.
    assert!(!scene.is_over_within(Duration::from_secs(1)), "the shim did not wait");
    assert_eq!(scene.status(), Status::Running);
    assert!(is_alive(scene.left_over));
    kill(scene.left_over);
    assert!(scene.is_over_within(LIMIT), "the shim waits for nobody");
    assert_eq!(scene.status(), Status::Completed);
}

fn blindness() {
    let mut scene = Scene::set(Script { failures: 2, ..Script::default() });
    assert!(scene.is_over_within(LIMIT));
    assert!(!is_alive(scene.left_over), "an end was recorded while somebody was left");
    assert_eq!((scene.status(), scene.script.calls()), (Status::Completed, 3));
}

fn glimpses() {
    let mut scene = Scene::set(Script { glimpses: 2, ..Script::default() });
    assert!(scene.is_over_within(LIMIT));
    assert!(!is_alive(scene.left_over), "an end was recorded while somebody was left");
    assert_eq!((scene.status(), scene.script.calls()), (Status::Completed, 3));
}

fn unwatchable() {
    let mut scene = Scene::set(Script { refusals: 1, blind_looks: 1, ..Script::default() });
    assert!(scene.is_over_within(LIMIT));
    assert!(!is_alive(scene.left_over), "an end was recorded while somebody was left");
    assert_eq!((scene.status(), scene.script.calls()), (Status::Completed, 2));
}

/// A session whose command ended and left somebody behind.
struct Scene {
    dir: TempDir,
    id: SessionId,
    shim: Child,
    script: scripted::Stage,
    left_over: Pid,
}

impl Scene {
    fn set(script: Script) -> Scene {
        let id = SessionId::random();
        let dir = tempfile::Builder::new().prefix(&scripted::name_of(id.as_str())).rand_bytes(0).tempdir();
        let dir = dir.unwrap();
        let script = script.stage(dir.path());
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
            assert!(began.elapsed() < LIMIT, "the command left nobody");
            std::thread::sleep(Duration::from_millis(5));
        };
        Scene { dir, id, shim: started.shim, script, left_over }
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

impl Drop for Scene {
    fn drop(&mut self) {
        // Only where a case failed is anybody left.
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
    let options = StoreOptions { path, access: Access::Write, durability: Durability::Process };
    (plugin.open)(&options).unwrap()
}

/// Whether that process lives; a zombie does not. No other can have its number within a test.
fn is_alive(pid: Pid) -> bool {
    let probe: Box<dyn ProcessProbe> = sexton_proc_linux::open().unwrap();
    pollster::block_on(probe.identify(pid.as_raw_nonzero().get().try_into().unwrap())).is_ok()
}

fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
}
