//! Registering, finishing, listing and showing, through the real program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::os::unix::fs::PermissionsExt;

use support::{Bystander, Yard};

fn stores() -> Vec<&'static str> {
    let linked = [("sqlite", cfg!(feature = "store-sqlite")), ("json", cfg!(feature = "store-json"))];
    linked.into_iter().filter(|(_, linked)| *linked).map(|(store, _)| store).collect()
}

#[test]
fn a_registered_process_is_listed_shown_and_finished() {
    for store in stores() {
        let yard = Yard::on(store);
        let mut agent = Bystander::start();
        let id = yard.ok(&["register", "--pid", &agent.pid(), "--name", "nightly", "--ticket", "T-1"]);
        assert_eq!(id.len(), 16);
        let listed = yard.json(&["ps"]);
        assert_eq!(listed[0]["id"], *id);
        assert_eq!(listed[0]["observed"], "alive");
        assert_eq!(listed[0]["process"]["pid"].to_string(), agent.pid());
        let early = yard.sexton(&["finish", "nightly", "--code", "0"]);
        assert_eq!(early.code, 1, "{}", early.stderr);
        assert!(early.stderr.contains("still runs"), "{}", early.stderr);
        agent.end();
        yard.ok(&["finish", "nightly", "--code", "0"]);
        let record = yard.record("nightly");
        assert_eq!(
            (record["status"].as_str(), record["exit"]["code"].as_i64()),
            (Some("completed"), Some(0))
        );
        assert_eq!(yard.json(&["ps"]).as_array().unwrap().len(), 0);
        assert_eq!(yard.json(&["ps", "-a"]).as_array().unwrap().len(), 1);
    }
}

#[test]
fn i2_a_process_that_died_unseen_is_not_shown_as_running() {
    let yard = Yard::new();
    let mut agent = Bystander::start();
    yard.ok(&["register", "--pid", &agent.pid(), "--name", "lost"]);
    agent.end();
    assert_eq!(yard.json(&["ps"])[0]["observed"], "gone");
    assert!(yard.ok(&["ps"]).contains("running (gone)"));
}

#[test]
fn a_session_is_found_by_id_prefix_and_name_in_this_order() {
    let yard = Yard::new();
    let agent = Bystander::start();
    let id = yard.ok(&["register", "--pid", &agent.pid(), "--name", "mine"]);
    for reference in [id.as_str(), &id[..4], "mine"] {
        assert_eq!(yard.record(reference)["id"], *id);
    }
    // A name beats a prefix, and the exact id beats a name.
    let other = Bystander::start();
    let second = yard.ok(&["register", "--pid", &other.pid(), "--name", &id[..4]]);
    assert_eq!(yard.record(&id[..4])["id"], *second);
    let third = Bystander::start();
    yard.ok(&["register", "--pid", &third.pid(), "--name", &id]);
    assert_eq!(yard.record(&id)["id"], *id);
}

#[test]
fn what_cannot_be_registered_is_refused_and_changes_nothing() {
    let yard = Yard::new();
    let mut gone = Bystander::start();
    gone.end();
    let shell = std::process::id().to_string();
    for (pid, why) in [(gone.pid(), "no such process"), (shell, "descends from it"), ("1".into(), "")] {
        let ran = yard.sexton(&["register", "--pid", &pid]);
        assert_ne!(ran.code, 0, "{pid} was registered");
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
    // The kernel's own; it exists on every Linux that is not in a container.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        let ran = yard.sexton(&["register", "--pid", "2"]);
        assert!(ran.stderr.contains("part of the kernel"), "{}", ran.stderr);
    }
    assert_eq!(yard.json(&["ps", "-a"]).as_array().unwrap().len(), 0);
}

#[test]
fn a_name_in_use_by_a_running_session_is_refused() {
    for store in stores() {
        let yard = Yard::on(store);
        let (one, two) = (Bystander::start(), Bystander::start());
        yard.ok(&["register", "--pid", &one.pid(), "--name", "same"]);
        let ran = yard.sexton(&["register", "--pid", &two.pid(), "--name", "same"]);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("the name `same` is in use"), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint:"), "{}", ran.stderr);
        assert_eq!(yard.json(&["ps"]).as_array().unwrap().len(), 1);
    }
}

#[test]
fn reading_creates_nothing() {
    for store in stores() {
        let yard = Yard::on(store);
        for command in [["ps", "-a"].as_slice(), &["doctor"], &["config"], &["backup", "--list"]] {
            assert_eq!(yard.sexton(command).code, 0, "{command:?}");
        }
        assert_eq!(yard.sexton(&["show", "nothing"]).code, 4);
        assert!(!yard.state_dir().exists(), "a reading command made the state directory");
    }
}

#[test]
fn the_state_dir_and_its_files_are_private() {
    for store in stores() {
        let yard = Yard::on(store);
        let agent = Bystander::start();
        yard.ok(&["register", "--pid", &agent.pid()]);
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&yard.state_dir()), 0o700);
        for entry in std::fs::read_dir(yard.state_dir()).unwrap() {
            let path = entry.unwrap().path();
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), expected, "{}", path.display());
        }
    }
}

#[test]
fn i6_a_state_dir_that_others_can_write_is_refused() {
    let yard = Yard::new();
    std::fs::create_dir(yard.state_dir()).unwrap();
    std::fs::set_permissions(yard.state_dir(), std::fs::Permissions::from_mode(0o770)).unwrap();
    let agent = Bystander::start();
    for command in [["ps"].as_slice(), &["register", "--pid", &agent.pid()]] {
        let ran = yard.sexton(command);
        assert_eq!(ran.code, 1, "{command:?}");
        assert!(ran.stderr.contains("can be written by others"), "{}", ran.stderr);
        assert!(ran.stderr.contains("chmod 700"), "{}", ran.stderr);
    }
    let doctor = yard.sexton(&["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    assert!(doctor.stdout.contains("can be written by others"), "{}", doctor.stdout);
}

#[test]
fn an_id_that_could_leave_a_directory_names_no_session() {
    let yard = Yard::new();
    for id in ["../../etc", "a/b", "..", "a b", ""] {
        let ran = yard.sexton(&["show", id]);
        assert_eq!(ran.code, 4, "{id:?}: {}", ran.stderr);
    }
}

#[test]
fn migrating_copies_everything_once() {
    if stores().len() < 2 {
        return;
    }
    let yard = Yard::on("sqlite");
    for name in ["one", "two", "three"] {
        let mut agent = Bystander::start();
        yard.ok(&["register", "--pid", &agent.pid(), "--name", name]);
        agent.end();
        yard.ok(&["finish", name, "--code", "0"]);
    }
    let journal = format!("json:{}", yard.path().join("journal.jsonl").display());
    let first = yard.json(&["migrate", "--from", &yard.store_url(), "--to", &journal]);
    assert_eq!((first["added"].as_u64(), first["unchanged"].as_u64()), (Some(3), Some(0)));
    let again = yard.json(&["migrate", "--from", &yard.store_url(), "--to", &journal]);
    assert_eq!((again["added"].as_u64(), again["unchanged"].as_u64()), (Some(0), Some(3)));
    let without_revision = |url: &str| {
        let mut listed = yard.json(&["ps", "-a", "--store", url]);
        for record in listed.as_array_mut().unwrap() {
            record["revision"] = 0.into();
        }
        listed
    };
    assert_eq!(without_revision(&yard.store_url()), without_revision(&journal));
    let same = yard.sexton(&["migrate", "--from", &journal, "--to", &journal]);
    assert_eq!(same.code, 2, "{}", same.stderr);
}

#[test]
fn a_backup_is_restored_and_what_runs_keeps_its_record() {
    for store in stores() {
        let yard = Yard::on(store);
        let mut agent = Bystander::start();
        yard.ok(&["register", "--pid", &agent.pid(), "--name", "early"]);
        agent.end();
        yard.ok(&["finish", "early", "--code", "0"]);
        let backup = yard.ok(&["backup"]);
        let late = Bystander::start();
        yard.ok(&["register", "--pid", &late.pid(), "--name", "late"]);
        let report = yard.json(&["restore", &backup]);
        assert_eq!((report["restored"].as_u64(), report["kept"].as_u64()), (Some(1), Some(1)), "{report}");
        assert_eq!(yard.record("early")["status"], "completed");
        assert_eq!(yard.record("late")["status"], "running");
        let bad = yard.sexton(&["restore", "/etc/passwd"]);
        assert_eq!(bad.code, 1, "{}", bad.stderr);
        assert!(bad.stderr.contains("not a usable backup"), "{}", bad.stderr);
    }
}

#[test]
fn only_the_newest_backups_are_kept() {
    let yard = Yard::new().with_settings("[backup]\nkeep = 2\n");
    let agent = Bystander::start();
    yard.ok(&["register", "--pid", &agent.pid()]);
    let made: Vec<_> = (0..4).map(|_| yard.ok(&["backup"])).collect();
    let listed = yard.json(&["backup", "--list"]);
    let listed: Vec<_> =
        listed.as_array().unwrap().iter().map(|backup| backup["backup"].as_str().unwrap()).collect();
    assert_eq!(listed, [made[3].as_str(), made[2].as_str()]);
}
