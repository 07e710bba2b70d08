//! Two releases on one store: sessions that were started before an upgrade keep every promise after it, the store's
//! format is not raised while their supervisors live, and an older program reads what a newer one wrote.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::gate::Gate;
use support::records::edit_record;
use support::releases::Release;
use support::{TestEnv, eventually, is_running, kill_9, stores};

/// An exit code that does not occur by accident.
const CODE: i64 = 73;

const SETTINGS: &str = "contain = \"tree\"\nstore.durability = \"process\"\nstop.grace = \"200ms\"\n";

fn test_env(store: &'static str) -> TestEnv {
    TestEnv::on(store).with_settings(SETTINGS)
}

/// A session that ends when its gate is opened.
struct Gated {
    id: String,
    supervisor: u64,
    command: u64,
    gate: Gate,
}

impl Gated {
    fn start(test_env: &TestEnv, release: &Release, name: &str) -> Gated {
        let gate = Gate::at(&test_env.path().join(format!("gate-of-{name}")));
        let id = release.ok(test_env, &["run", "-d", "--name", name, "--", "sh", "-c", &gate.script(CODE)]);
        let record = release.json(test_env, &["show", &id]);
        let pid = |field: &str| record[field]["pid"].as_u64().unwrap();
        Gated { supervisor: pid("supervisor"), command: pid("process"), id, gate }
    }

    fn end(&self) {
        self.gate.open();
        eventually("the supervisor has ended", || !is_running(self.supervisor));
    }
}

/// Returns every file in the state directory, except SQLite's index of its log, which readers create.
fn files(test_env: &TestEnv) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(test_env.state_dir()).unwrap().map(|entry| entry.unwrap().path());
    let kept = entries.filter(|path| path.is_file() && path.extension().is_none_or(|end| end != "db-shm"));
    kept.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

fn exit_files(test_env: &TestEnv) -> usize {
    std::fs::read_dir(test_env.state_dir().join("exits")).into_iter().flatten().count()
}

fn format_report(test_env: &TestEnv, release: &Release) -> Value {
    release.json(test_env, &["recover"])["format"].clone()
}

#[test]
fn i8_i6_the_format_is_raised_only_after_an_older_supervisor_has_recorded_its_exit() {
    for store in stores() {
        let (test_env, this, next) = (test_env(store), Release::this(), Release::next());
        let older = Gated::start(&test_env, &this, "older");
        let newer = Gated::start(&test_env, &next, "newer");
        let waits = format_report(&test_env, &next);
        assert_eq!(waits["outcome"], "waits", "{store}: {waits}");
        assert_eq!(waits["waits_for"], json!([older.id]), "{store}");
        assert_eq!((&waits["found"], &waits["newest"]), (&json!(1), &json!(2)), "{store}");
        let ran = next.run(&test_env, &["recover"]);
        assert!(ran.stderr.contains("keeps format 1") && ran.stderr.contains(&older.id), "{}", ran.stderr);
        // The next release writes the store in its present format, and this release keeps working.
        next.ok(&test_env, &["run", "--", "true"]);
        this.ok(&test_env, &["run", "--", "true"]);
        older.end();
        let record = next.json(&test_env, &["show", &older.id]);
        assert_eq!((&record["status"], &record["exit"]["code"]), (&json!("failed"), &json!(CODE)), "{store}");
        assert_eq!(exit_files(&test_env), 0, "{store}: the exit was not committed to the store");

        let raised = format_report(&test_env, &next);
        assert_eq!(
            (&raised["outcome"], &raised["waits_for"]),
            (&json!("raised"), &json!([])),
            "{store}: {raised}"
        );
        assert!(Path::new(raised["backup"].as_str().unwrap()).exists(), "{store}");
        assert_eq!(format_report(&test_env, &next), Value::Null, "{store}: the format was raised twice");
        assert_eq!(next.json(&test_env, &["show", &older.id]), record, "{store}: an exit was recorded twice");
        assert_eq!(next.json(&test_env, &["doctor"])["healthy"], true, "{store}");
        newer.end();
        assert_eq!(next.json(&test_env, &["show", &newer.id])["exit"]["code"], CODE, "{store}");
        assert_eq!(next.json(&test_env, &["ps", "-a"]).as_array().unwrap().len(), 4, "{store}");
    }
}

#[test]
fn i6_an_older_program_reads_a_newer_store_and_changes_nothing() {
    for store in stores() {
        let (test_env, this, next) = (test_env(store), Release::this(), Release::next());
        this.ok(&test_env, &["run", "--name", "before", "--", "true"]);
        let running = Gated::start(&test_env, &next, "running");
        assert_eq!(format_report(&test_env, &next)["outcome"], "raised", "{store}");
        let before = files(&test_env);

        let listed = this.run(&test_env, &["ps", "-a", "--json"]);
        assert_eq!(listed.code, 5, "{store}: {}", listed.stderr);
        let listed_records: Value = serde_json::from_str(&listed.stdout).unwrap();
        assert_eq!(listed_records.as_array().unwrap().len(), 2, "{store}: {}", listed.stdout);
        let shown = this.run(&test_env, &["show", "before"]);
        assert!(shown.code == 5 && shown.stdout.contains("completed"), "{store}: {}", shown.stdout);
        for ran in [&listed, &shown, &this.run(&test_env, &["doctor"])] {
            let output = format!("{}{}", ran.stdout, ran.stderr);
            for words in ["format 2", "supported 1", "sexton 999.0.0 or a newer version"] {
                assert!(output.contains(words), "{store}: `{words}` is not in {output}");
            }
            assert!(!output.contains("--repair"), "{store}: a repair was suggested: {output}");
        }
        let writing: [&[&str]; 6] = [
            &["stop", "running"],
            &["recover"],
            &["prune"],
            &["forget", "running"],
            &["doctor", "--repair"],
            &["run", "--", "touch", "ran"],
        ];
        for command in writing {
            let ran = this.run(&test_env, command);
            let expected = if command[0] == "run" { 125 } else { 5 };
            assert_eq!(ran.code, expected, "{store}: {command:?}: {}", ran.stderr);
            assert!(ran.stderr.contains("hint: use sexton 999.0.0"), "{store}: {command:?}: {}", ran.stderr);
        }
        assert!(!test_env.work_dir().join("ran").exists(), "{store}: a command ran without a record");
        assert_eq!(files(&test_env), before, "{store}");
        assert!(is_running(running.command), "{store}: it was killed by a program that cannot record it");
        running.end();
        assert_eq!(next.json(&test_env, &["show", "running"])["exit"]["code"], CODE, "{store}");
    }
}

#[test]
fn i6_a_killed_supervisor_does_not_block_raising_the_format() {
    for store in stores() {
        let (test_env, this, next) = (test_env(store), Release::this(), Release::next());
        let older = Gated::start(&test_env, &this, "older");
        for pid in [older.supervisor, older.command] {
            kill_9(pid);
            eventually("it is gone", || !is_running(pid));
        }
        let raised = format_report(&test_env, &next);
        assert_eq!(raised["outcome"], "raised", "{store}: {raised}");
        assert_eq!(next.json(&test_env, &["show", &older.id])["status"], "orphaned", "{store}");
    }
}

#[test]
fn i6_an_older_program_restores_the_backup_made_before_a_raise() {
    for store in stores() {
        let (test_env, this, next) = (test_env(store), Release::this(), Release::next());
        let kept = this.ok(&test_env, &["run", "-d", "--name", "kept", "--", "true"]);
        test_env.wait_until_ended(&kept);
        let record = this.json(&test_env, &["show", &kept]);
        let backup = format_report(&test_env, &next)["backup"].as_str().unwrap().to_owned();
        let elsewhere = format!("{store}:{}", test_env.path().join("elsewhere").display());
        this.ok(&test_env, &["--store", &elsewhere, "restore", &backup]);
        let restored = this.json(&test_env, &["--store", &elsewhere, "show", &kept]);
        for field in ["exit", "status", "finished_at", "command", "release"] {
            assert_eq!(restored[field], record[field], "{store}: {field}");
        }
        // An older program refuses a backup of the raised store.
        let newer = next.ok(&test_env, &["backup"]);
        let refused = this.run(&test_env, &["--store", &elsewhere, "restore", &newer]);
        assert!(refused.code == 1 && refused.stderr.contains("format 2"), "{store}: {}", refused.stderr);
    }
}

#[test]
fn i6_repairing_a_damaged_store_keeps_its_format() {
    for store in stores() {
        let (test_env, this, next) = (test_env(store), Release::this(), Release::next());
        let older = Gated::start(&test_env, &this, "older");
        let lost = this.ok(&test_env, &["run", "-d", "--name", "lost", "--", "true"]);
        test_env.wait_until_ended(&lost);
        damage_a_record(&test_env, &lost);
        let repaired = next.run(&test_env, &["doctor", "--repair"]);
        assert_eq!(repaired.code, 0, "{store}: {}{}", repaired.stdout, repaired.stderr);
        assert_eq!(
            this.json(&test_env, &["ps"])[0]["id"],
            older.id.as_str(),
            "{store}: the format was raised"
        );
        older.end();
        assert_eq!(this.json(&test_env, &["show", &older.id])["exit"]["code"], CODE, "{store}");
    }
}

/// Changes a byte of the record in every file of the store that holds it.
fn damage_a_record(test_env: &TestEnv, id: &str) {
    let needle = format!("\"id\":\"{id}\"").into_bytes();
    let mut damaged = 0;
    for (path, mut bytes) in files(test_env) {
        let places: Vec<_> = (0..bytes.len().saturating_sub(needle.len()))
            .filter(|at| bytes[*at..].starts_with(&needle))
            .collect();
        damaged += places.len();
        for at in &places {
            bytes[at + 1] ^= 0x01;
        }
        if !places.is_empty() {
            std::fs::write(path, bytes).unwrap();
        }
    }
    assert!(damaged > 0, "no record of {id} was found");
}

#[test]
fn i6_an_older_release_keeps_fields_that_a_newer_release_recorded() {
    for store in stores() {
        let (test_env, this, next) = (test_env(store), Release::this(), Release::next());
        // This release creates the store, the next release creates the session.
        this.ok(&test_env, &["run", "--", "true"]);
        let session = Gated::start(&test_env, &next, "mixed");
        edit_record(&test_env, &session.id, |record| {
            record.extra.insert("invented".to_owned(), json!({"deep": [1, 2.5, null, "ü"]}));
            let process = record.process.as_mut().unwrap();
            process.extra.insert("colour".to_owned(), json!("red"));
            record.host.extra.insert("rack".to_owned(), json!(7));
        });
        let before = next.json(&test_env, &["show", "mixed"]);
        assert_eq!(before["release"], "999.0.0", "{store}");
        this.ok(&test_env, &["loop", "set", "mixed", "phase=executing"]);
        next.ok(&test_env, &["loop", "set", "mixed", "iteration=2"]);
        this.ok(&test_env, &["stop", "mixed"]);
        this.ok(&test_env, &["recover"]);
        let after = next.json(&test_env, &["show", &session.id]);
        assert_eq!(after["status"], "stopped", "{store}");
        for pointer in ["/invented", "/process/colour", "/host", "/release", "/command", "/created_at"] {
            assert_eq!(after.pointer(pointer), before.pointer(pointer), "{store}: {pointer}");
        }
    }
}

#[test]
fn i8_replacing_the_program_file_does_not_affect_running_sessions() {
    let test_env = test_env(stores()[0]);
    let installed = test_env.path().join("sexton");
    std::fs::copy(support::program(), &installed).unwrap();
    let session = Gated::start(&test_env, &Release::previous(&installed), "old");
    let replacement = test_env.path().join("sexton.new");
    std::fs::write(&replacement, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::rename(&replacement, &installed).unwrap();
    let this = Release::this();
    assert_eq!(this.json(&test_env, &["ps"])[0]["observed"], "alive");
    assert_eq!(this.json(&test_env, &["recover"])["failed"], 0);
    assert!(is_running(session.command));
    session.end();
    assert_eq!(this.json(&test_env, &["show", "old"])["exit"]["code"], CODE);
}

#[test]
fn a_record_names_the_release_that_started_the_session() {
    let test_env = test_env(stores()[0]);
    let session = Gated::start(&test_env, &Release::this(), "one");
    let version = test_env.ok(&["--version"]);
    let release = test_env.record(&session.id)["release"].as_str().unwrap().to_owned();
    assert_eq!(version, format!("sexton {release}"));
    assert_ne!(release, "0.1.0", "the version was not raised");
    session.end();
}
