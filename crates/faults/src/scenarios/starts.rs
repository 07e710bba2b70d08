//! `run` and `stop` killed at every change: a command that ran is recorded, one that is not recorded never
//! ran, and a stop that was cut off is finished by the next one.

use std::path::Path;

use serde_json::Value;
use sexton_field::strace::{Call, kill_alone_at, kill_at, mutating_calls, trace, trace_alone};
use sexton_field::{Yard, eventually, processes_with};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "starts",
    promises: "I1 I8 I10",
    what: "SIGKILL at every change of a start and of a stop",
    mutants: &["gate_before_record"],
    tools: &[("strace", "strace"), ("taskset", "util-linux")],
    run,
};

const SETTINGS: &str = "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"200ms\"\n";

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        attack_starts(trials, store);
        attack_stops(trials, store);
    }
}

fn attack_starts(trials: &mut Trials, store: &'static str) {
    let yard = Yard::on(store).with_settings(SETTINGS);
    let bystanders = Bystanders::plant(&yard);
    let marker = yard.path().join("ran");
    let script = format!("touch {}; exec sleep 600", marker.display());
    let start = ["run", "-d", "--", "sh", "-c", &script];
    let calls = mutating_calls(&trace_alone(&yard, &start));
    yard.ok(&["stop", "--force", yard.json(&["ps", "--limit", "1"])[0]["id"].as_str().unwrap()]);
    for call in trials.some_of(&calls, 12) {
        if trials.is_hopeless() {
            return;
        }
        trials.trial(&format!("run on {store}, {} number {}", call.name, call.nth), || {
            let _ = std::fs::remove_file(&marker);
            let trial = format!("{}-{}-{}", yard.path().display(), call.name, call.nth);
            let killed = kill_alone_at(&yard, &call, &start, &trial);
            require_whole_or_nothing(&yard, &format!("SEXTON_TEST_TRIAL={trial}"), &marker);
            bystanders.require_untouched(&yard);
            u64::from(killed)
        });
    }
}

/// Either the session is whole, and is ended here, or nothing of it ever ran and nothing is left of it.
fn require_whole_or_nothing(yard: &Yard, trial: &str, marker: &Path) {
    let mut newest = Value::Null;
    // A command that still waits at its gate is alive too; its record goes when its shim has noticed.
    let is_whole = |record: &Value| {
        let runs = record["status"] == "running" && record["observed"] == "alive";
        runs && record["name"] != "bystander" && marker.exists()
    };
    eventually("the start came to an end, one way or the other", || {
        newest = yard.json(&["ps", "-a", "--limit", "1"])[0].clone();
        is_whole(&newest) || processes_with(trial).is_empty()
    });
    if is_whole(&newest) {
        yard.ok(&["stop", "--force", newest["id"].as_str().unwrap()]);
        eventually("its processes are gone", || processes_with(trial).is_empty());
        return;
    }
    assert!(!marker.exists(), "a command ran that no record tells of");
    yard.ok(&["recover"]);
    let running = yard.json(&["ps"]);
    assert_eq!(running.as_array().map(Vec::len), Some(1), "only the bystander runs: {running}");
}

fn attack_stops(trials: &mut Trials, store: &'static str) {
    let yard = Yard::on(store).with_settings(SETTINGS);
    let bystanders = Bystanders::plant(&yard);
    let id = start_stubborn(&yard);
    let calls = mutating_calls(&trace(&yard, &["stop", &id]));
    let calls: Vec<Call> = trials.some_of(&calls, 12);
    for call in calls {
        if trials.is_hopeless() {
            return;
        }
        trials.trial(&format!("stop on {store}, {} number {}", call.name, call.nth), || {
            let id = start_stubborn(&yard);
            let killed = kill_at(&yard, &call, &["stop", &id]);
            yard.ok(&["stop", &id]);
            let record = yard.record(&id);
            assert_eq!(record["status"], "stopped", "{record}");
            assert_eq!(sexton_field::carriers(&id), [0; 0], "processes of the session are left");
            bystanders.require_untouched(&yard);
            u64::from(killed)
        });
    }
}

/// A session with a child that has to be killed.
fn start_stubborn(yard: &Yard) -> String {
    let script = "(trap '' INT TERM; echo ready; while :; do sleep 1; done) & exec sleep 600";
    let id = yard.ok(&["run", "-d", "--", "sh", "-c", script]);
    eventually("it is ready", || yard.ok(&["logs", &id]).contains("ready"));
    id
}
