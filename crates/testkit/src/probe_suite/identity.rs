//! Identity and liveness of processes.

use std::thread;

use pollster::block_on;
use sexton_core::identity::Match;
use sexton_core::{Liveness, ProbeError, ProcessIdentity};

use super::ProbeSubject;
use super::test_env::TestEnv;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("identity":
    probe_identifies_its_own_process,
    child_is_identified_and_alive,
    repeated_identity_is_the_same,
    i2_identities_are_unique_if_declared_exact,
    unused_pid_is_gone,
    invalid_pid_is_gone,
    zombie_is_gone,
    exited_process_is_gone,
    stopped_process_is_alive,
    process_with_a_hostile_name_is_parsed_correctly,
    i2_other_evidence_for_the_same_pid_is_never_alive,
    i2_another_pid_namespace_is_unknown,
    i2_another_time_namespace_is_unknown,
    another_boot_is_gone,
    i2_bare_pid_is_unknown,
    i2_thread_is_not_a_process,
    threads_can_share_one_probe,
    live_process_is_described,
);

fn require_gone(outcome: &Result<ProcessIdentity, ProbeError>, pid: u32) {
    assert!(matches!(outcome, Err(ProbeError::Gone { pid: gone }) if *gone == pid), "{outcome:?}");
}

fn probe_identifies_its_own_process(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    assert_eq!(test_env.probe.name(), subject.name);
    let own = test_env.identify(std::process::id());
    assert_eq!(own.pid, std::process::id());
    assert_eq!(test_env.observe(&own), Liveness::Alive);
}

fn child_is_identified_and_alive(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let child = test_env.stranger(["say", "child"]);
    assert_eq!(child.pids(["child"]), [child.pid()]);
    let identity = test_env.identify(child.pid());
    assert_eq!(identity.pid, child.pid());
    assert_eq!(test_env.observe(&identity), Liveness::Alive);
}

fn repeated_identity_is_the_same(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let child = test_env.stranger(["say", "child"]);
    child.pids(["child"]);
    let (first, second) = (test_env.identify(child.pid()), test_env.identify(child.pid()));
    assert_eq!(first.compare(&second), Match::Same);
    // It survives serialization, because after a crash only the record is left.
    let written = serde_json::to_string(&first).expect("an identity has a JSON form");
    let read: ProcessIdentity = serde_json::from_str(&written).expect("an identity is read back");
    assert_eq!(test_env.observe(&read), Liveness::Alive);
}

fn i2_identities_are_unique_if_declared_exact(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let exact = test_env.probe.capabilities().exact_identity;
    let children: Vec<_> = (0..12).map(|_| test_env.stranger([""; 0])).collect();
    let identities: Vec<_> = children.iter().map(|child| test_env.identify(child.pid())).collect();
    for (n, one) in identities.iter().enumerate() {
        for other in &identities[n + 1..] {
            assert_ne!(one.compare(other), Match::Same, "two pids");
            // As if the second process had the pid of the first.
            let reused = ProcessIdentity { pid: one.pid, ..other.clone() };
            if exact {
                assert_eq!(one.compare(&reused), Match::Different, "{one:?} {other:?}");
            }
        }
    }
}

fn unused_pid_is_gone(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let child = test_env.stranger(["say", "child"]);
    child.pids(["child"]);
    let pid = child.pid();
    child.finish();
    require_gone(&block_on(test_env.probe.identify(pid)), pid);
}

fn invalid_pid_is_gone(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    // As signed numbers, these would address a process group or all processes.
    for pid in [0, u32::MAX, i32::MAX.unsigned_abs() + 1] {
        require_gone(&block_on(test_env.probe.identify(pid)), pid);
        let liveness = test_env.observe(&ProcessIdentity { pid, ..test_env.identify(std::process::id()) });
        assert_eq!(liveness, Liveness::Gone, "{pid}");
    }
}

fn zombie_is_gone(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let child = test_env.stranger(["say", "child"]);
    child.pids(["child"]);
    let identity = test_env.identify(child.pid());
    child.become_zombie();
    assert_eq!(test_env.observe(&identity), Liveness::Gone);
    require_gone(&block_on(test_env.probe.identify(child.pid())), child.pid());
}

fn exited_process_is_gone(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let child = test_env.stranger(["say", "child"]);
    child.pids(["child"]);
    let identity = test_env.identify(child.pid());
    child.finish();
    assert_eq!(test_env.observe(&identity), Liveness::Gone);
}

fn stopped_process_is_alive(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let child = test_env.stranger(["stop"]);
    child.wait_until_stopped();
    assert_eq!(test_env.observe(&test_env.identify(child.pid())), Liveness::Alive);
}

fn process_with_a_hostile_name_is_parsed_correctly(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    for name in ["a) S 1 (b", ")", "a b", "(", "x) Z 1 1", "a\nb"] {
        let child = test_env.stranger(["say", "before", "name", name, "say", "named"]);
        child.pids(["before"]);
        // Taken with the ordinary name, and observed with the hostile one.
        let identity = test_env.identify(child.pid());
        child.pids(["named"]);
        assert_eq!(test_env.observe(&identity), Liveness::Alive, "{name:?}");
        let again = test_env.identify(child.pid());
        assert_eq!(identity.compare(&again), Match::Same, "{name:?}");
        let details = block_on(test_env.probe.describe(child.pid())).expect("it can be described");
        assert_eq!(details.parent, Some(std::process::id()), "{name:?}");
    }
}

/// Returns identities that differ from `identity` in one piece of evidence each.
pub(super) fn altered(identity: &ProcessIdentity) -> Vec<ProcessIdentity> {
    let other = |number: Option<u64>| number.map(|number| number + 1_000_000);
    let mut altered = vec![identity.clone(); 3];
    altered[0].pidfd_inode = other(identity.pidfd_inode);
    altered[1].start_ticks = other(identity.start_ticks);
    altered[2].start_time_us = other(identity.start_time_us);
    // Ticks and times are ignored if there is an inode.
    if identity.pidfd_inode.is_some() {
        altered.truncate(1);
    }
    altered.retain(|altered| altered != identity);
    altered
}

fn i2_other_evidence_for_the_same_pid_is_never_alive(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let child = test_env.stranger(["say", "child"]);
    child.pids(["child"]);
    let altered = altered(&test_env.identify(child.pid()));
    assert!(!altered.is_empty(), "an identity without evidence proves nothing");
    for other in altered {
        let liveness = test_env.observe(&other);
        if test_env.probe.capabilities().exact_identity {
            assert_eq!(liveness, Liveness::Reused, "{other:?}");
        } else {
            assert!(matches!(liveness, Liveness::Reused | Liveness::Unknown(_)), "{other:?}: {liveness:?}");
        }
    }
}

fn require_unknown(test_env: &TestEnv, identity: &ProcessIdentity) {
    let liveness = test_env.observe(identity);
    assert!(matches!(&liveness, Liveness::Unknown(why) if !why.is_empty()), "{identity:?}: {liveness:?}");
}

fn i2_another_pid_namespace_is_unknown(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let own = test_env.identify(std::process::id());
    let elsewhere = own.pid_namespace.map_or(4_026_531_836, |inode| inode + 1);
    require_unknown(&test_env, &ProcessIdentity { pid_namespace: Some(elsewhere), ..own.clone() });
    // An unused pid here may be in use there, so it is not Gone.
    let unused = ProcessIdentity { pid: 0x3fff_fffe, pid_namespace: Some(elsewhere), ..own };
    require_unknown(&test_env, &unused);
}

fn i2_another_time_namespace_is_unknown(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let own = test_env.identify(std::process::id());
    let elsewhere = own.time_namespace.map_or(4_026_531_834, |inode| inode + 1);
    require_unknown(&test_env, &ProcessIdentity { time_namespace: Some(elsewhere), ..own });
}

fn another_boot_is_gone(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let own = test_env.identify(std::process::id());
    let before =
        ProcessIdentity { boot_id: Some("00000000-0000-4000-8000-000000000000".to_owned()), ..own.clone() };
    if own.boot_id.is_some() {
        assert_eq!(test_env.observe(&before), Liveness::Gone);
    } else {
        // A probe that does not know its boot cannot compare it.
        assert!(!test_env.probe.capabilities().exact_identity);
        require_unknown(&test_env, &before);
    }
}

fn i2_bare_pid_is_unknown(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    require_unknown(&test_env, &ProcessIdentity::of_pid(std::process::id()));
}

fn i2_thread_is_not_a_process(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    thread::scope(|scope| {
        let (sender, ready) = std::sync::mpsc::channel();
        let (finish, wait) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            sender.send(rustix::thread::gettid()).expect("the case waits for it");
            // The channel closes when the case is over, or has failed.
            _ = wait.recv();
        });
        let thread = ready.recv().expect("the thread sends its id").as_raw_nonzero().get().unsigned_abs();
        assert_ne!(thread, std::process::id());
        require_gone(&block_on(test_env.probe.identify(thread)), thread);
        drop(finish);
    });
}

fn threads_can_share_one_probe(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let child = test_env.stranger(["say", "child"]);
    child.pids(["child"]);
    let identity = test_env.identify(child.pid());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    assert_eq!(test_env.observe(&identity), Liveness::Alive);
                    assert_eq!(test_env.identify(identity.pid).compare(&identity), Match::Same);
                }
            });
        }
    });
}

fn live_process_is_described(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let directory = directory.path().canonicalize().expect("it is there");
    let acts = ["chdir", directory.to_str().expect("a plain path"), "say", "two words"];
    let child = test_env.stranger(acts);
    child.pids(["two words"]);
    let details = block_on(test_env.probe.describe(child.pid())).expect("it can be described");
    assert_eq!(details.identity.compare(&test_env.identify(child.pid())), Match::Same);
    assert_eq!(details.uid, Some(rustix::process::getuid().as_raw()));
    assert!(!details.kernel_thread);
    assert_eq!(details.parent, Some(std::process::id()));
    assert_eq!(details.cwd.as_deref(), Some(directory.as_path()));
    assert_eq!(details.command[1..], acts.map(std::ffi::OsString::from));
    child.become_zombie();
    let zombie = block_on(test_env.probe.describe(child.pid()));
    assert!(matches!(zombie, Err(ProbeError::Gone { .. })), "{zombie:?}");
}
