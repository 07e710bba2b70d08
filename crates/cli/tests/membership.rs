//! Which processes belong to a session: hidden members are stopped with it, processes of other sessions are not.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![cfg(target_os = "linux")]

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{TestEnv, eventually, is_running, kill_9};

/// Processes without a readable cookie: one with a cleared environment and its own kernel session, one that overwrites
/// its environment, and one whose environment its user cannot read. Each writes its pid into a file.
const HIDERS: &str = r#"
    env -i setsid sh -c 'echo $$ > cleared; exec sleep 777' &
    perl -e 'open F, ">rewritten"; print F "$$\n"; close F; $0 = "x" x 4000; sleep 999' &
    ssh-agent -s | sed -n 's/.*SSH_AGENT_PID=\([0-9]*\);.*/\1/p' > agent
    touch ready
    exec sleep 600
"#;

fn tree() -> TestEnv {
    TestEnv::new().with_settings("contain = \"tree\"\nstop.grace = \"500ms\"\n")
}

fn pid(record: &Value, whose: &str) -> u64 {
    record[whose]["pid"].as_u64().unwrap()
}

/// Waits for the pid that a process writes into a file.
fn read_pid(directory: &Path, file: &str) -> u64 {
    let mut pid = None;
    eventually("a process has written its pid", || {
        pid = std::fs::read_to_string(directory.join(file)).ok().and_then(|text| text.trim().parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}

/// Starts a shell script in its own directory, and waits until it is ready.
fn start(test_env: &TestEnv, directory: &Path, script: &str) -> String {
    std::fs::create_dir_all(directory).unwrap();
    let whole = format!("cd '{}'; {script}", directory.display());
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", &whole]);
    eventually("the script is ready", || directory.join("ready").exists());
    id
}

fn hiders(directory: &Path) -> [u64; 3] {
    ["cleared", "rewritten", "agent"].map(|file| read_pid(directory, file))
}

fn kill_and_wait(pid: u64) {
    kill_9(pid);
    eventually("it is gone", || !is_running(pid));
}

#[test]
fn i10_recovery_stops_hidden_members() {
    let test_env = tree();
    let directory = test_env.path().join("play");
    let id = start(&test_env, &directory, HIDERS);
    let (record, hidden) = (test_env.record(&id), hiders(&directory));
    assert!(record["limit_mark"].as_u64().is_some(), "{record}");
    kill_and_wait(pid(&record, "supervisor"));
    kill_and_wait(pid(&record, "process"));
    assert!(hidden.iter().all(|pid| is_running(*pid)), "a hidden process exited");
    test_env.ok(&["recover"]);
    assert_eq!(hidden.map(is_running), [false; 3]);
    assert_eq!(test_env.record(&id)["status"], "orphaned");
}

#[test]
fn i10_hidden_members_are_stopped_when_the_command_exits() {
    let test_env = tree();
    let directory = test_env.path().join("play");
    let id = start(&test_env, &directory, &HIDERS.replace("exec sleep 600", "exit 0"));
    let hidden = hiders(&directory);
    assert_eq!(test_env.wait_until_ended(&id)["status"], "completed");
    assert_eq!(hidden.map(is_running), [false; 3]);
}

#[test]
fn i10_a_process_with_a_forged_cookie_is_stopped() {
    for containment in ["tree", "auto"] {
        let test_env =
            TestEnv::new().with_settings(&format!("contain = \"{containment}\"\nstop.grace = \"500ms\"\n"));
        let directory = test_env.path().join("play");
        let script = "SEXTON_SESSION_ID=nosuchsession setsid sh -c 'echo $$ > forged; exec sleep 777' & \
                      touch ready; exec sleep 600";
        let id = start(&test_env, &directory, script);
        let forged = read_pid(&directory, "forged");
        test_env.ok(&["stop", &id]);
        assert!(!is_running(forged), "{containment}");
    }
}

#[test]
fn i2_a_nested_session_survives_the_outer_one_with_and_without_a_supervisor() {
    for containment in ["tree", "auto"] {
        for supervised in [true, false] {
            let test_env = TestEnv::new()
                .with_settings(&format!("contain = \"{containment}\"\nstop.grace = \"500ms\"\n"));
            let directory = test_env.path().join("play");
            std::fs::create_dir_all(&directory).unwrap();
            let inner = "env -i sh -c 'echo $$ > cleared; exec sleep 777' & exec sleep 600";
            std::fs::write(directory.join("inner.sh"), inner).unwrap();
            let program = support::quoted_program();
            let script = format!("{program} run -d --name inner -- sh inner.sh; touch ready; exec sleep 600");
            let outer = start(&test_env, &directory, &script);
            let cleared = read_pid(&directory, "cleared");
            let record = test_env.record("inner");
            if !supervised {
                kill_and_wait(pid(&record, "supervisor"));
            }
            test_env.ok(&["stop", &outer]);
            assert!(is_running(pid(&record, "process")), "{containment}, supervised: {supervised}");
            assert!(is_running(cleared), "{containment}, supervised: {supervised}");
            test_env.ok(&["stop", "inner"]);
            assert!(!is_running(pid(&record, "process")) && !is_running(cleared));
        }
    }
}

#[test]
fn i2_a_proc_mount_of_another_pid_namespace_is_refused_by_every_probe() {
    let test_env = tree();
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let is_root = rustix::process::geteuid().is_root();
    let linked = [("linux", cfg!(feature = "proc-linux")), ("portable", cfg!(feature = "proc-portable"))];
    let named = linked.into_iter().filter_map(|(probe, is_linked)| is_linked.then_some(probe));
    for probe in named.chain(["auto"]) {
        let mut command = Command::new("unshare");
        if !is_root {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--pid", "--fork", "--kill-child", "--", &support::program(), "--probe", probe]);
        command.args(["stop", &id]);
        test_env.enclose(&mut command);
        let refused = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{probe}: {stderr}");
        assert!(stderr.contains("/proc shows another pid namespace"), "{probe}: {stderr}");
        assert!(stderr.contains("mount -t proc proc /proc"), "{probe}: {stderr}");
    }
    assert_eq!(test_env.record(&id)["status"], "running");
    test_env.ok(&["stop", &id]);
}

/// If the processes cannot be listed, that does not mean that there are none.
#[cfg(feature = "proc-portable")]
#[test]
fn i10_a_failed_listing_of_processes_does_not_mean_that_none_is_left() {
    let test_env = tree();
    let script = "setsid sleep 600 & echo $! > member; exec sleep 600";
    let id = test_env.ok(&["--probe", "portable", "run", "-d", "--", "sh", "-c", script]);
    let member = read_pid(&test_env.work_dir(), "member");
    for whose in ["supervisor", "process"] {
        kill_and_wait(pid(&test_env.record(&id), whose));
    }
    let mut traced = Command::new("strace");
    test_env.enclose(&mut traced);
    traced.args(["-f", "-qq", "-o", "/dev/null", "-P", "/proc", "-e", "trace=openat"]);
    traced.args(["-e", "inject=openat:error=ENFILE", &support::program(), "--probe", "portable", "recover"]);
    let ran = support::Ran::of(&traced.output().unwrap());
    assert_ne!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(is_running(member));
    test_env.ok(&["--probe", "portable", "recover"]);
    eventually("no process of the session is left", || !is_running(member));
}

/// A forgotten session is never looked at again, so its processes would stay.
#[test]
fn i10_a_session_with_a_live_process_is_not_forgotten() {
    let test_env = tree();
    let script = "setsid sleep 600 & echo $! > member; exec sleep 600";
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", script]);
    let member = read_pid(&test_env.work_dir(), "member");
    for whose in ["supervisor", "process"] {
        kill_and_wait(pid(&test_env.record(&id), whose));
    }
    let refused = test_env.sexton(&["forget", &id]);
    assert_eq!(refused.code, 1, "{}{}", refused.stdout, refused.stderr);
    assert!(is_running(member) && test_env.record(&id)["status"] == "running");
    // The hint helps.
    assert!(refused.stderr.contains(&format!("`sexton stop {id}`")), "{}", refused.stderr);
    test_env.ok(&["stop", &id]);
    assert!(!is_running(member));
}
