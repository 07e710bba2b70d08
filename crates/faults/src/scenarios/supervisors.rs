//! Supervisors that are killed while their commands run: recovery starts new ones, once, whatever happens to
//! it, and the options that the session was started with stay in force.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use sexton_test_harness::strace::{Call, Family, kill_family_at, mutating_calls, trace_family};
use sexton_test_harness::{TestEnv, carriers, eventually, is_running, kill_9};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "supervisors",
    promises: "I7 I8 I9 I10",
    what: "supervisors killed while their commands run, and recovery killed at every change while it replaces them",
    mutants: &["no_resupervise"],
    tools: &[("strace", "strace")],
    minutes: 3,
    runs_alone: false,
    run,
};

const SETTINGS: &str = "stop.grace = \"200ms\"\nowner.grace = \"10m\"\n";

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        kill_recoveries(trials, store);
        kill_many(trials, store);
        kill_repeatedly(trials, store);
    }
}

/// Kills a recovery at every change that it makes while it starts a supervisor.
fn kill_recoveries(trials: &mut Trials, store: &'static str) {
    let sample = Lost::new(store, "tree");
    let calls = mutating_calls(&trace_family(&sample.test_env, Family::FirstThread, &["recover"]));
    sample.require_supervised();
    sample.end();
    trials.announce(&format!("recoveries on {store}"), calls.len());
    for call in trials.some_of(&calls, 8) {
        let Call { name, nth } = &call;
        trials.trial(&format!("{store}, recovery killed at {name} number {nth}"), || {
            let lost = Lost::new(store, "tree");
            let killed = kill_family_at(&lost.test_env, Family::FirstThread, &call, &["recover"], "");
            lost.test_env.ok(&["recover"]);
            lost.require_supervised();
            lost.end();
            1 + u64::from(killed)
        });
    }
}

/// Kills many supervisors at once, and then runs several recoveries at once.
fn kill_many(trials: &mut Trials, store: &'static str) {
    for contain in ["tree", "auto"] {
        let count = trials.either(4, 24);
        trials.trial(&format!("{store}, {contain}, {count} supervisors killed at once"), || {
            let test_env = TestEnv::on(store).with_settings(&format!("{SETTINGS}contain = \"{contain}\"\n"));
            let bystanders = Bystanders::plant(&test_env);
            let script = "setsid sleep 600 & until [ -e go ]; do sleep 0.05; done; exit 73";
            let ids: Vec<_> =
                (0..count).map(|_| test_env.ok(&["run", "-d", "--", "sh", "-c", script])).collect();
            let (lost, kept) = ids.split_at(count / 2);
            lost.iter().for_each(|id| kill_supervisor(&test_env, id));
            let recover = || {
                test_env.command(&["recover"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
            };
            for mut recovery in [recover(), recover(), recover()] {
                assert!(recovery.wait().unwrap().success());
            }
            ids.iter().for_each(|id| require_one_supervisor(&test_env, id));
            std::fs::write(test_env.work_dir().join("go"), "").unwrap();
            for (id, code) in
                lost.iter().map(|id| (id, Value::Null)).chain(kept.iter().map(|id| (id, 73.into())))
            {
                let ended = test_env.wait_until_ended(id);
                assert_eq!(ended["exit"]["code"], code, "{ended}");
                require_nothing_left(id);
            }
            bystanders.require_untouched(&test_env);
            lost.len() as u64
        });
    }
}

/// Kills one supervisor after another; the deadline stays in force.
fn kill_repeatedly(trials: &mut Trials, store: &'static str) {
    let times = trials.either(3, 12);
    trials.trial(&format!("{store}, {times} supervisors of one session killed"), || {
        let lost = Lost::new(store, "auto");
        for _ in 0..times {
            lost.test_env.ok(&["recover"]);
            lost.require_supervised();
            kill_supervisor(&lost.test_env, &lost.id);
        }
        lost.test_env.ok(&["recover"]);
        lost.end();
        times + 1
    });
}

fn supervisor_of(test_env: &TestEnv, id: &str) -> u64 {
    test_env.record(id)["supervisor"]["pid"].as_u64().unwrap()
}

fn kill_supervisor(test_env: &TestEnv, id: &str) {
    let supervisor = supervisor_of(test_env, id);
    kill_9(supervisor);
    eventually("it is gone", || !is_running(supervisor));
}

/// Requires that the session runs under one supervisor, which is the one that its record names.
fn require_one_supervisor(test_env: &TestEnv, id: &str) {
    let record = test_env.record(id);
    assert_eq!((&record["status"], &record["observed"]), (&"running".into(), &"alive".into()), "{record}");
    let supervisors = || carriers(id).into_iter().filter(|pid| is_supervisor(*pid)).collect::<Vec<_>>();
    // A supervisor that finds that it is not needed exits by itself.
    eventually("there is one supervisor", || supervisors() == [supervisor_of(test_env, id)]);
}

/// A session that lost its supervisor, with a bounded log, a notification, and a command that left a process
/// behind.
struct Lost {
    test_env: TestEnv,
    bystanders: Bystanders,
    id: String,
    notified: PathBuf,
}

impl Lost {
    fn new(store: &'static str, contain: &str) -> Lost {
        let test_env = TestEnv::on(store).with_settings(&format!("{SETTINGS}contain = \"{contain}\"\n"));
        let bystanders = Bystanders::plant(&test_env);
        let notified = test_env.path().join("notified");
        let notify = format!("touch {}", notified.display());
        let script = "setsid sleep 600 & until [ -e go ]; do sleep 0.05; done; exit 73";
        let id =
            test_env.ok(&["run", "-d", "--timeout", "1h", "--notify", &notify, "--", "sh", "-c", script]);
        kill_supervisor(&test_env, &id);
        Lost { test_env, bystanders, id, notified }
    }

    /// Requires that it has one supervisor, and that another recovery changes nothing.
    fn require_supervised(&self) {
        require_one_supervisor(&self.test_env, &self.id);
        let before = self.test_env.record(&self.id);
        let report = self.test_env.json(&["recover"]);
        assert_eq!((&report["resupervised"], &report["failed"]), (&0.into(), &0.into()), "{report}");
        assert_eq!(self.test_env.record(&self.id), before, "a second recovery changed something");
    }

    /// Lets the command exit, and requires that its end is handled completely.
    fn end(&self) {
        std::fs::write(self.test_env.work_dir().join("go"), "").unwrap();
        let ended = self.test_env.wait_until_ended(&self.id);
        assert_eq!((&ended["exit"]["code"], &ended["exit"]["reason"]), (&Value::Null, &"unknown".into()));
        assert_eq!(self.test_env.sexton(&["wait", &self.id]).code, 122);
        require_nothing_left(&self.id);
        eventually("the notification was sent", || self.notified.exists());
        self.test_env.ok(&["recover"]);
        assert_eq!(self.test_env.record(&self.id)["exit"], ended["exit"], "an exit was recorded twice");
        self.bystanders.require_untouched(&self.test_env);
    }
}

/// Returns whether a process is a supervisor.
fn is_supervisor(pid: u64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sexton-shim")
}

/// Requires that no process of an ended session lives. Its supervisor, which has recorded the end, may be exiting.
fn require_nothing_left(id: &str) {
    let members: Vec<u64> = carriers(id).into_iter().filter(|pid| !is_supervisor(*pid)).collect();
    let living: Vec<u64> = members.into_iter().filter(|pid| is_running(*pid)).collect();
    assert_eq!(living, [0; 0], "processes of session {id} are left");
    eventually("its supervisor has exited", || carriers(id).is_empty());
}
