//! `run` and `stop`, killed at every change and with every call failing: a command that ran is recorded, one
//! that is not recorded never ran, and the next stop finishes an interrupted one.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sexton_test_harness::strace::{
    Call, Family, every_line, fail_at, kill_family_at, mutating_calls, trace_family,
};
use sexton_test_harness::{TestEnv, carriers, eventually, processes_with};

use super::errors::{Fault, choose, faults_in, require_orderly};
use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "starts",
    promises: "I1 I8 I10",
    what: "SIGKILL at every change of a start and of a stop, and every call of theirs failing",
    mutants: &["gate_before_record", "no_ending_claim"],
    tools: &[("strace", "strace"), ("taskset", "util-linux")],
    minutes: 3,
    runs_alone: false,
    run,
};

const SETTINGS: &str = "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"200ms\"\n";

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        attack_starts(trials, store);
        attack_short_sessions(trials, store);
        attack_stops(trials, store);
    }
}

/// A test environment in which sessions are started, and a marker that shows whether their command ever ran.
struct Fixture {
    test_env: TestEnv,
    bystanders: Bystanders,
    marker: PathBuf,
    script: String,
}

impl Fixture {
    /// Creates one where every command runs `then` after it created the marker.
    fn new(store: &'static str, then: &str) -> Fixture {
        let test_env = TestEnv::on(store).with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&test_env);
        let marker = test_env.path().join("ran");
        let script = format!("touch {}; {then}", marker.display());
        Fixture { test_env, bystanders, marker, script }
    }

    fn start(&self) -> [&str; 6] {
        ["run", "-d", "--", "sh", "-c", &self.script]
    }

    /// Removes the marker of the last trial, and returns a name for this one.
    fn begin(&self, what: &str) -> String {
        let _ = std::fs::remove_file(&self.marker);
        format!("{}-{what}", self.test_env.path().display())
    }

    fn newest(&self) -> Value {
        self.test_env.json(&["ps", "-a", "--limit", "1"])[0].clone()
    }
}

fn attack_starts(trials: &mut Trials, store: &'static str) {
    if trials.has_enough_violations() {
        return;
    }
    let fixture = Fixture::new(store, "exec sleep 600");
    let start = fixture.start();
    let end = || {
        let newest = fixture.newest()["id"].as_str().unwrap().to_owned();
        fixture.test_env.ok(&["stop", "--force", &newest]);
    };
    let calls = mutating_calls(&trace_family(&fixture.test_env, Family::Threads, &start));
    end();
    trials.announce("kills", calls.len());
    for call in trials.some_of(&calls, 8) {
        trials.trial(&format!("run on {store}, killed at {} number {}", call.name, call.nth), || {
            let trial = fixture.begin(&format!("{}-{}", call.name, call.nth));
            let killed = kill_family_at(&fixture.test_env, Family::Threads, &call, &start, &trial);
            require_whole_or_nothing(&fixture, &trial);
            u64::from(killed)
        });
    }
    let faults = faults_in(&every_line(&fixture.test_env, Family::Threads, &start));
    end();
    trials.announce("errors", faults.len());
    for fault in choose(trials, &faults, 8, 8) {
        let Fault { call, error, .. } = &fault;
        trials.trial(&format!("run on {store}, {error} from {} number {}", call.name, call.nth), || {
            let trial = fixture.begin(&format!("{error}-{}-{}", call.name, call.nth));
            let disturbed = fail_at(&fixture.test_env, Family::Threads, call, error, &start, &trial);
            require_orderly(&fault, &disturbed);
            if disturbed.ran.code == 0 {
                eventually("the command that was reported as running has run", || fixture.marker.exists());
                let id = disturbed.ran.stdout.trim();
                assert_eq!(
                    fixture.test_env.record(id)["status"],
                    "running",
                    "the command that was reported as running is not recorded"
                );
            }
            require_whole_or_nothing(&fixture, &trial);
            u64::from(!disturbed.struck.is_empty())
        });
    }
}

/// Requires that the session is complete, and stops it; or that its command never ran and nothing is left of
/// it.
fn require_whole_or_nothing(fixture: &Fixture, trial: &str) {
    let (test_env, trial) = (&fixture.test_env, format!("SEXTON_TEST_TRIAL={trial}"));
    let mut newest = Value::Null;
    // A command that still waits at its gate is alive too; its record is deleted when its supervisor has
    // noticed that the start failed.
    let is_whole = |record: &Value| {
        let runs = record["status"] == "running" && record["observed"] == "alive";
        runs && record["name"] != "bystander" && fixture.marker.exists()
    };
    eventually("the start has succeeded or failed", || {
        newest = fixture.newest();
        is_whole(&newest) || processes_with(&trial).is_empty()
    });
    if is_whole(&newest) {
        test_env.ok(&["stop", "--force", newest["id"].as_str().unwrap()]);
        eventually("its processes are gone", || processes_with(&trial).is_empty());
    } else {
        assert!(!fixture.marker.exists(), "a command ran without a record");
        test_env.ok(&["recover"]);
        let running = test_env.json(&["ps"]);
        assert_eq!(running.as_array().map(Vec::len), Some(1), "only the bystander runs: {running}");
    }
    fixture.bystanders.require_untouched(test_env);
}

/// Whole sessions from start to end, including supervisor and command; the first of these processes that
/// reaches the call is killed there.
fn attack_short_sessions(trials: &mut Trials, store: &'static str) {
    if trials.has_enough_violations() {
        return;
    }
    let fixture = Fixture::new(store, "exit 7");
    let start = fixture.start();
    let calls = mutating_calls(&trace_family(&fixture.test_env, Family::All, &start));
    trials.announce("kills", calls.len());
    for call in trials.some_of(&calls, 6) {
        trials.trial(&format!("a session on {store}, killed at {} number {}", call.name, call.nth), || {
            let trial = fixture.begin(&format!("whole-{}-{}", call.name, call.nth));
            let before = fixture.test_env.json(&["ps", "-a"]).as_array().unwrap().len();
            let killed = kill_family_at(&fixture.test_env, Family::All, &call, &start, &trial);
            require_accounted_for(&fixture, &trial, before);
            u64::from(killed)
        });
    }
}

/// Requires that nothing is left of the session, and that, if its command ever ran, exactly one record
/// exists, with the correct exit code or with none.
fn require_accounted_for(fixture: &Fixture, trial: &str, before: usize) {
    let trial = format!("SEXTON_TEST_TRIAL={trial}");
    fixture.test_env.ok(&["recover"]);
    eventually("its processes are gone", || processes_with(&trial).is_empty());
    fixture.test_env.ok(&["recover"]);
    let records = fixture.test_env.json(&["ps", "-a"]);
    let added = records.as_array().unwrap().len() - before;
    assert!(added <= 1, "one session, and {added} records of it");
    assert!(added == 1 || !fixture.marker.exists(), "a command ran without a record");
    if added == 1 {
        let record = fixture.newest();
        assert!(!record["finished_at"].is_null(), "its end is not recorded: {record}");
        let code = &record["exit"]["code"];
        assert!(code.is_null() || *code == 7, "the recorded exit is wrong: {record}");
    }
    fixture.bystanders.require_untouched(&fixture.test_env);
}

fn attack_stops(trials: &mut Trials, store: &'static str) {
    if trials.has_enough_violations() {
        return;
    }
    let test_env = TestEnv::on(store).with_settings(SETTINGS);
    let bystanders = Bystanders::plant(&test_env);
    let id = start_stubborn(&test_env);
    let calls = mutating_calls(&trace_family(&test_env, Family::All, &["stop", &id]));
    trials.announce("kills", calls.len());
    for call in trials.some_of(&calls, 8) {
        let Call { name, nth } = &call;
        trials.trial(&format!("stop on {store}, killed at {name} number {nth}"), || {
            let id = start_stubborn(&test_env);
            let kill = || u64::from(kill_family_at(&test_env, Family::All, &call, &["stop", &id], ""));
            let killed = kill() + kill();
            test_env.ok(&["stop", &id]);
            require_stopped(&test_env, &id);
            bystanders.require_untouched(&test_env);
            killed
        });
    }
    let id = start_stubborn(&test_env);
    let faults = faults_in(&every_line(&test_env, Family::All, &["stop", &id]));
    trials.announce("errors", faults.len());
    for fault in choose(trials, &faults, 6, 8) {
        let Fault { call, error, .. } = &fault;
        trials.trial(&format!("stop on {store}, {error} from {} number {}", call.name, call.nth), || {
            let id = start_stubborn(&test_env);
            let disturbed = fail_at(&test_env, Family::All, call, error, &["stop", &id], "");
            require_orderly(&fault, &disturbed);
            if disturbed.ran.code == 0 {
                require_stopped(&test_env, &id);
            }
            test_env.ok(&["stop", &id]);
            require_stopped(&test_env, &id);
            bystanders.require_untouched(&test_env);
            u64::from(!disturbed.struck.is_empty())
        });
    }
}

fn require_stopped(test_env: &TestEnv, id: &str) {
    let record = test_env.record(id);
    assert_eq!(record["status"], "stopped", "{record}");
    assert_eq!(carriers(id), [0; 0], "processes of the session are left");
}

/// Starts a session with a child that has to be killed.
fn start_stubborn(test_env: &TestEnv) -> String {
    let ready: &Path = &test_env.path().join("ready");
    let _ = std::fs::remove_file(ready);
    let script =
        format!("(trap '' INT TERM; touch {}; while :; do sleep 1; done) & exec sleep 600", ready.display());
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", &script]);
    eventually("it is ready", || ready.exists());
    id
}
