//! Migration of records between stores, and the report about what a store cannot hold.

#![cfg(all(feature = "store-tf", feature = "store-sqlite", feature = "store-json"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use serde_json::{Value, json};
use support::project::Project;
use support::{Bystander, TestEnv};

const RECORDS: usize = 10_000;

/// Returns an entry with every field of the format, and fields that only its own tool knows.
fn entry(number: usize) -> Value {
    let status = ["completed", "failed", "orphaned", "running"][number % 4];
    let finished = status != "running";
    let time = |seconds: usize| {
        format!("2026-01-{:02}T{:02}:00:{:02}.{:06}+00:00", 1 + number % 28, number % 24, seconds, number)
    };
    json!({
        "session_id": format!("dispatch-{number:05}"),
        "ticket_id": (!number.is_multiple_of(7)).then(|| format!("T-{}", number % 100)),
        "pid": 4_000_000 + number,
        "process_start_time": (!number.is_multiple_of(3)).then_some(number * 7),
        "started_at": time(1),
        "worktree_path": number.is_multiple_of(2).then(|| format!("/elsewhere/T-{number}")),
        "status": status,
        "completed_at": finished.then(|| time(59)),
        "return_code": finished.then_some([0, 1, -9, 127][number % 4]),
        "attempt": number,
        "name": "a field of the other tool whose name Sexton uses too",
        "deep": {"z": [number, null, {"a": 1.5}], "ü": "x\ny"},
    })
}

fn migrate(test_env: &TestEnv, from: &str, to: &str) -> Value {
    test_env.json(&["migrate", "--from", from, "--to", to])
}

#[test]
fn ten_thousand_records_survive_a_migration_through_all_stores() {
    let project = Project::new();
    let test_env = &project.test_env;
    let entries: Vec<Value> = (0..RECORDS).map(entry).collect();
    let document = json!({"version": 1, "sessions": entries, "last_updated": "2026-02-01T00:00:00+00:00"});
    std::fs::write(project.file(), document.to_string()).unwrap();
    let (sqlite, journal) = (test_env.path().join("copy.db"), test_env.path().join("copy.jsonl"));
    let back = project.file().with_file_name("back.json");
    let legs = [
        (project.url(), format!("sqlite:{}", sqlite.display())),
        (format!("sqlite:{}", sqlite.display()), format!("json:{}", journal.display())),
        (format!("json:{}", journal.display()), format!("sqlite:{}.db", sqlite.display())),
        (format!("sqlite:{}.db", sqlite.display()), format!("tf:{}", back.display())),
    ];
    for (from, to) in &legs {
        let report = migrate(test_env, from, to);
        assert_eq!(report["added"], RECORDS, "{from} to {to}: {report}");
        assert_eq!((&report["lost"], &report["refused"]), (&json!({}), &json!([])), "{from} to {to}");
        let again = migrate(test_env, from, to);
        assert_eq!((&again["added"], &again["unchanged"]), (&json!(0), &json!(RECORDS)), "{from} to {to}");
    }
    let text = std::fs::read_to_string(back).unwrap();
    let returned: Value = serde_json::from_str(&text).unwrap();
    let mut returned = returned["sessions"].as_array().unwrap().clone();
    returned.sort_by_key(|entry| entry["session_id"].as_str().unwrap().to_owned());
    for (returned, entry) in returned.iter().zip(&entries) {
        assert_eq!(returned, entry);
    }
    assert_eq!(returned.len(), RECORDS);
}

#[test]
fn fields_that_a_store_cannot_hold_are_reported_and_the_rest_is_migrated() {
    let project = Project::new();
    let test_env = &project.test_env;
    for name in ["one", "two", "three", "four"] {
        let mut agent = Bystander::start();
        test_env.ok(&["register", "--pid", &agent.pid(), "--name", name, "--ticket", "T-1", "--tag", "k=v"]);
        agent.end();
        test_env.ok(&["finish", name, "--code", "3"]);
    }
    let running = Bystander::start();
    let running = test_env.ok(&["register", "--pid", &running.pid(), "--name", "running"]);
    let url = project.url();
    let ran = test_env.sexton(&["migrate", "--from", &test_env.store_url(), "--to", &url, "--json"]);
    assert_eq!(ran.code, 3, "one record cannot be migrated: {}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["added"], 4, "{report}");
    for field in ["name", "tags", "host.machine_id"] {
        let lost = &report["lost"][field];
        assert_eq!(lost["records"], 4, "{field}: {report}");
        assert_eq!(lost["examples"].as_array().unwrap().len(), 3, "{field}: {report}");
    }
    for kept in ["ticket", "exit.code", "process.pid"] {
        assert!(report["lost"].get(kept).is_none(), "{kept}: {report}");
    }
    let refused = report["refused"][0].as_str().unwrap();
    assert!(refused.starts_with(&running) && refused.contains("a tf store cannot keep"), "{refused}");
    assert!(ran.stderr.contains("`name` was not copied for 4 records ("), "{}", ran.stderr);
    let document = project.document();
    let entries = document["sessions"].as_array().unwrap();
    let expected = |entry: &Value| {
        (entry["status"] == "failed") && (entry["return_code"] == 3) && (entry["ticket_id"] == "T-1")
    };
    assert!(entries.len() == 4 && entries.iter().all(expected), "{document}");
    let text = std::fs::read(project.file()).unwrap();
    let again = test_env.sexton(&["migrate", "--from", &test_env.store_url(), "--to", &url, "--json"]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&again["added"], &again["unchanged"]), (&json!(0), &json!(4)), "{again}");
    assert_eq!(again["lost"], report["lost"], "lost fields must be reported every time");
    assert_eq!(std::fs::read(project.file()).unwrap(), text, "the second migration changed something");
}
