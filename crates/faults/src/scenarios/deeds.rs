//! What the program does to a yard at rest: each deed with the yard it needs and what it should leave behind.
//! Interrupted in any way and done again, it must leave the same.

use serde_json::{Value, json};
use sexton_core::session::{Agent, Exit, LoopState};
use sexton_core::{Host, Session, SessionId, Status, Time};
use sexton_field::Yard;
use sexton_field::records::insert_records;
use sexton_field::repository::Repository;
use sexton_field::scene::end_behind_its_back;

use crate::bystanders::Bystanders;
use crate::snapshot::Snapshot;

/// Something the program does, from the same beginning as often as one likes.
pub(crate) struct Deed {
    /// What it is called in reports.
    pub(crate) name: &'static str,
    /// The stores it is done on.
    pub(crate) stores: &'static [&'static str],
    prepare: fn(&Yard) -> Vec<String>,
    outcome: fn(&Yard) -> Value,
}

/// Every deed there is.
pub(crate) const DEEDS: &[Deed] = &[
    Deed { name: "recover", stores: BOTH, prepare: prepare_recover, outcome: outcome_of_recover },
    Deed { name: "prune", stores: BOTH, prepare: prepare_prune, outcome: records },
    Deed { name: "resume", stores: BOTH, prepare: prepare_resume, outcome: loops },
    Deed { name: "migrate", stores: BOTH, prepare: prepare_migrate, outcome: outcome_of_migrate },
    Deed { name: "compaction", stores: &["json"], prepare: prepare_compaction, outcome: records },
    Deed { name: "backup", stores: BOTH, prepare: prepare_backup, outcome: outcome_of_backup },
    Deed { name: "restore", stores: BOTH, prepare: prepare_restore, outcome: records },
];

const BOTH: &[&str] = &["sqlite", "json"];

/// Small, quick and without anything that would act by itself.
const SETTINGS: &str = "contain = \"tree\"\nstore.durability = \"power\"\nowner.grace = \"10m\"\n\
                        stop.grace = \"200ms\"\n";

/// A yard that is ready for a deed, and what the deed leaves behind when nothing disturbs it.
pub(crate) struct Stage {
    /// The yard.
    pub(crate) yard: Yard,
    /// The deed's command.
    pub(crate) arguments: Vec<String>,
    /// What nobody may touch.
    pub(crate) bystanders: Bystanders,
    snapshot: Snapshot,
    outcome: fn(&Yard) -> Value,
    expected: Value,
}

impl Stage {
    /// Prepares a yard, and does the deed once, undisturbed.
    pub(crate) fn set(deed: &Deed, store: &'static str) -> Stage {
        let yard = Yard::on(store).with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&yard);
        let arguments = (deed.prepare)(&yard);
        let snapshot = Snapshot::take(&yard);
        let mut stage =
            Stage { yard, arguments, bystanders, snapshot, outcome: deed.outcome, expected: Value::Null };
        stage.do_again();
        stage.expected = (deed.outcome)(&stage.yard);
        stage.reset();
        stage
    }

    /// Puts the yard back.
    pub(crate) fn reset(&self) {
        self.snapshot.put_back();
    }

    /// The deed's command, as the field wants it.
    pub(crate) fn command(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }

    /// Does the deed, which must succeed.
    pub(crate) fn do_again(&self) {
        self.yard.ok(&self.command());
    }

    /// Requires that the yard is as an undisturbed deed leaves it, and that nobody else was touched.
    pub(crate) fn require_done(&self) {
        let found = (self.outcome)(&self.yard);
        assert_eq!(found, self.expected, "the end is not that of an undisturbed run");
        self.bystanders.require_untouched(&self.yard);
    }
}

/// The records, without what differs from run to run.
fn records(yard: &Yard) -> Value {
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

/// A session that ended long ago.
pub(crate) fn finished(number: usize) -> Session {
    let created: Time = format!("2020-01-02T03:{:02}:{:02}Z", number / 60, number % 60).parse().unwrap();
    let host = Host { machine_id: "m".to_owned(), hostname: "h".to_owned() };
    let mut session = Session::new(SessionId::random(), host, created);
    session.ticket = Some(format!("T-{number}"));
    session.status = Status::Running;
    session.finish(Exit::exited(0), created);
    session
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn prepare_prune(yard: &Yard) -> Vec<String> {
    insert_records(yard, (0..40).map(finished).collect());
    words(&["prune", "--ttl", "1d", "--keep", "1000"])
}

/// Two sessions of one agent: the earlier one is gone and drove a loop, the later one takes it over.
fn prepare_resume(yard: &Yard) -> Vec<String> {
    let agent = Agent { session_id: Some("conversation".to_owned()), ..Agent::default() };
    let mut earlier = finished(0);
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

/// Who drives which loop.
fn loops(yard: &Yard) -> Value {
    let records = yard.json(&["ps", "-a"]);
    let of = |record: &Value| json!([record["id"], record["loop"]["active"], record["loop"]["iteration"]]);
    records.as_array().unwrap().iter().map(of).collect()
}

fn prepare_migrate(yard: &Yard) -> Vec<String> {
    insert_records(yard, (0..40).map(finished).collect());
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

fn outcome_of_migrate(yard: &Yard) -> Value {
    let to = destination(yard);
    let mut copied = yard.json(&["--store", &to, "ps", "-a"]);
    for record in copied.as_array_mut().unwrap() {
        record.as_object_mut().unwrap().remove("revision");
    }
    json!({"from": records(yard), "to": copied})
}

/// A journal that the next commit compacts.
fn prepare_compaction(yard: &Yard) -> Vec<String> {
    insert_records(yard, (0..40).map(finished).collect());
    let id = yard.json(&["ps", "-a", "--limit", "1"])[0]["id"].as_str().unwrap().to_owned();
    let padding = "x".repeat(20_000);
    while std::fs::metadata(yard.store_path()).unwrap().len() < (1 << 20) - 30_000 {
        sexton_field::records::edit_record(yard, &id, |session| {
            session.tags.insert("padding".to_owned(), padding.clone());
            let turn = session.tags.get("turn").and_then(|turn| turn.parse::<u64>().ok()).unwrap_or(0);
            session.tags.insert("turn".to_owned(), (turn + 1).to_string());
        });
    }
    insert_records(yard, (40..41).map(finished).collect());
    words(&["prune", "--ttl", "1d"])
}

fn prepare_backup(yard: &Yard) -> Vec<String> {
    insert_records(yard, (0..40).map(finished).collect());
    words(&["backup"])
}

fn outcome_of_backup(yard: &Yard) -> Value {
    let backups = yard.json(&["backup", "--list"]);
    let sizes: std::collections::BTreeSet<u64> =
        backups.as_array().unwrap().iter().map(|one| one["bytes"].as_u64().unwrap()).collect();
    json!({"records": records(yard), "sizes": sizes})
}

fn prepare_restore(yard: &Yard) -> Vec<String> {
    insert_records(yard, (0..40).map(finished).collect());
    let backup = yard.json(&["backup"])["backup"].as_str().unwrap().to_owned();
    yard.ok(&["prune", "--ttl", "1d", "--keep", "10"]);
    words(&["restore", &backup])
}

/// Three orphans with work in their worktrees.
fn prepare_recover(yard: &Yard) -> Vec<String> {
    Repository::in_work_dir(yard);
    for number in 0..3 {
        let ready = yard.path().join(format!("ready-{number}"));
        let script = format!(
            "echo {number} > new; echo more >> tracked; git add new; touch {}; exec sleep 600",
            ready.display()
        );
        let id = yard.ok(&["run", "-d", "-w", "--", "sh", "-c", &script]);
        sexton_field::eventually("the work is done", || ready.exists());
        end_behind_its_back(yard, &id);
    }
    words(&["recover"])
}

fn outcome_of_recover(yard: &Yard) -> Value {
    let repository = Repository::of_work_dir(yard);
    // Said by itself, not by comparison: a program that always loses the work would always end the same.
    let saved = repository.rescues().into_iter();
    let mut saved: Vec<_> =
        saved.map(|id| repository.git(&["show", &format!("refs/sexton/rescue/{id}:new")])).collect();
    saved.sort();
    assert_eq!(saved, ["0", "1", "2"], "the work of a session is nowhere");
    let trees = repository.git(&["for-each-ref", "--format=%(refname) %(tree)"]);
    json!({"records": records(yard), "trees": trees, "worktrees": repository.worktrees().len()})
}
