//! A state directory that release 0.1.0 left when it was killed: ended sessions, two running sessions, and an exit
//! that is still in an exit file. The tests read and recover it with this release.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use support::records::edit_record;
use support::releases::Release;
use support::{Bystander, TestEnv, stores};

/// Includes a file of the fixture, by its path below the fixture's directory.
macro_rules! fixture {
    ($path:literal) => {
        include_bytes!(concat!("fixtures/release-0.1.0/", $path)).as_slice()
    };
}

/// A file name in the state directory, and its content.
type Fixture = (&'static str, &'static [u8]);

/// The files of each store.
const STORES: [(&str, &[Fixture]); 2] = [
    (
        "sqlite",
        &[
            ("sessions.db", fixture!("sqlite/sessions.db")),
            ("sessions.db-wal", fixture!("sqlite/sessions.db-wal")),
            ("sessions.db.mark", fixture!("sqlite/sessions.db.mark")),
        ],
    ),
    (
        "json",
        &[
            ("sessions.jsonl", fixture!("json/sessions.jsonl")),
            ("sessions.jsonl.mark", fixture!("json/sessions.jsonl.mark")),
        ],
    ),
];

/// The exit file of each store, and the mark of one session directory.
const BESIDE: [(&str, [&[u8]; 2]); 2] = [
    ("sqlite", [fixture!("sqlite/exit.json"), fixture!("sqlite/session-mark.json")]),
    ("json", [fixture!("json/exit.json"), fixture!("json/session-mark.json")]),
];

/// Every session, and its status.
const SESSIONS: [(&str, &str); 7] = [
    ("done", "completed"),
    ("failed", "failed"),
    ("timed", "timed_out"),
    ("stopped", "stopped"),
    ("crashed", "running"),
    ("registered", "running"),
    // The store has the status `running`; the exit file has the exit.
    ("waiting", "failed"),
];

fn write(path: &Path, bytes: &[u8]) {
    let directory = path.parent().unwrap();
    std::fs::create_dir_all(directory).unwrap();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Creates the state directory as 0.1.0 left it.
fn left_behind(store: &'static str) -> TestEnv {
    let test_env = TestEnv::on(store).with_settings("store.durability = \"process\"\n");
    let state = test_env.state_dir();
    for (name, bytes) in STORES.iter().find(|(name, _)| *name == store).unwrap().1 {
        write(&state.join(name), bytes);
    }
    let [exit, mark] = BESIDE.iter().find(|(name, _)| *name == store).unwrap().1;
    let session = |document: &[u8]| {
        let document: Value = serde_json::from_slice(document).unwrap();
        document["session"].as_str().unwrap().to_owned()
    };
    write(&state.join("exits").join(format!("{}.json", session(exit))), exit);
    write(&state.join("sessions").join(session(mark)).join("mark.json"), mark);
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    test_env
}

fn by_name(test_env: &TestEnv, release: &Release) -> BTreeMap<String, Value> {
    let listed = release.json(test_env, &["ps", "-a"]);
    let records = listed.as_array().unwrap().iter();
    records.map(|record| (record["name"].as_str().unwrap_or_default().to_owned(), record.clone())).collect()
}

/// Changes the sessions to ones of this host, from before its last reboot.
fn move_to_this_host(test_env: &TestEnv) {
    let mut process = Bystander::start();
    let here = test_env.ok(&["register", "--pid", &process.pid(), "--name", "here"]);
    let host = test_env.record(&here)["host"].clone();
    process.end();
    test_env.ok(&["finish", &here, "--code", "0"]);
    set_boot(test_env, "of-another-boot");
    for record in by_name(test_env, &Release::this()).values() {
        edit_record(test_env, record["id"].as_str().unwrap(), |session| {
            session.host = serde_json::from_value(host.clone()).unwrap();
        });
    }
}

/// Sets the boot id in every record. The same boot id would mean the same machine.
fn set_boot(test_env: &TestEnv, boot: &str) {
    for record in by_name(test_env, &Release::this()).values() {
        edit_record(test_env, record["id"].as_str().unwrap(), |session| {
            for identity in [&mut session.process, &mut session.supervisor].into_iter().flatten() {
                identity.boot_id = identity.boot_id.as_ref().map(|_| boot.to_owned());
            }
        });
    }
}

#[test]
fn i6_reading_the_previous_releases_store_shows_every_record_and_changes_nothing() {
    for store in stores() {
        let test_env = left_behind(store);
        let files = || {
            let read = |(name, _): &(&str, &[u8])| std::fs::read(test_env.state_dir().join(name)).unwrap();
            let own = STORES.iter().find(|(name, _)| *name == store).unwrap().1;
            own.iter().map(read).collect::<Vec<_>>()
        };
        let before = files();
        let records = by_name(&test_env, &Release::this());
        assert_eq!(records.len(), SESSIONS.len(), "{store}");
        for (name, status) in SESSIONS {
            assert_eq!(records[name]["status"], status, "{store}: {name}");
            assert_eq!(records[name]["release"], Value::Null, "{store}: {name}");
        }
        assert_eq!(records["done"]["tags"], json!({"colour": "red"}), "{store}");
        assert_eq!(records["done"]["agent"]["session_id"], "0198", "{store}");
        assert_eq!(records["crashed"]["loop"]["phase"], "executing", "{store}");
        assert_eq!(records["waiting"]["exit"]["code"], 41, "{store}");
        assert_eq!(files(), before, "{store}");
    }
}

#[test]
fn i7_i8_recovery_handles_the_previous_releases_sessions_and_records_the_pending_exit_once() {
    for store in stores() {
        let (test_env, this, next) = (left_behind(store), Release::this(), Release::next());
        move_to_this_host(&test_env);
        this.ok(&test_env, &["recover", "--ttl", "365000d"]);
        let records = by_name(&test_env, &this);
        for (name, status) in SESSIONS {
            let status = if status == "running" { "orphaned" } else { status };
            assert_eq!(records[name]["status"], status, "{store}: {name}: {}", records[name]);
        }
        assert_eq!(records["waiting"]["exit"]["code"], 41, "{store}");
        let exits = std::fs::read_dir(test_env.state_dir().join("exits")).into_iter().flatten().count();
        assert_eq!(exits, 0, "{store}: the exit file is left");
        this.ok(&test_env, &["recover", "--ttl", "365000d"]);
        assert_eq!(by_name(&test_env, &this), records, "{store}: the second recovery changed something");
        // No supervisor of 0.1.0 is alive, so the next release may raise the format.
        let raised = next.json(&test_env, &["recover", "--ttl", "365000d"])["format"]["outcome"].clone();
        assert_eq!(raised, "raised", "{store}");
        assert_eq!(by_name(&test_env, &next), records, "{store}: the raise changed a record");
        assert_eq!(next.json(&test_env, &["doctor"])["healthy"], true, "{store}");
    }
}

#[test]
fn i12_i6_sessions_of_another_host_stay_running_and_block_raising_the_format() {
    for store in stores() {
        let (test_env, next) = (left_behind(store), Release::next());
        set_boot(&test_env, "of-another-machine");
        let report = next.json(&test_env, &["recover", "--ttl", "365000d"]);
        assert_eq!(report["format"]["outcome"], "waits", "{store}: {report}");
        assert_eq!(by_name(&test_env, &next)["crashed"]["status"], "running", "{store}");
        assert_eq!(
            next.json(&test_env, &["ps", "--status", "running"]).as_array().unwrap().len(),
            2,
            "{store}"
        );
    }
}
