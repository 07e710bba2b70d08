//! Operations on records only.

use std::collections::BTreeSet;

use pollster::block_on;
use serde_json::{Value, json};
use sexton_core::session::{Agent, Exit, LoopState};
use sexton_core::store::Access;
use sexton_core::{Host, Query, Session, SessionId, Status, Time};
use sexton_test_harness::TestEnv;
use sexton_test_harness::records::insert_records;

use super::words;
use crate::scenarios::ledger::open;

/// How many records there are at the start, besides the bystander's.
const ROWS: usize = 40;

/// Returns the records, without what differs from run to run.
pub(super) fn records(test_env: &TestEnv) -> Value {
    let mut records = test_env.json(&["ps", "-a"]);
    for record in records.as_array_mut().unwrap() {
        let record = record.as_object_mut().unwrap();
        record.remove("revision");
        record.remove("finished_at");
        record.remove("observed");
        if let Some(recovery) = record["recovery"].as_object_mut() {
            // Pids are reused: then the same death has another cause and other evidence.
            recovery.remove("cause");
            recovery.remove("evidence");
        }
    }
    records
}

/// Returns the tickets of these records, which identify the records of an operation.
fn tickets(records: &Value) -> BTreeSet<String> {
    let records = records.as_array().unwrap().iter();
    records.filter_map(|record| Some(record["ticket"].as_str()?.to_owned())).collect()
}

/// Returns the tickets of the first `count` records.
fn first(count: usize) -> BTreeSet<String> {
    (0..count).map(|number| format!("T-{number}")).collect()
}

/// Returns a session that ended long ago.
pub(crate) fn finished(number: usize) -> Session {
    let created: Time = format!("2020-01-02T03:{:02}:{:02}Z", number / 60, number % 60).parse().unwrap();
    let host = Host::new("m", "h");
    let mut session = Session::new(SessionId::random(), host, created);
    session.ticket = Some(format!("T-{number}"));
    session.status = Status::Running;
    session.finish(Exit::exited(0), created);
    session
}

/// Inserts finished records of this host: retention leaves those of another alone.
fn insert_finished(test_env: &TestEnv) {
    let host: Host = serde_json::from_value(test_env.record("bystander")["host"].clone()).unwrap();
    let own = |number| Session { host: host.clone(), ..finished(number) };
    insert_records(test_env, (0..ROWS).map(own).collect());
}

pub(super) fn prepare_prune(test_env: &TestEnv) -> Vec<String> {
    insert_finished(test_env);
    words(&["prune", "--ttl", "1d", "--keep", "1000"])
}

/// Only the record of the bystander, which runs, is left.
pub(super) fn outcome_of_prune(test_env: &TestEnv) -> Value {
    let records = records(test_env);
    assert_eq!(records.as_array().map(Vec::len), Some(1), "only the bystander has a record: {records}");
    records
}

/// Two sessions of one agent: the earlier one has ended and drove a loop, the later one takes it over.
pub(super) fn prepare_resume(test_env: &TestEnv) -> Vec<String> {
    let agent = Agent { session_id: Some("conversation".to_owned()), ..Agent::default() };
    let mut earlier = finished(0);
    earlier.id = "earlier000000000".parse().unwrap();
    earlier.agent = Some(agent);
    earlier.loop_state = Some(LoopState {
        active: true,
        phase: Some("executing".to_owned()),
        iteration: Some(3),
        updated_at: Some(Time::from(jiff::Timestamp::now())),
        ..LoopState::default()
    });
    let mut later = finished(1);
    later.id = "later00000000000".parse().unwrap();
    later.agent = None;
    insert_records(test_env, vec![earlier, later]);
    words(&["resume", "--agent-session", "conversation", "--session", "later00000000000"])
}

/// One loop, driven by the later session, at the iteration where the earlier one left it.
pub(super) fn outcome_of_resume(test_env: &TestEnv) -> Value {
    let loop_of = |id: &str| test_env.record(id)["loop"].clone();
    let (earlier, later) = (loop_of("earlier000000000"), loop_of("later00000000000"));
    assert_eq!([&earlier["active"], &later["active"]], [false, true], "one session drives the loop");
    assert_eq!(later["iteration"], 3, "the loop is where it was");
    let records = test_env.json(&["ps", "-a"]);
    let of = |record: &Value| json!([record["id"], record["loop"]["active"], record["loop"]["iteration"]]);
    records.as_array().unwrap().iter().map(of).collect()
}

pub(super) fn prepare_migrate(test_env: &TestEnv) -> Vec<String> {
    insert_finished(test_env);
    let to = destination(test_env);
    words(&["migrate", "--from", &test_env.store_url(), "--to", &to])
}

fn destination(test_env: &TestEnv) -> String {
    let file = test_env.state_dir().join("destination");
    match test_env.store_url().starts_with("sqlite:") {
        true => format!("json:{}.jsonl", file.display()),
        false => format!("sqlite:{}.db", file.display()),
    }
}

/// Both stores have the same records.
pub(super) fn outcome_of_migrate(test_env: &TestEnv) -> Value {
    let plain = |mut records: Value| {
        for record in records.as_array_mut().unwrap() {
            record.as_object_mut().unwrap().remove("revision");
            record.as_object_mut().unwrap().remove("observed");
        }
        records
    };
    let from = plain(test_env.json(&["ps", "-a"]));
    let to = plain(test_env.json(&["--store", &destination(test_env), "ps", "-a"]));
    assert_eq!(tickets(&from), first(ROWS), "a record is lost");
    assert_eq!(from, to, "the copy is not the original");
    from
}

/// Fills a journal so that the next commit compacts it.
pub(super) fn prepare_compaction(test_env: &TestEnv) -> Vec<String> {
    insert_finished(test_env);
    let id = test_env.json(&["ps", "-a", "--limit", "1"])[0]["id"].as_str().unwrap().to_owned();
    // Up to just below the size at which a journal is compacted; pruning all records exceeds it.
    const LIMIT: u64 = 1 << 20;
    const LITTLE: u64 = 2_000;
    loop {
        let space = LIMIT.saturating_sub(std::fs::metadata(test_env.store_path()).unwrap().len());
        if space <= 2 * LITTLE {
            break;
        }
        let padding = "x".repeat(usize::try_from((space - LITTLE).min(20_000)).unwrap() - 1_000);
        sexton_test_harness::records::edit_record(test_env, &id, |session| {
            session.tags.insert("padding".to_owned(), padding.clone());
        });
    }
    words(&["prune", "--ttl", "1d", "--keep", "1000"])
}

/// Requires that the journal was compacted. If a run is killed before that, the next commit compacts it.
pub(super) fn require_compacted(test_env: &TestEnv) {
    let bytes = std::fs::metadata(test_env.store_path()).unwrap().len();
    assert!(bytes < 1 << 19, "the journal was not compacted: {bytes} bytes");
}

pub(super) fn prepare_backup(test_env: &TestEnv) -> Vec<String> {
    insert_finished(test_env);
    words(&["backup"])
}

/// Every listed backup holds all records.
pub(super) fn outcome_of_backup(test_env: &TestEnv) -> Value {
    let records = records(test_env);
    assert_eq!(tickets(&records), first(ROWS), "a record is lost");
    let backups = test_env.json(&["backup", "--list"]);
    let backups = backups.as_array().unwrap();
    assert!(!backups.is_empty(), "there is no backup");
    for backup in backups {
        let (scheme, _) = test_env
            .store_url()
            .split_once(':')
            .map(|(scheme, path)| (scheme.to_owned(), path.to_owned()))
            .unwrap();
        let copy = test_env.path().join("copy-of-a-backup");
        std::fs::copy(backup["backup"].as_str().unwrap(), &copy).unwrap();
        let store = open(&format!("{scheme}:{}", copy.display()), Access::Read).unwrap();
        let listing = block_on(store.list(&Query::all())).unwrap();
        assert_eq!(listing.sessions.len(), ROWS + 1, "a backup does not hold everything: {backup}");
        assert!(listing.damage.is_empty(), "{:?}", listing.damage);
        std::fs::remove_file(copy).unwrap();
    }
    records
}

pub(super) fn prepare_restore(test_env: &TestEnv) -> Vec<String> {
    insert_finished(test_env);
    let backup = test_env.json(&["backup"])["backup"].as_str().unwrap().to_owned();
    test_env.ok(&["prune", "--ttl", "1d", "--keep", "10"]);
    assert!(tickets(&test_env.json(&["ps", "-a"])).is_empty());
    words(&["restore", &backup])
}

/// All records are restored.
pub(super) fn outcome_of_restore(test_env: &TestEnv) -> Value {
    let records = records(test_env);
    assert_eq!(tickets(&records), first(ROWS), "a record was not restored");
    records
}
