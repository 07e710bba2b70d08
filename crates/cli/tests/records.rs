//! Registering, finishing, listing and showing sessions, with the real program.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::os::unix::fs::PermissionsExt;

use support::{Bystander, TestEnv};

fn stores() -> Vec<&'static str> {
    let linked = [("sqlite", cfg!(feature = "store-sqlite")), ("json", cfg!(feature = "store-json"))];
    linked.into_iter().filter(|(_, linked)| *linked).map(|(store, _)| store).collect()
}

#[test]
fn a_registered_process_is_listed_shown_and_finished() {
    for store in stores() {
        let test_env = TestEnv::on(store);
        let mut agent = Bystander::start();
        let id = test_env.ok(&["register", "--pid", &agent.pid(), "--name", "nightly", "--ticket", "T-1"]);
        assert_eq!(id.len(), 16);
        let listed = test_env.json(&["ps"]);
        assert_eq!(listed[0]["id"], *id);
        assert_eq!(listed[0]["observed"], "alive");
        assert_eq!(listed[0]["process"]["pid"].to_string(), agent.pid());
        let early = test_env.sexton(&["finish", "nightly", "--code", "0"]);
        assert_eq!(early.code, 1, "{}", early.stderr);
        assert!(early.stderr.contains("still running"), "{}", early.stderr);
        agent.end();
        test_env.ok(&["finish", "nightly", "--code", "0"]);
        let record = test_env.record("nightly");
        assert_eq!(
            (record["status"].as_str(), record["exit"]["code"].as_i64()),
            (Some("completed"), Some(0))
        );
        assert_eq!(test_env.json(&["ps"]).as_array().unwrap().len(), 0);
        assert_eq!(test_env.json(&["ps", "-a"]).as_array().unwrap().len(), 1);
    }
}

#[test]
fn i2_a_registered_process_that_exited_is_shown_as_gone() {
    let test_env = TestEnv::new();
    let mut agent = Bystander::start();
    test_env.ok(&["register", "--pid", &agent.pid(), "--name", "lost"]);
    agent.end();
    assert_eq!(test_env.json(&["ps"])[0]["observed"], "gone");
    assert!(test_env.ok(&["ps"]).contains("running (gone)"));
}

#[test]
fn a_session_is_found_by_id_then_name_then_prefix() {
    let test_env = TestEnv::new();
    let agent = Bystander::start();
    let id = test_env.ok(&["register", "--pid", &agent.pid(), "--name", "mine"]);
    for reference in [id.as_str(), &id[..4], "mine"] {
        assert_eq!(test_env.record(reference)["id"], *id);
    }
    // A name has priority over a prefix, and the exact id over a name.
    let other = Bystander::start();
    let second = test_env.ok(&["register", "--pid", &other.pid(), "--name", &id[..4]]);
    assert_eq!(test_env.record(&id[..4])["id"], *second);
    let third = Bystander::start();
    test_env.ok(&["register", "--pid", &third.pid(), "--name", &id]);
    assert_eq!(test_env.record(&id)["id"], *id);
}

#[test]
fn a_process_that_cannot_be_registered_is_refused_and_changes_nothing() {
    let test_env = TestEnv::new();
    let mut gone = Bystander::start();
    gone.end();
    let shell = std::process::id().to_string();
    for (pid, why) in
        [(gone.pid(), "no such process"), (shell, "an ancestor of this command"), ("1".into(), "")]
    {
        let ran = test_env.sexton(&["register", "--pid", &pid]);
        assert_ne!(ran.code, 0, "{pid} was registered");
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
    // A kernel thread, which exists on every Linux outside of a container.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        let ran = test_env.sexton(&["register", "--pid", "2"]);
        assert!(ran.stderr.contains("kernel thread"), "{}", ran.stderr);
    }
    assert_eq!(test_env.json(&["ps", "-a"]).as_array().unwrap().len(), 0);
}

#[test]
fn a_name_in_use_by_a_running_session_is_refused() {
    for store in stores() {
        let test_env = TestEnv::on(store);
        let (one, two) = (Bystander::start(), Bystander::start());
        test_env.ok(&["register", "--pid", &one.pid(), "--name", "same"]);
        let ran = test_env.sexton(&["register", "--pid", &two.pid(), "--name", "same"]);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("the name `same` is in use"), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint:"), "{}", ran.stderr);
        assert_eq!(test_env.json(&["ps"]).as_array().unwrap().len(), 1);
    }
}

#[test]
fn reading_creates_nothing() {
    for store in stores() {
        let test_env = TestEnv::on(store);
        for command in [["ps", "-a"].as_slice(), &["doctor"], &["config"], &["backup", "--list"]] {
            assert_eq!(test_env.sexton(command).code, 0, "{command:?}");
        }
        assert_eq!(test_env.sexton(&["show", "nothing"]).code, 4);
        assert!(!test_env.state_dir().exists(), "a reading command created the state directory");
    }
}

#[test]
fn the_state_dir_and_its_files_are_private() {
    for store in stores() {
        let test_env = TestEnv::on(store);
        let agent = Bystander::start();
        test_env.ok(&["register", "--pid", &agent.pid()]);
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&test_env.state_dir()), 0o700);
        for entry in std::fs::read_dir(test_env.state_dir()).unwrap() {
            let path = entry.unwrap().path();
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), expected, "{}", path.display());
        }
    }
}

#[test]
fn i6_a_state_dir_that_others_can_write_is_refused() {
    let test_env = TestEnv::new();
    std::fs::create_dir(test_env.state_dir()).unwrap();
    std::fs::set_permissions(test_env.state_dir(), std::fs::Permissions::from_mode(0o770)).unwrap();
    let agent = Bystander::start();
    for command in [["ps"].as_slice(), &["register", "--pid", &agent.pid()]] {
        let ran = test_env.sexton(command);
        assert_eq!(ran.code, 1, "{command:?}");
        assert!(ran.stderr.contains("is writable by other users"), "{}", ran.stderr);
        assert!(ran.stderr.contains("chmod 700"), "{}", ran.stderr);
    }
    let doctor = test_env.sexton(&["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.stdout);
    assert!(doctor.stdout.contains("is writable by other users"), "{}", doctor.stdout);
}

#[test]
fn an_id_with_path_characters_is_not_found() {
    let test_env = TestEnv::new();
    for id in ["../../etc", "a/b", "..", "a b", ""] {
        let ran = test_env.sexton(&["show", id]);
        assert_eq!(ran.code, 4, "{id:?}: {}", ran.stderr);
    }
}

#[test]
fn migrate_copies_every_record_once() {
    if stores().len() < 2 {
        return;
    }
    let test_env = TestEnv::on("sqlite");
    for name in ["one", "two", "three"] {
        let mut agent = Bystander::start();
        test_env.ok(&["register", "--pid", &agent.pid(), "--name", name]);
        agent.end();
        test_env.ok(&["finish", name, "--code", "0"]);
    }
    let journal = format!("json:{}", test_env.path().join("journal.jsonl").display());
    let first = test_env.json(&["migrate", "--from", &test_env.store_url(), "--to", &journal]);
    assert_eq!((first["added"].as_u64(), first["unchanged"].as_u64()), (Some(3), Some(0)));
    let again = test_env.json(&["migrate", "--from", &test_env.store_url(), "--to", &journal]);
    assert_eq!((again["added"].as_u64(), again["unchanged"].as_u64()), (Some(0), Some(3)));
    let without_revision = |url: &str| {
        let mut listed = test_env.json(&["ps", "-a", "--store", url]);
        for record in listed.as_array_mut().unwrap() {
            record["revision"] = 0.into();
        }
        listed
    };
    assert_eq!(without_revision(&test_env.store_url()), without_revision(&journal));
    let same = test_env.sexton(&["migrate", "--from", &journal, "--to", &journal]);
    assert_eq!(same.code, 2, "{}", same.stderr);
}

#[test]
fn restoring_a_backup_keeps_the_records_of_running_sessions() {
    for store in stores() {
        let test_env = TestEnv::on(store);
        let mut agent = Bystander::start();
        test_env.ok(&["register", "--pid", &agent.pid(), "--name", "early"]);
        agent.end();
        test_env.ok(&["finish", "early", "--code", "0"]);
        let backup = test_env.ok(&["backup"]);
        let late = Bystander::start();
        test_env.ok(&["register", "--pid", &late.pid(), "--name", "late"]);
        let report = test_env.json(&["restore", &backup]);
        assert_eq!((report["restored"].as_u64(), report["kept"].as_u64()), (Some(1), Some(1)), "{report}");
        assert_eq!(test_env.record("early")["status"], "completed");
        assert_eq!(test_env.record("late")["status"], "running");
        let bad = test_env.sexton(&["restore", "/etc/passwd"]);
        assert_eq!(bad.code, 1, "{}", bad.stderr);
        assert!(bad.stderr.contains("not a usable backup"), "{}", bad.stderr);
    }
}

#[test]
fn only_the_newest_backups_are_kept() {
    let test_env = TestEnv::new().with_settings("[backup]\nkeep = 2\n");
    let agent = Bystander::start();
    test_env.ok(&["register", "--pid", &agent.pid()]);
    let made: Vec<_> = (0..4).map(|_| test_env.ok(&["backup"])).collect();
    let listed = test_env.json(&["backup", "--list"]);
    let listed: Vec<_> =
        listed.as_array().unwrap().iter().map(|backup| backup["backup"].as_str().unwrap()).collect();
    assert_eq!(listed, [made[3].as_str(), made[2].as_str()]);
}
