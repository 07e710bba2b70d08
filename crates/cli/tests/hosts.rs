//! Hosts, with the real program: renamed, rebooted, cloned, and several on one store; and small files of the state
//! directory that cannot be read.

#![cfg(feature = "proc-linux")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::crashed_env::kill_supervisor_and_command;
use support::{Ran, TestEnv, eventually, is_running, program, stores};

const QUICK: &str = "contain = \"tree\"\nstore.durability = \"process\"\nstop.grace = \"300ms\"\n";
const OTHER_BOOT: &str = "11111111-2222-4333-8444-555555555555\n";

/// Runs the binary in its own namespaces, after `script` has changed the identity of the machine. Without root it uses
/// a user namespace too.
fn elsewhere(test_env: &TestEnv, script: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new("unshare");
    test_env.enclose(&mut command);
    command.args(["--uts", "--mount"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let boot = test_env.path().join("boot-id");
    std::fs::write(&boot, OTHER_BOOT).unwrap();
    command.env("BOOT", boot).args(["sh", "-c", &format!("{script}; exec \"$@\""), "sh"]);
    Ran::of(&command.arg(program()).args(arguments).output().unwrap())
}

const RENAMED: &str = "hostname renamed-for-a-test";
const REBOOTED: &str = "mount --bind \"$BOOT\" /proc/sys/kernel/random/boot_id";

fn document(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr))
}

#[test]
fn i12_a_renamed_host_recognizes_its_sessions() {
    let test_env = TestEnv::new().with_settings(QUICK);
    let runs = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let dead = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    kill_supervisor_and_command(&test_env, &dead);
    let listed = document(&elsewhere(&test_env, RENAMED, &["ps", "--json"]));
    let seen: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["observed"].to_string()).collect();
    assert!(seen.iter().all(|observed| !observed.contains("runs on")), "{seen:?}");
    let report = document(&elsewhere(&test_env, RENAMED, &["recover", "--json"]));
    assert_eq!((&report["orphans"], &report["left_alone"]), (&1.into(), &1.into()), "{report}");
    assert_eq!(test_env.record(&dead)["status"], "orphaned");
    assert!(is_running(test_env.record(&runs)["process"]["pid"].as_u64().unwrap()));
}

#[test]
fn i12_wait_and_follow_do_not_take_a_session_of_another_host_for_ended() {
    let test_env = TestEnv::new().with_settings(QUICK);
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let other = format!("{RENAMED}; {REBOOTED}");
    let waited = elsewhere(&test_env, &other, &["wait", "--timeout", "100ms", &id]);
    assert_eq!(waited.code, 123, "{}{}", waited.stdout, waited.stderr);
    let followed = elsewhere(&test_env, &other, &["logs", "-f", &id]);
    assert_eq!(followed.code, 1, "{}{}", followed.stdout, followed.stderr);
    assert!(followed.stderr.contains("only that host knows when it ends"), "{}", followed.stderr);
    test_env.ok(&["stop", &id]);
    let ended = elsewhere(&test_env, &other, &["wait", &id]);
    assert_eq!(ended.code, 130, "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn i12_another_boot_id_means_a_reboot_only_on_the_same_host() {
    let test_env = TestEnv::new().with_settings(QUICK);
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let before = test_env.record(&id);
    assert!(before["host"]["id"].as_str().is_some_and(|id| id.len() == 36), "{before}");
    let clone = format!("{REBOOTED}; {RENAMED}");
    let report = document(&elsewhere(&test_env, &clone, &["recover", "--json"]));
    assert_eq!((&report["orphans"], &report["left_alone"]), (&0.into(), &1.into()), "a clone: {report}");
    let id_file = test_env.state_dir().join("host-id");
    let own = std::fs::read(&id_file).unwrap();
    std::fs::write(&id_file, "99999999-2222-4333-8444-555555555555\n").unwrap();
    let report = document(&elsewhere(&test_env, REBOOTED, &["recover", "--json"]));
    assert_eq!((&report["orphans"], &report["left_alone"]), (&0.into(), &1.into()), "another id: {report}");
    std::fs::write(&id_file, own).unwrap();
    assert_eq!(test_env.record(&id), before);
    let report = document(&elsewhere(&test_env, REBOOTED, &["recover", "--json"]));
    assert_eq!(
        (&report["orphans"], &report["sessions"][0]["cause"]),
        (&1.into(), &"host_rebooted".into()),
        "{report}"
    );
    kill_supervisor_and_command(&test_env, &id);
}

#[test]
fn i12_forget_host_marks_the_sessions_of_a_lost_host_as_orphaned() {
    let test_env = TestEnv::new().with_settings(QUICK);
    let own = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    kill_supervisor_and_command(&test_env, &id);
    support::records::edit_record(&test_env, &id, support::records::move_elsewhere);
    assert_eq!(test_env.json(&["recover"])["orphans"], 0);
    assert_eq!(test_env.sexton(&["forget", "--host", "no-such-host"]).code, 0);
    assert_eq!(test_env.record(&id)["status"], "running");
    test_env.ok(&["forget", "--host", "another-host"]);
    assert_eq!(test_env.record(&id)["status"], "orphaned");
    assert_eq!(test_env.record(&own)["status"], "running");
    test_env.ok(&["prune", "--ttl", "0s", "--keep", "0"]);
    assert_eq!(test_env.record(&id)["status"], "orphaned", "retention deleted a record of another host");
    test_env.ok(&["prune", "--ttl", "0s", "--host", "another-host"]);
    assert_eq!(test_env.sexton(&["show", &id]).code, 4);
}

#[test]
fn i12_a_damaged_host_id_prevents_starts_until_doctor_repairs_it() {
    let test_env = TestEnv::new().with_settings(QUICK);
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    std::fs::write(test_env.state_dir().join("host-id"), "nonsense").unwrap();
    let refused = test_env.sexton(&["run", "-d", "--", "true"]);
    assert_eq!(refused.code, 125, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("host-id") && refused.stderr.contains("doctor --repair"),
        "{}",
        refused.stderr
    );
    assert_eq!(test_env.json(&["ps"]).as_array().unwrap().len(), 1, "only the first session must be listed");
    assert_eq!(test_env.json(&["recover"])["left_alone"], 1);
    assert_eq!(test_env.sexton(&["doctor"]).code, 1);
    let repaired = test_env.ok(&["doctor", "--repair"]);
    assert!(repaired.contains("host-id"), "{repaired}");
    test_env.ok(&["run", "--", "true"]);
    test_env.ok(&["stop", &id]);
}

/// Creates something that is not a valid exit file at `path`.
fn create_invalid(kind: &str, path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "damaged" => std::fs::write(path, "{\"session\"").unwrap(),
        "huge" => std::fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        "directory" => std::fs::create_dir(path).unwrap(),
        "fifo" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        "link" => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        _ => unreachable!("{kind}"),
    }
}

#[test]
fn i8_an_unreadable_exit_file_stops_no_command_and_doctor_moves_it_away() {
    for (store, kind) in stores()
        .into_iter()
        .flat_map(|store| ["damaged", "huge", "directory", "fifo", "link"].map(|kind| (store, kind)))
    {
        let test_env = TestEnv::on(store).with_settings(QUICK);
        let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
        let path = test_env.state_dir().join("exits").join(format!("{id}.json"));
        create_invalid(kind, &path);
        let ran = test_env.sexton(&["run", "--", "sh", "-c", "exit 7"]);
        assert_eq!(ran.code, 7, "{store}, {kind}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(&id) && ran.stderr.contains(path.to_str().unwrap()),
            "{kind}: {}",
            ran.stderr
        );
        assert_eq!(test_env.json(&["ps"])[0]["status"], "running", "{kind}: the status changed");
        let first = test_env.sexton(&["recover", "--json"]);
        assert_eq!(first.code, 3, "{store}, {kind}: {}", first.stderr);
        let report = document(&first);
        assert_eq!(
            (&report["problems"][0]["kind"], &report["left_alone"]),
            (&"exit_file".into(), &1.into()),
            "{report}"
        );
        assert_eq!(test_env.sexton(&["recover"]).code, 0, "{kind}: the problem is new only once");
        test_env.ok(&["stop", &id]);
        assert_eq!(test_env.record(&id)["status"], "stopped");
        assert_eq!(test_env.sexton(&["doctor"]).code, 1);
        test_env.sexton(&["doctor", "--repair"]);
        assert!(std::fs::symlink_metadata(&path).is_err(), "{kind}: the file is still there");
        let aside = path.with_extension("json.set-aside-0");
        assert!(std::fs::symlink_metadata(aside).is_ok(), "{kind}: the file was deleted");
        assert_eq!(test_env.json(&["recover"])["problems"], serde_json::json!([]));
    }
}

#[test]
fn i9_a_session_gets_the_descriptor_limit_of_its_user() {
    let test_env = TestEnv::new().with_settings(QUICK);
    let with_limit = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        test_env.enclose(&mut command);
        command.args(["-c", "ulimit -S -n 321; exec \"$@\"", "sh", &program()]).args(arguments);
        let ran = Ran::of(&command.output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    assert_eq!(with_limit(&["run", "--", "sh", "-c", "ulimit -S -n"]), "321\n");
    // Recovery raises its own limit; a supervisor that it starts has the user's limit again.
    let mut owner = support::Bystander::start();
    let id = test_env.ok(&["run", "-d", "--owner-pid", &owner.pid(), "--", "sleep", "600"]);
    let lost = test_env.record(&id)["supervisor"]["pid"].as_u64().unwrap();
    support::kill_9(lost);
    eventually("the supervisor is gone", || !is_running(lost));
    owner.end();
    with_limit(&["recover", "--adopt"]);
    let mut supervisor = 0;
    eventually("a new supervisor is recorded", || {
        supervisor = test_env.record(&id)["supervisor"]["pid"].as_u64().unwrap();
        supervisor != lost
    });
    let limits = std::fs::read_to_string(format!("/proc/{supervisor}/limits")).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("321"), "{limits}");
    test_env.ok(&["stop", &id]);
}
