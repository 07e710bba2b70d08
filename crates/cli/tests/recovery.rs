//! Recovery, with the real program: which sessions it stops, adopts and leaves alone.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;
use sexton_core::Time;
use sexton_core::session::{Ending, EndingReason};
use support::effort::trials;
use support::records::{edit_record, move_elsewhere};
use support::strace::{signals_in, trace};
use support::{Bystander, TestEnv, carriers, eventually, is_running, kill_9, send_signal};

const QUICK: &str = "contain = \"tree\"\nstore.durability = \"process\"\nstop.grace = \"300ms\"\n";

/// Returns the probes that are linked in.
fn probes() -> Vec<&'static str> {
    let linked = [("linux", cfg!(feature = "proc-linux")), ("portable", cfg!(feature = "proc-portable"))];
    linked.into_iter().filter(|(_, linked)| *linked).map(|(probe, _)| probe).collect()
}

/// Creates a test environment in which supervisors react to the death of an owner after `grace`.
fn test_env_with(probe: &str, grace: &str) -> TestEnv {
    TestEnv::new().with_settings(&format!("{QUICK}probe = \"{probe}\"\nowner.grace = \"{grace}\"\n"))
}

fn pid(record: &Value, whose: &str) -> u64 {
    record[whose]["pid"].as_u64().unwrap()
}

/// Starts a session that `owner` owns.
fn start_owned(test_env: &TestEnv, owner: &Bystander, script: &str) -> String {
    test_env.ok(&["run", "-d", "--owner-pid", &owner.pid(), "--", "sh", "-c", script])
}

fn kill_supervisor(test_env: &TestEnv, id: &str) {
    let supervisor = pid(&test_env.record(id), "supervisor");
    kill_9(supervisor);
    eventually("the supervisor is gone", || !is_running(supervisor));
}

/// Creates a session whose owner and supervisor were killed, so that only recovery can detect the orphan.
fn abandoned(test_env: &TestEnv, script: &str) -> String {
    let mut owner = Bystander::start();
    let id = start_owned(test_env, &owner, script);
    kill_supervisor(test_env, &id);
    owner.end();
    id
}

fn status_and_cause(record: &Value) -> (&str, &str) {
    (record["status"].as_str().unwrap(), record["recovery"]["cause"].as_str().unwrap_or(""))
}

#[test]
fn an_old_interrupted_stop_does_not_change_how_a_session_ended() {
    let test_env = TestEnv::new();
    let go = test_env.path().join("go");
    let script = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", &script]);
    let an_hour_ago = Time::from(Timestamp::now()).saturating_sub(Duration::from_secs(3600));
    let stop = Ending::new(EndingReason::Stopped, "stop", an_hour_ago).within(Duration::from_secs(5));
    edit_record(&test_env, &id, |session| session.ending = Some(stop.clone()));
    std::fs::write(&go, "").unwrap();
    let ended = test_env.wait_until_ended(&id);
    assert_eq!((ended["status"].as_str(), ended["exit"]["code"].as_i64()), (Some("completed"), Some(0)));
}

#[test]
fn i10_recovery_stops_all_processes_of_an_orphan_and_no_others() {
    for probe in probes() {
        let test_env = test_env_with(probe, "10m");
        let bystander = Bystander::start();
        let free = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
        let orphan = abandoned(&test_env, "setsid sleep 601 & (setsid sleep 602 &); exec sleep 603");
        eventually("all three run", || carriers(&orphan).len() >= 3);
        let report = test_env.json(&["recover"]);
        assert_eq!((report["orphans"].as_i64(), report["ended"].as_i64()), (Some(1), Some(1)), "{report}");
        assert_eq!(carriers(&orphan), [0; 0], "{probe}");
        assert_eq!(status_and_cause(&test_env.record(&orphan)), ("orphaned", "owner_dead"));
        assert!(is_running(pid(&test_env.record(&free), "process")));
        assert!(is_running(bystander.0.id().into()));
        let again = test_env.json(&["recover"]);
        assert_eq!((again["orphans"].as_i64(), again["backup"].is_null()), (Some(0), true), "{again}");
    }
}

#[test]
fn a_live_supervisor_records_the_end_that_recovery_caused() {
    for probe in probes() {
        let test_env = test_env_with(probe, "10m");
        let mut owner = Bystander::start();
        let id = start_owned(&test_env, &owner, "exec sleep 600");
        owner.end();
        let report = test_env.json(&["recover"]);
        assert_eq!(report["ended"], 1, "{report}");
        let record = test_env.record(&id);
        assert_eq!(status_and_cause(&record), ("orphaned", "owner_dead"));
        assert_eq!(record["exit"]["signal"], 2, "only the parent knows the signal: {record}");
        assert_eq!(carriers(&id), [0; 0]);
    }
}

#[test]
fn i8_concurrent_recoveries_never_mark_a_completed_session_as_an_orphan() {
    let probes = probes();
    for probe in &probes {
        let test_env = test_env_with(probe, "10m");
        test_env.ok(&["run", "--", "true"]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let ran = test_env.sexton(&["recover"]);
                        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
                    }
                });
            }
            for _ in 0..trials(50) / probes.len() {
                let id = test_env.ok(&["run", "-d", "--", "true"]);
                assert_eq!(test_env.wait_until_ended(&id)["status"], "completed");
            }
            done.store(true, Ordering::Relaxed);
        });
        let records = test_env.json(&["ps", "-a"]);
        assert!(records.as_array().unwrap().iter().all(|record| record["recovery"].is_null()));
    }
}

/// Returns how many processes a recovery opens before the command of `id`.
#[cfg(all(feature = "proc-linux", feature = "store-json"))]
fn opens_before(test_env: &TestEnv, id: &str, trace: &std::path::Path) -> usize {
    let mut command = std::process::Command::new("strace");
    test_env.enclose(&mut command);
    command.args(["-f", "--seccomp-bpf", "-qq", "-e", "trace=pidfd_open", "-o"]).arg(trace);
    assert!(command.arg(support::program()).arg("recover").output().unwrap().status.success());
    let wanted = format!("pidfd_open({},", pid(&test_env.record(id), "process"));
    let text = std::fs::read_to_string(trace).unwrap();
    std::fs::remove_file(trace).unwrap();
    text.lines().position(|line| line.contains(&wanted)).expect("recovery opens the command")
}

#[test]
#[cfg(all(feature = "proc-linux", feature = "store-json"))]
fn i8_an_exit_file_written_during_recovery_decides_the_status() {
    let test_env = TestEnv::on("json").with_settings(&format!("{QUICK}probe = \"linux\"\n"));
    let marker = test_env.path().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.01; done; exit 5", marker.display());
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", &script]);
    let supervisor = pid(&test_env.record(&id), "supervisor");
    // Delay recovery after it has listed the exit files and before it opens the command.
    let opens = test_env.path().join("opens");
    let before = opens_before(&test_env, &id, &opens);
    let delay = format!("inject=pidfd_open:delay_enter=8000000:when={}", before + 1);
    let mut slow = std::process::Command::new("strace");
    test_env.enclose(&mut slow);
    slow.args(["-f", "--seccomp-bpf", "-qq", "-e", "trace=pidfd_open", "-e", &delay, "-o"]).arg(&opens);
    slow.arg(support::program()).args(["recover", "--json"]);
    let slow = slow.stdout(std::process::Stdio::piped()).spawn().unwrap();
    eventually("recovery opens the command", || {
        let text = std::fs::read_to_string(&opens).unwrap_or_default();
        text.matches("pidfd_open(").count() > before
    });
    // With a directory in place of the lock, the supervisor has to write an exit file.
    let lock = test_env.state_dir().join("sessions.jsonl.lock");
    std::fs::rename(&lock, lock.with_extension("aside")).unwrap();
    std::fs::create_dir(&lock).unwrap();
    std::fs::write(&marker, "").unwrap();
    eventually("the supervisor has ended", || !is_running(supervisor));
    std::fs::remove_dir(&lock).unwrap();
    std::fs::rename(lock.with_extension("aside"), &lock).unwrap();
    let report: Value = serde_json::from_slice(&slow.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(report["orphans"], 0, "{report}");
    let record = test_env.record(&id);
    assert_eq!(
        (record["status"].as_str(), record["exit"]["code"].as_i64()),
        (Some("failed"), Some(5)),
        "{record}"
    );
}

#[test]
fn i2_a_record_of_another_boot_is_marked_without_a_signal() {
    for probe in probes() {
        let test_env = test_env_with(probe, "10m");
        let id = abandoned(&test_env, "exec sleep 600");
        let command = pid(&test_env.record(&id), "process");
        edit_record(&test_env, &id, |session| {
            for identity in [&mut session.process, &mut session.supervisor, &mut session.owner] {
                identity.as_mut().unwrap().boot_id = Some("of-another-boot".to_owned());
            }
        });
        assert_eq!(signals_in(&trace(&test_env, &["recover"])), [""; 0], "{probe}");
        assert_eq!(status_and_cause(&test_env.record(&id)), ("orphaned", "host_rebooted"));
        assert!(is_running(command));
        kill_9(command);
    }
}

#[test]
fn i2_a_record_of_another_host_is_left_alone_and_reported() {
    for probe in probes() {
        let test_env = test_env_with(probe, "10m");
        let id = abandoned(&test_env, "exec sleep 600");
        let command = pid(&test_env.record(&id), "process");
        edit_record(&test_env, &id, move_elsewhere);
        let before = test_env.record(&id);
        assert_eq!(signals_in(&trace(&test_env, &["recover"])), [""; 0], "{probe}");
        let report = test_env.json(&["recover"]);
        assert_eq!((report["left_alone"].as_i64(), report["orphans"].as_i64()), (Some(1), Some(0)));
        assert_eq!(test_env.record(&id), before);
        assert!(is_running(command));
        kill_9(command);
    }
}

#[test]
#[cfg(feature = "proc-linux")]
fn i2_a_record_of_another_pid_namespace_stays_unknown_until_forget() {
    let test_env = test_env_with("linux", "10m");
    let id = abandoned(&test_env, "exec sleep 600");
    let command = pid(&test_env.record(&id), "process");
    edit_record(&test_env, &id, |session| {
        for identity in [&mut session.process, &mut session.supervisor, &mut session.owner] {
            identity.as_mut().unwrap().pid_namespace = Some(1);
        }
    });
    let before = test_env.record(&id);
    assert_eq!(signals_in(&trace(&test_env, &["recover"])), [""; 0]);
    let report = test_env.json(&["recover"]);
    assert_eq!((report["unknown"].as_i64(), report["orphans"].as_i64()), (Some(1), Some(0)), "{report}");
    assert_eq!(test_env.record(&id), before);
    assert_eq!(signals_in(&trace(&test_env, &["forget", &id])), [""; 0]);
    assert_eq!(status_and_cause(&test_env.record(&id)), ("orphaned", "forgotten"));
    assert!(is_running(command), "forget must not send a signal");
    kill_9(command);
}

#[test]
#[cfg(feature = "proc-linux")]
fn i2_a_recovery_in_another_pid_namespace_changes_no_session() {
    let test_env = test_env_with("linux", "10m");
    let id = abandoned(&test_env, "exec sleep 600");
    let before = test_env.record(&id);
    let mut inside = std::process::Command::new("unshare");
    test_env.enclose(&mut inside);
    inside.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    let output = inside.arg(support::program()).args(["recover", "--json"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert_eq!((report["unknown"].as_i64(), report["orphans"].as_i64()), (Some(1), Some(0)), "{report}");
    assert_eq!(test_env.record(&id), before);
    assert!(is_running(pid(&before, "process")));
}

#[test]
fn i2_a_process_that_reused_the_pid_of_a_command_gets_no_signal() {
    for probe in probes() {
        let test_env = test_env_with(probe, "10m");
        let id = abandoned(&test_env, "exec sleep 600");
        kill_9(pid(&test_env.record(&id), "process"));
        eventually("the command is gone", || carriers(&id).is_empty());
        let stranger = Bystander::start();
        edit_record(&test_env, &id, |session| {
            let process = session.process.as_mut().unwrap();
            process.pid = stranger.0.id();
            // The portable probe knows start times only to the second.
            process.start_time_us = process.start_time_us.map(|time| time - 10_000_000);
        });
        assert_eq!(signals_in(&trace(&test_env, &["recover"])), [""; 0], "{probe}");
        assert!(is_running(stranger.0.id().into()));
        let record = test_env.record(&id);
        match probe {
            "linux" => assert_eq!(status_and_cause(&record), ("orphaned", "pid_reused")),
            // Its evidence is too weak for a decision.
            _ => assert_eq!(record["status"], "running"),
        }
        if record["status"] == "running" {
            test_env.ok(&["forget", &id]);
        }
        assert!(is_running(stranger.0.id().into()));
    }
}

#[test]
fn i9_a_clock_that_is_a_year_off_prunes_no_running_session() {
    const LONG: Duration = Duration::from_secs(400 * 24 * 60 * 60);
    let strict = ["recover", "--ttl", "1s", "--keep", "0", "--stale", "1s", "--min-age", "0s"];
    for probe in probes() {
        for back in [true, false] {
            let test_env = test_env_with(probe, "10m");
            let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
            edit_record(&test_env, &id, |session| {
                for time in [Some(&mut session.created_at), session.started_at.as_mut()].into_iter().flatten()
                {
                    *time = if back { time.saturating_sub(LONG) } else { time.saturating_add(LONG) };
                }
            });
            let before = test_env.record(&id);
            assert_eq!(signals_in(&trace(&test_env, &strict)), [""; 0]);
            test_env.ok(&["prune", "--ttl", "1s", "--keep", "0"]);
            assert_eq!(test_env.record(&id), before);
            assert!(is_running(pid(&before, "process")));
            test_env.ok(&["stop", "--force", &id]);
        }
    }
}

#[test]
fn recovery_inside_the_session_that_it_stops_records_it_and_stops_every_process() {
    for probe in probes() {
        for supervised in [true, false] {
            let test_env = test_env_with(probe, "10m");
            let go = test_env.path().join("go");
            let sexton = support::quoted_program();
            let script = format!(
                "sleep 600 & while [ ! -e {} ]; do sleep 0.01; done; {sexton} recover; sleep 601",
                go.display()
            );
            let mut owner = Bystander::start();
            let id = start_owned(&test_env, &owner, &script);
            if !supervised {
                kill_supervisor(&test_env, &id);
            }
            owner.end();
            std::fs::write(&go, "").unwrap();
            let record = test_env.wait_until_ended(&id);
            assert_eq!(status_and_cause(&record), ("orphaned", "owner_dead"), "{probe}: {record}");
            eventually("everything has ended", || carriers(&id).is_empty());
        }
    }
}

#[test]
fn an_adopted_session_ends_with_its_new_owner() {
    for probe in probes() {
        let test_env = test_env_with(probe, "20ms");
        let (mut first, mut second) = (Bystander::start(), Bystander::start());
        let id = start_owned(&test_env, &first, "setsid sleep 600 & exec sleep 601");
        let supervisor = pid(&test_env.record(&id), "supervisor");
        // The supervisor would stop the orphan at once; SIGSTOP leaves time to adopt it.
        send_signal(supervisor, Signal::STOP);
        first.end();
        let report = test_env.json(&["recover", "--adopt", "--owner-pid", &second.pid()]);
        assert_eq!((report["adopted"].as_i64(), report["ended"].as_i64()), (Some(1), Some(0)), "{report}");
        let record = test_env.record(&id);
        assert_eq!((pid(&record, "owner"), pid(&record, "supervisor")), (second.0.id().into(), supervisor));
        send_signal(supervisor, Signal::CONT);
        assert_eq!(test_env.json(&["recover"])["orphans"], 0);
        let died = jiff::Timestamp::now();
        second.end();
        let record = test_env.wait_until_ended(&id);
        assert_eq!(status_and_cause(&record), ("orphaned", "owner_dead"), "{probe}");
        let evidence = record["recovery"]["evidence"].as_str().unwrap();
        assert!(evidence.contains(&second.pid()), "{evidence}");
        let ended: jiff::Timestamp = record["finished_at"].as_str().unwrap().parse().unwrap();
        assert!(ended >= died, "it was stopped because of its first owner");
        eventually("its processes are gone", || carriers(&id).is_empty());
    }
}

#[test]
fn an_adopted_session_without_a_supervisor_gets_one() {
    for probe in probes() {
        let test_env = test_env_with(probe, "20ms");
        let mut owner = Bystander::start();
        let id = abandoned(&test_env, "setsid sleep 600 & exec sleep 601");
        let lost = pid(&test_env.record(&id), "supervisor");
        test_env.ok(&["recover", "--adopt", "--owner-pid", &owner.pid()]);
        eventually("another supervisor is recorded", || pid(&test_env.record(&id), "supervisor") != lost);
        let record = test_env.record(&id);
        assert_eq!(pid(&record, "owner"), u64::from(owner.0.id()));
        assert!(is_running(pid(&record, "supervisor")) && is_running(pid(&record, "process")));
        owner.end();
        let record = test_env.wait_until_ended(&id);
        assert_eq!(status_and_cause(&record), ("orphaned", "owner_dead"), "{probe}: {record}");
        eventually("its processes are gone", || carriers(&id).is_empty());
    }
}

#[test]
fn the_end_of_an_adopted_command_is_recorded_by_its_new_supervisor() {
    for probe in probes() {
        let test_env = test_env_with(probe, "20ms");
        let go = test_env.path().join("go");
        let script = format!("setsid sleep 600 & while [ ! -e {} ]; do sleep 0.01; done", go.display());
        let id = abandoned(&test_env, &script);
        let lost = pid(&test_env.record(&id), "supervisor");
        test_env.ok(&["recover", "--adopt"]);
        assert!(test_env.record(&id)["owner"].is_null());
        eventually("another supervisor is recorded", || pid(&test_env.record(&id), "supervisor") != lost);
        std::fs::write(&go, "").unwrap();
        let record = test_env.wait_until_ended(&id);
        assert_eq!(record["exit"]["reason"], "unknown", "{probe}: {record}");
        assert!(record["exit"]["code"].is_null());
        eventually("its processes are gone", || carriers(&id).is_empty());
        assert_eq!(test_env.json(&["recover"])["orphans"], 0);
    }
}
