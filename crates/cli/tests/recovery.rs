//! Recovery through the real program: whose sessions it ends, whose it adopts, and whom it leaves alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;
use sexton_core::Time;
use sexton_core::session::{Ending, EndingReason};
use support::effort::trials;
use support::records::edit_record;
use support::strace::{signals_in, trace};
use support::{Bystander, Yard, carriers, eventually, is_running, kill_9, send_signal};

const QUICK: &str = "contain = \"tree\"\nstore.durability = \"process\"\nstop.grace = \"300ms\"\n";

/// The probes that are linked in.
fn probes() -> Vec<&'static str> {
    let linked = [("linux", cfg!(feature = "proc-linux")), ("portable", cfg!(feature = "proc-portable"))];
    linked.into_iter().filter(|(_, linked)| *linked).map(|(probe, _)| probe).collect()
}

/// A yard whose owners' deaths are noticed by a supervisor after `grace`.
fn yard_with(probe: &str, grace: &str) -> Yard {
    Yard::new().with_settings(&format!("{QUICK}probe = \"{probe}\"\nowner.grace = \"{grace}\"\n"))
}

fn pid(record: &Value, whose: &str) -> u64 {
    record[whose]["pid"].as_u64().unwrap()
}

/// Starts `script` under `owner`.
fn start_owned(yard: &Yard, owner: &Bystander, script: &str) -> String {
    yard.ok(&["run", "-d", "--owner-pid", &owner.pid(), "--", "sh", "-c", script])
}

fn kill_supervisor(yard: &Yard, id: &str) {
    let supervisor = pid(&yard.record(id), "supervisor");
    kill_9(supervisor);
    eventually("the supervisor is gone", || !is_running(supervisor));
}

/// A session whose owner and supervisor were killed: only recovery can tell that it is nobody's.
fn abandoned(yard: &Yard, script: &str) -> String {
    let mut owner = Bystander::start();
    let id = start_owned(yard, &owner, script);
    kill_supervisor(yard, &id);
    owner.end();
    id
}

fn status_and_cause(record: &Value) -> (&str, &str) {
    (record["status"].as_str().unwrap(), record["recovery"]["cause"].as_str().unwrap_or(""))
}

#[test]
fn a_stop_that_was_killed_long_ago_does_not_decide_how_a_session_ended() {
    let yard = Yard::new();
    let go = yard.path().join("go");
    let script = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    let id = yard.ok(&["run", "-d", "--", "sh", "-c", &script]);
    let an_hour_ago = Time::from(Timestamp::now()).saturating_sub(Duration::from_secs(3600));
    let stop = Ending::new(EndingReason::Stopped, "stop", an_hour_ago).within(Duration::from_secs(5));
    edit_record(&yard, &id, |session| session.ending = Some(stop.clone()));
    std::fs::write(&go, "").unwrap();
    let ended = yard.wait_until_ended(&id);
    assert_eq!((ended["status"].as_str(), ended["exit"]["code"].as_i64()), (Some("completed"), Some(0)));
}

#[test]
fn i10_an_orphan_is_ended_whole_and_recorded_and_others_live_on() {
    for probe in probes() {
        let yard = yard_with(probe, "10m");
        let bystander = Bystander::start();
        let free = yard.ok(&["run", "-d", "--", "sleep", "600"]);
        let orphan = abandoned(&yard, "setsid sleep 601 & (setsid sleep 602 &); exec sleep 603");
        eventually("all three run", || carriers(&orphan).len() >= 3);
        let report = yard.json(&["recover"]);
        assert_eq!((report["orphans"].as_i64(), report["ended"].as_i64()), (Some(1), Some(1)), "{report}");
        assert_eq!(carriers(&orphan), [0; 0], "{probe}");
        assert_eq!(status_and_cause(&yard.record(&orphan)), ("orphaned", "owner_dead"));
        assert!(is_running(pid(&yard.record(&free), "process")));
        assert!(is_running(bystander.0.id().into()));
        let again = yard.json(&["recover"]);
        assert_eq!((again["orphans"].as_i64(), again["backup"].is_null()), (Some(0), true), "{again}");
    }
}

#[test]
fn a_supervisor_that_lives_records_the_end_that_recovery_brought() {
    for probe in probes() {
        let yard = yard_with(probe, "10m");
        let mut owner = Bystander::start();
        let id = start_owned(&yard, &owner, "exec sleep 600");
        owner.end();
        let report = yard.json(&["recover"]);
        assert_eq!(report["ended"], 1, "{report}");
        let record = yard.record(&id);
        assert_eq!(status_and_cause(&record), ("orphaned", "owner_dead"));
        assert_eq!(record["exit"]["signal"], 2, "only its parent could tell: {record}");
        assert_eq!(carriers(&id), [0; 0]);
    }
}

#[test]
fn i8_a_session_that_ends_well_is_never_an_orphan_however_often_recovery_looks() {
    let probes = probes();
    for probe in &probes {
        let yard = yard_with(probe, "10m");
        yard.ok(&["run", "--", "true"]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let ran = yard.sexton(&["recover"]);
                        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
                    }
                });
            }
            for _ in 0..trials(50) / probes.len() {
                let id = yard.ok(&["run", "-d", "--", "true"]);
                assert_eq!(yard.wait_until_ended(&id)["status"], "completed");
            }
            done.store(true, Ordering::Relaxed);
        });
        let records = yard.json(&["ps", "-a"]);
        assert!(records.as_array().unwrap().iter().all(|record| record["recovery"].is_null()));
    }
}

/// How many processes a recovery looks at before the command of `id`.
#[cfg(all(feature = "proc-linux", feature = "store-json"))]
fn looks_before(yard: &Yard, id: &str, looks: &std::path::Path) -> usize {
    let mut command = std::process::Command::new("strace");
    yard.enclose(&mut command);
    command.args(["-f", "--seccomp-bpf", "-qq", "-e", "trace=pidfd_open", "-o"]).arg(looks);
    assert!(command.arg(support::program()).arg("recover").output().unwrap().status.success());
    let wanted = format!("pidfd_open({},", pid(&yard.record(id), "process"));
    let text = std::fs::read_to_string(looks).unwrap();
    std::fs::remove_file(looks).unwrap();
    text.lines().position(|line| line.contains(&wanted)).expect("recovery looks at the command")
}

#[test]
#[cfg(all(feature = "proc-linux", feature = "store-json"))]
fn i8_an_exit_file_that_appears_while_recovery_looks_is_what_counts() {
    let yard = Yard::on("json").with_settings(&format!("{QUICK}probe = \"linux\"\n"));
    let marker = yard.path().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.01; done; exit 5", marker.display());
    let id = yard.ok(&["run", "-d", "--", "sh", "-c", &script]);
    let supervisor = pid(&yard.record(&id), "supervisor");
    // Recovery has read which exit files there are, and dawdles before it looks at the command.
    let looks = yard.path().join("looks");
    let before = looks_before(&yard, &id, &looks);
    let delay = format!("inject=pidfd_open:delay_enter=8000000:when={}", before + 1);
    let mut slow = std::process::Command::new("strace");
    yard.enclose(&mut slow);
    slow.args(["-f", "--seccomp-bpf", "-qq", "-e", "trace=pidfd_open", "-e", &delay, "-o"]).arg(&looks);
    slow.arg(support::program()).args(["recover", "--json"]);
    let slow = slow.stdout(std::process::Stdio::piped()).spawn().unwrap();
    eventually("recovery looks", || {
        let text = std::fs::read_to_string(&looks).unwrap_or_default();
        text.matches("pidfd_open(").count() > before
    });
    // A directory in the place of the lock: the supervisor has to write an exit file.
    let lock = yard.state_dir().join("sessions.jsonl.lock");
    std::fs::rename(&lock, lock.with_extension("aside")).unwrap();
    std::fs::create_dir(&lock).unwrap();
    std::fs::write(&marker, "").unwrap();
    eventually("the supervisor has ended", || !is_running(supervisor));
    std::fs::remove_dir(&lock).unwrap();
    std::fs::rename(lock.with_extension("aside"), &lock).unwrap();
    let report: Value = serde_json::from_slice(&slow.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(report["orphans"], 0, "{report}");
    let record = yard.record(&id);
    assert_eq!(
        (record["status"].as_str(), record["exit"]["code"].as_i64()),
        (Some("failed"), Some(5)),
        "{record}"
    );
}

#[test]
fn i2_a_record_of_another_boot_is_marked_and_nobody_is_signalled() {
    for probe in probes() {
        let yard = yard_with(probe, "10m");
        let id = abandoned(&yard, "exec sleep 600");
        let command = pid(&yard.record(&id), "process");
        edit_record(&yard, &id, |session| {
            for identity in [&mut session.process, &mut session.supervisor, &mut session.owner] {
                identity.as_mut().unwrap().boot_id = Some("of-another-boot".to_owned());
            }
        });
        assert_eq!(signals_in(&trace(&yard, &["recover"])), [""; 0], "{probe}");
        assert_eq!(status_and_cause(&yard.record(&id)), ("orphaned", "host_rebooted"));
        assert!(is_running(command));
        kill_9(command);
    }
}

#[test]
fn i2_a_record_of_another_host_is_left_alone_and_said() {
    for probe in probes() {
        let yard = yard_with(probe, "10m");
        let id = abandoned(&yard, "exec sleep 600");
        let command = pid(&yard.record(&id), "process");
        edit_record(&yard, &id, |session| session.host.machine_id = "another".to_owned());
        let before = yard.record(&id);
        assert_eq!(signals_in(&trace(&yard, &["recover"])), [""; 0], "{probe}");
        let report = yard.json(&["recover"]);
        assert_eq!((report["left_alone"].as_i64(), report["orphans"].as_i64()), (Some(1), Some(0)));
        assert_eq!(yard.record(&id), before);
        assert!(is_running(command));
        kill_9(command);
    }
}

#[test]
#[cfg(feature = "proc-linux")]
fn i2_a_record_of_another_pid_namespace_is_unknown_until_its_user_says_that_it_is_gone() {
    let yard = yard_with("linux", "10m");
    let id = abandoned(&yard, "exec sleep 600");
    let command = pid(&yard.record(&id), "process");
    edit_record(&yard, &id, |session| {
        for identity in [&mut session.process, &mut session.supervisor, &mut session.owner] {
            identity.as_mut().unwrap().pid_namespace = Some(1);
        }
    });
    let before = yard.record(&id);
    assert_eq!(signals_in(&trace(&yard, &["recover"])), [""; 0]);
    let report = yard.json(&["recover"]);
    assert_eq!((report["unknown"].as_i64(), report["orphans"].as_i64()), (Some(1), Some(0)), "{report}");
    assert_eq!(yard.record(&id), before);
    assert_eq!(signals_in(&trace(&yard, &["forget", &id])), [""; 0]);
    assert_eq!(status_and_cause(&yard.record(&id)), ("orphaned", "forgotten"));
    assert!(is_running(command), "nobody is signalled on anybody's word");
    kill_9(command);
}

#[test]
#[cfg(feature = "proc-linux")]
fn i2_a_recovery_in_another_pid_namespace_judges_nobody() {
    let yard = yard_with("linux", "10m");
    let id = abandoned(&yard, "exec sleep 600");
    let before = yard.record(&id);
    let mut inside = std::process::Command::new("unshare");
    yard.enclose(&mut inside);
    inside.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
    let output = inside.arg(support::program()).args(["recover", "--json"]).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {complaint}"));
    assert_eq!((report["unknown"].as_i64(), report["orphans"].as_i64()), (Some(1), Some(0)), "{report}");
    assert_eq!(yard.record(&id), before);
    assert!(is_running(pid(&before, "process")));
}

#[test]
fn i2_a_process_that_has_the_pid_of_a_dead_command_is_not_signalled() {
    for probe in probes() {
        let yard = yard_with(probe, "10m");
        let id = abandoned(&yard, "exec sleep 600");
        kill_9(pid(&yard.record(&id), "process"));
        eventually("the command is gone", || carriers(&id).is_empty());
        let stranger = Bystander::start();
        edit_record(&yard, &id, |session| {
            let process = session.process.as_mut().unwrap();
            process.pid = stranger.0.id();
            // A second is as exactly as the portable probe can tell.
            process.start_time_us = process.start_time_us.map(|time| time - 10_000_000);
        });
        assert_eq!(signals_in(&trace(&yard, &["recover"])), [""; 0], "{probe}");
        assert!(is_running(stranger.0.id().into()));
        let record = yard.record(&id);
        match probe {
            "linux" => assert_eq!(status_and_cause(&record), ("orphaned", "pid_reused")),
            // Its evidence is too weak to tell.
            _ => assert_eq!(record["status"], "running"),
        }
        if record["status"] == "running" {
            yard.ok(&["forget", &id]);
        }
        assert!(is_running(stranger.0.id().into()));
    }
}

#[test]
fn i9_a_clock_that_is_a_year_off_prunes_nothing_that_runs() {
    const LONG: Duration = Duration::from_secs(400 * 24 * 60 * 60);
    let strict = ["recover", "--ttl", "1s", "--keep", "0", "--stale", "1s", "--min-age", "0s"];
    for probe in probes() {
        for back in [true, false] {
            let yard = yard_with(probe, "10m");
            let id = yard.ok(&["run", "-d", "--", "sleep", "600"]);
            edit_record(&yard, &id, |session| {
                for time in [Some(&mut session.created_at), session.started_at.as_mut()].into_iter().flatten()
                {
                    *time = if back { time.saturating_sub(LONG) } else { time.saturating_add(LONG) };
                }
            });
            let before = yard.record(&id);
            assert_eq!(signals_in(&trace(&yard, &strict)), [""; 0]);
            yard.ok(&["prune", "--ttl", "1s", "--keep", "0"]);
            assert_eq!(yard.record(&id), before);
            assert!(is_running(pid(&before, "process")));
            yard.ok(&["stop", "--force", &id]);
        }
    }
}

#[test]
fn recovery_from_inside_the_session_that_it_ends_is_recorded_and_ends_everything() {
    for probe in probes() {
        for supervised in [true, false] {
            let yard = yard_with(probe, "10m");
            let go = yard.path().join("go");
            let sexton = support::program();
            let script = format!(
                "sleep 600 & while [ ! -e {} ]; do sleep 0.01; done; {sexton} recover; sleep 601",
                go.display()
            );
            let mut owner = Bystander::start();
            let id = start_owned(&yard, &owner, &script);
            if !supervised {
                kill_supervisor(&yard, &id);
            }
            owner.end();
            std::fs::write(&go, "").unwrap();
            let record = yard.wait_until_ended(&id);
            assert_eq!(status_and_cause(&record), ("orphaned", "owner_dead"), "{probe}: {record}");
            eventually("everything has ended", || carriers(&id).is_empty());
        }
    }
}

#[test]
fn an_adopted_session_lives_and_dies_with_its_new_owner() {
    for probe in probes() {
        let yard = yard_with(probe, "20ms");
        let (mut first, mut second) = (Bystander::start(), Bystander::start());
        let id = start_owned(&yard, &first, "setsid sleep 600 & exec sleep 601");
        let supervisor = pid(&yard.record(&id), "supervisor");
        // It would end the orphan at once; stopped, it leaves time to adopt it.
        send_signal(supervisor, Signal::STOP);
        first.end();
        let report = yard.json(&["recover", "--adopt", "--owner-pid", &second.pid()]);
        assert_eq!((report["adopted"].as_i64(), report["ended"].as_i64()), (Some(1), Some(0)), "{report}");
        let record = yard.record(&id);
        assert_eq!((pid(&record, "owner"), pid(&record, "supervisor")), (second.0.id().into(), supervisor));
        send_signal(supervisor, Signal::CONT);
        assert_eq!(yard.json(&["recover"])["orphans"], 0);
        let died = jiff::Timestamp::now();
        second.end();
        let record = yard.wait_until_ended(&id);
        assert_eq!(status_and_cause(&record), ("orphaned", "owner_dead"), "{probe}");
        let evidence = record["recovery"]["evidence"].as_str().unwrap();
        assert!(evidence.contains(&second.pid()), "{evidence}");
        let ended: jiff::Timestamp = record["finished_at"].as_str().unwrap().parse().unwrap();
        assert!(ended >= died, "it was ended for its first owner's sake");
        eventually("its processes are gone", || carriers(&id).is_empty());
    }
}

#[test]
fn an_adopted_session_without_a_supervisor_gets_one() {
    for probe in probes() {
        let yard = yard_with(probe, "20ms");
        let mut owner = Bystander::start();
        let id = abandoned(&yard, "setsid sleep 600 & exec sleep 601");
        let lost = pid(&yard.record(&id), "supervisor");
        yard.ok(&["recover", "--adopt", "--owner-pid", &owner.pid()]);
        eventually("another supervisor is recorded", || pid(&yard.record(&id), "supervisor") != lost);
        let record = yard.record(&id);
        assert_eq!(pid(&record, "owner"), u64::from(owner.0.id()));
        assert!(is_running(pid(&record, "supervisor")) && is_running(pid(&record, "process")));
        owner.end();
        let record = yard.wait_until_ended(&id);
        assert_eq!(status_and_cause(&record), ("orphaned", "owner_dead"), "{probe}: {record}");
        eventually("its processes are gone", || carriers(&id).is_empty());
    }
}

#[test]
fn the_end_of_an_adopted_command_is_recorded_by_its_new_supervisor() {
    for probe in probes() {
        let yard = yard_with(probe, "20ms");
        let go = yard.path().join("go");
        let script = format!("setsid sleep 600 & while [ ! -e {} ]; do sleep 0.01; done", go.display());
        let id = abandoned(&yard, &script);
        let lost = pid(&yard.record(&id), "supervisor");
        yard.ok(&["recover", "--adopt"]);
        assert!(yard.record(&id)["owner"].is_null());
        eventually("another supervisor is recorded", || pid(&yard.record(&id), "supervisor") != lost);
        std::fs::write(&go, "").unwrap();
        let record = yard.wait_until_ended(&id);
        assert_eq!(record["exit"]["reason"], "unknown", "{probe}: {record}");
        assert!(record["exit"]["code"].is_null());
        eventually("its processes are gone", || carriers(&id).is_empty());
        assert_eq!(yard.json(&["recover"])["orphans"], 0);
    }
}
