//! `run` and `stop` cut off at every change and with every call failing: a command that ran is recorded, one
//! that is not recorded never ran, and a stop that was cut off is finished by the next one.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sexton_field::strace::{Call, Family, every_line, fail_at, kill_family_at, mutating_calls, trace_family};
use sexton_field::{Yard, carriers, eventually, processes_with};

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

/// A yard in which sessions are started, and what tells whether their command ever ran.
struct Course {
    yard: Yard,
    bystanders: Bystanders,
    marker: PathBuf,
    script: String,
}

impl Course {
    /// Where every command does this after it has left its mark.
    fn set(store: &'static str, then: &str) -> Course {
        let yard = Yard::on(store).with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&yard);
        let marker = yard.path().join("ran");
        let script = format!("touch {}; {then}", marker.display());
        Course { yard, bystanders, marker, script }
    }

    fn start(&self) -> [&str; 6] {
        ["run", "-d", "--", "sh", "-c", &self.script]
    }

    /// Forgets the last trial, and names this one.
    fn begin(&self, what: &str) -> String {
        let _ = std::fs::remove_file(&self.marker);
        format!("{}-{what}", self.yard.path().display())
    }

    fn newest(&self) -> Value {
        self.yard.json(&["ps", "-a", "--limit", "1"])[0].clone()
    }
}

fn attack_starts(trials: &mut Trials, store: &'static str) {
    if trials.is_hopeless() {
        return;
    }
    let course = Course::set(store, "exec sleep 600");
    let start = course.start();
    let end = || {
        let newest = course.newest()["id"].as_str().unwrap().to_owned();
        course.yard.ok(&["stop", "--force", &newest]);
    };
    let calls = mutating_calls(&trace_family(&course.yard, Family::Threads, &start));
    end();
    trials.announce("kills", calls.len());
    for call in trials.some_of(&calls, 8) {
        trials.trial(&format!("run on {store}, killed at {} number {}", call.name, call.nth), || {
            let trial = course.begin(&format!("{}-{}", call.name, call.nth));
            let killed = kill_family_at(&course.yard, Family::Threads, &call, &start, &trial);
            require_whole_or_nothing(&course, &trial);
            u64::from(killed)
        });
    }
    let faults = faults_in(&every_line(&course.yard, Family::Threads, &start));
    end();
    trials.announce("errors", faults.len());
    for fault in choose(trials, &faults, 8, 8) {
        let Fault { call, error, .. } = &fault;
        trials.trial(&format!("run on {store}, {error} from {} number {}", call.name, call.nth), || {
            let trial = course.begin(&format!("{error}-{}-{}", call.name, call.nth));
            let disturbed = fail_at(&course.yard, Family::Threads, call, error, &start, &trial);
            require_orderly(&fault, &disturbed);
            if disturbed.ran.code == 0 {
                eventually("what was said to run has run", || course.marker.exists());
                let id = disturbed.ran.stdout.trim();
                assert_eq!(
                    course.yard.record(id)["status"],
                    "running",
                    "what was said to run is not recorded"
                );
            }
            require_whole_or_nothing(&course, &trial);
            u64::from(!disturbed.struck.is_empty())
        });
    }
}

/// Either the session is whole, and is ended here, or nothing of it ever ran and nothing is left of it.
fn require_whole_or_nothing(course: &Course, trial: &str) {
    let (yard, trial) = (&course.yard, format!("SEXTON_TEST_TRIAL={trial}"));
    let mut newest = Value::Null;
    // A command that still waits at its gate is alive too; its record goes when its shim has noticed.
    let is_whole = |record: &Value| {
        let runs = record["status"] == "running" && record["observed"] == "alive";
        runs && record["name"] != "bystander" && course.marker.exists()
    };
    eventually("the start came to an end, one way or the other", || {
        newest = course.newest();
        is_whole(&newest) || processes_with(&trial).is_empty()
    });
    if is_whole(&newest) {
        yard.ok(&["stop", "--force", newest["id"].as_str().unwrap()]);
        eventually("its processes are gone", || processes_with(&trial).is_empty());
    } else {
        assert!(!course.marker.exists(), "a command ran that no record tells of");
        yard.ok(&["recover"]);
        let running = yard.json(&["ps"]);
        assert_eq!(running.as_array().map(Vec::len), Some(1), "only the bystander runs: {running}");
    }
    course.bystanders.require_untouched(yard);
}

/// Whole sessions from their start to their end, supervisor, command and all, and whoever of them comes to the
/// call first is killed there.
fn attack_short_sessions(trials: &mut Trials, store: &'static str) {
    if trials.is_hopeless() {
        return;
    }
    let course = Course::set(store, "exit 7");
    let start = course.start();
    let calls = mutating_calls(&trace_family(&course.yard, Family::All, &start));
    trials.announce("kills", calls.len());
    for call in trials.some_of(&calls, 6) {
        trials.trial(&format!("a session on {store}, killed at {} number {}", call.name, call.nth), || {
            let trial = course.begin(&format!("whole-{}-{}", call.name, call.nth));
            let before = course.yard.json(&["ps", "-a"]).as_array().unwrap().len();
            let killed = kill_family_at(&course.yard, Family::All, &call, &start, &trial);
            require_accounted_for(&course, &trial, before);
            u64::from(killed)
        });
    }
}

/// Nothing is left of the session, and if its command ever ran, exactly one record tells of it, with the exit
/// code that it had or with none.
fn require_accounted_for(course: &Course, trial: &str, before: usize) {
    let trial = format!("SEXTON_TEST_TRIAL={trial}");
    course.yard.ok(&["recover"]);
    eventually("its processes are gone", || processes_with(&trial).is_empty());
    course.yard.ok(&["recover"]);
    let records = course.yard.json(&["ps", "-a"]);
    let added = records.as_array().unwrap().len() - before;
    assert!(added <= 1, "one session, and {added} records of it");
    assert!(added == 1 || !course.marker.exists(), "a command ran that no record tells of");
    if added == 1 {
        let record = course.newest();
        assert!(!record["finished_at"].is_null(), "its end is not recorded: {record}");
        let code = &record["exit"]["code"];
        assert!(code.is_null() || *code == 7, "an exit was made up: {record}");
    }
    course.bystanders.require_untouched(&course.yard);
}

fn attack_stops(trials: &mut Trials, store: &'static str) {
    if trials.is_hopeless() {
        return;
    }
    let yard = Yard::on(store).with_settings(SETTINGS);
    let bystanders = Bystanders::plant(&yard);
    let id = start_stubborn(&yard);
    let calls = mutating_calls(&trace_family(&yard, Family::All, &["stop", &id]));
    trials.announce("kills", calls.len());
    for call in trials.some_of(&calls, 8) {
        let Call { name, nth } = &call;
        trials.trial(&format!("stop on {store}, killed at {name} number {nth}"), || {
            let id = start_stubborn(&yard);
            let kill = || u64::from(kill_family_at(&yard, Family::All, &call, &["stop", &id], ""));
            let killed = kill() + kill();
            yard.ok(&["stop", &id]);
            require_stopped(&yard, &id);
            bystanders.require_untouched(&yard);
            killed
        });
    }
    let id = start_stubborn(&yard);
    let faults = faults_in(&every_line(&yard, Family::All, &["stop", &id]));
    trials.announce("errors", faults.len());
    for fault in choose(trials, &faults, 6, 8) {
        let Fault { call, error, .. } = &fault;
        trials.trial(&format!("stop on {store}, {error} from {} number {}", call.name, call.nth), || {
            let id = start_stubborn(&yard);
            let disturbed = fail_at(&yard, Family::All, call, error, &["stop", &id], "");
            require_orderly(&fault, &disturbed);
            if disturbed.ran.code == 0 {
                require_stopped(&yard, &id);
            }
            yard.ok(&["stop", &id]);
            require_stopped(&yard, &id);
            bystanders.require_untouched(&yard);
            u64::from(!disturbed.struck.is_empty())
        });
    }
}

fn require_stopped(yard: &Yard, id: &str) {
    let record = yard.record(id);
    assert_eq!(record["status"], "stopped", "{record}");
    assert_eq!(carriers(id), [0; 0], "processes of the session are left");
}

/// A session with a child that has to be killed.
fn start_stubborn(yard: &Yard) -> String {
    let ready: &Path = &yard.path().join("ready");
    let _ = std::fs::remove_file(ready);
    let script =
        format!("(trap '' INT TERM; touch {}; while :; do sleep 1; done) & exec sleep 600", ready.display());
    let id = yard.ok(&["run", "-d", "--", "sh", "-c", &script]);
    eventually("it is ready", || ready.exists());
    id
}
