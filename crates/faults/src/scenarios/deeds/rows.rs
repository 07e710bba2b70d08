//! Deeds that are about records alone.

use std::collections::BTreeSet;

use pollster::block_on;
use serde_json::{Value, json};
use sexton_core::session::{Agent, Exit, LoopState};
use sexton_core::store::Access;
use sexton_core::{Host, Query, Session, SessionId, Status, Time};
use sexton_field::Yard;
use sexton_field::records::insert_records;

use super::words;
use crate::scenarios::ledger::open;

/// How many records there are to begin with, besides that of the bystander.
const ROWS: usize = 40;

/// The records, without what differs from run to run.
pub(super) fn records(yard: &Yard) -> Value {
    let mut records = yard.json(&["ps", "-a"]);
    for record in records.as_array_mut().unwrap() {
        let record = record.as_object_mut().unwrap();
        record.remove("revision");
        record.remove("finished_at");
        record.remove("observed");
        if let Some(recovery) = record["recovery"].as_object_mut() {
            // Pids are given out again: then the same death is told in other words.
            recovery.remove("cause");
            recovery.remove("evidence");
        }
    }
    records
}

/// The tickets of these records, by which the records of a deed are known.
fn tickets(records: &Value) -> BTreeSet<String> {
    let records = records.as_array().unwrap().iter();
    records.filter_map(|record| Some(record["ticket"].as_str()?.to_owned())).collect()
}

/// The tickets of the first so many records.
fn first(count: usize) -> BTreeSet<String> {
    (0..count).map(|number| format!("T-{number}")).collect()
}

/// A session that ended long ago.
pub(crate) fn finished(number: usize) -> Session {
    let created: Time = format!("2020-01-02T03:{:02}:{:02}Z", number / 60, number % 60).parse().unwrap();
    let host = Host::new("m", "h");
    let mut session = Session::new(SessionId::random(), host, created);
    session.ticket = Some(format!("T-{number}"));
    session.status = Status::Running;
    session.finish(Exit::exited(0), created);
    session
}

pub(super) fn prepare_prune(yard: &Yard) -> Vec<String> {
    insert_records(yard, (0..ROWS).map(finished).collect());
    words(&["prune", "--ttl", "1d", "--keep", "1000"])
}

/// Nothing is left but the record of the bystander, which runs.
pub(super) fn outcome_of_prune(yard: &Yard) -> Value {
    let records = records(yard);
    assert_eq!(records.as_array().map(Vec::len), Some(1), "only the bystander has a record: {records}");
    records
}

/// Two sessions of one agent: the earlier one is gone and drove a loop, the later one takes it over.
pub(super) fn prepare_resume(yard: &Yard) -> Vec<String> {
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
    insert_records(yard, vec![earlier, later]);
    words(&["resume", "--agent-session", "conversation", "--session", "later00000000000"])
}

/// One loop, driven by the later session, where the earlier one left it.
pub(super) fn outcome_of_resume(yard: &Yard) -> Value {
    let loop_of = |id: &str| yard.record(id)["loop"].clone();
    let (earlier, later) = (loop_of("earlier000000000"), loop_of("later00000000000"));
    assert_eq!([&earlier["active"], &later["active"]], [false, true], "one session drives the loop");
    assert_eq!(later["iteration"], 3, "the loop is where it was");
    let records = yard.json(&["ps", "-a"]);
    let of = |record: &Value| json!([record["id"], record["loop"]["active"], record["loop"]["iteration"]]);
    records.as_array().unwrap().iter().map(of).collect()
}

pub(super) fn prepare_migrate(yard: &Yard) -> Vec<String> {
    insert_records(yard, (0..ROWS).map(finished).collect());
    let to = destination(yard);
    words(&["migrate", "--from", &yard.store_url(), "--to", &to])
}

fn destination(yard: &Yard) -> String {
    let file = yard.state_dir().join("destination");
    match yard.store_url().starts_with("sqlite:") {
        true => format!("json:{}.jsonl", file.display()),
        false => format!("sqlite:{}.db", file.display()),
    }
}

/// Everything is in both, the same.
pub(super) fn outcome_of_migrate(yard: &Yard) -> Value {
    let plain = |mut records: Value| {
        for record in records.as_array_mut().unwrap() {
            record.as_object_mut().unwrap().remove("revision");
            record.as_object_mut().unwrap().remove("observed");
        }
        records
    };
    let from = plain(yard.json(&["ps", "-a"]));
    let to = plain(yard.json(&["--store", &destination(yard), "ps", "-a"]));
    assert_eq!(tickets(&from), first(ROWS), "a record is lost");
    assert_eq!(from, to, "the copy is not the original");
    from
}

/// A journal that the next commit compacts.
pub(super) fn prepare_compaction(yard: &Yard) -> Vec<String> {
    insert_records(yard, (0..ROWS).map(finished).collect());
    let id = yard.json(&["ps", "-a", "--limit", "1"])[0]["id"].as_str().unwrap().to_owned();
    // Up to a little before the size from which a journal is compacted; pruning all records passes it.
    const LIMIT: u64 = 1 << 20;
    const LITTLE: u64 = 2_000;
    loop {
        let room = LIMIT.saturating_sub(std::fs::metadata(yard.store_path()).unwrap().len());
        if room <= 2 * LITTLE {
            break;
        }
        let padding = "x".repeat(usize::try_from((room - LITTLE).min(20_000)).unwrap() - 1_000);
        sexton_field::records::edit_record(yard, &id, |session| {
            session.tags.insert("padding".to_owned(), padding.clone());
        });
    }
    words(&["prune", "--ttl", "1d", "--keep", "1000"])
}

/// The journal's dead weight is gone. One that was killed before that is compacted by the next commit,
/// whenever that comes.
pub(super) fn require_compacted(yard: &Yard) {
    let bytes = std::fs::metadata(yard.store_path()).unwrap().len();
    assert!(bytes < 1 << 19, "the journal was not compacted: {bytes} bytes");
}

pub(super) fn prepare_backup(yard: &Yard) -> Vec<String> {
    insert_records(yard, (0..ROWS).map(finished).collect());
    words(&["backup"])
}

/// Every backup that is listed holds everything.
pub(super) fn outcome_of_backup(yard: &Yard) -> Value {
    let records = records(yard);
    assert_eq!(tickets(&records), first(ROWS), "a record is lost");
    let backups = yard.json(&["backup", "--list"]);
    let backups = backups.as_array().unwrap();
    assert!(!backups.is_empty(), "there is no backup");
    for backup in backups {
        let (scheme, _) = yard
            .store_url()
            .split_once(':')
            .map(|(scheme, path)| (scheme.to_owned(), path.to_owned()))
            .unwrap();
        let copy = yard.path().join("copy-of-a-backup");
        std::fs::copy(backup["backup"].as_str().unwrap(), &copy).unwrap();
        let store = open(&format!("{scheme}:{}", copy.display()), Access::Read).unwrap();
        let listing = block_on(store.list(&Query::all())).unwrap();
        assert_eq!(listing.sessions.len(), ROWS + 1, "a backup does not hold everything: {backup}");
        assert!(listing.damage.is_empty(), "{:?}", listing.damage);
        std::fs::remove_file(copy).unwrap();
    }
    records
}

pub(super) fn prepare_restore(yard: &Yard) -> Vec<String> {
    insert_records(yard, (0..ROWS).map(finished).collect());
    let backup = yard.json(&["backup"])["backup"].as_str().unwrap().to_owned();
    yard.ok(&["prune", "--ttl", "1d", "--keep", "10"]);
    assert!(tickets(&yard.json(&["ps", "-a"])).is_empty());
    words(&["restore", &backup])
}

/// Everything is back.
pub(super) fn outcome_of_restore(yard: &Yard) -> Value {
    let records = records(yard);
    assert_eq!(tickets(&records), first(ROWS), "a record did not come back");
    records
}
