//! Who a process is, and what became of it.

use std::thread;

use pollster::block_on;
use sexton_core::identity::Match;
use sexton_core::{Liveness, ProbeError, ProcessIdentity};

use super::ProbeSubject;
use super::scene::Scene;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("identity":
    a_probe_knows_its_own_process,
    a_child_is_identified_and_alive,
    an_identity_taken_twice_is_the_same,
    i2_two_processes_never_have_one_identity_where_that_is_promised,
    a_pid_that_nobody_has_is_gone,
    a_number_that_can_be_no_pid_is_gone,
    a_zombie_is_gone,
    a_process_that_ended_is_gone,
    a_stopped_process_is_alive,
    a_process_with_a_hostile_name_is_read_correctly,
    i2_other_evidence_for_the_same_pid_is_never_alive,
    i2_another_pid_namespace_is_unknown,
    i2_another_time_namespace_is_unknown,
    another_boot_is_gone,
    i2_a_bare_pid_is_unknown,
    i2_a_thread_is_no_process,
    any_number_of_threads_may_ask_one_probe,
    a_living_process_is_described,
);

fn require_gone(outcome: &Result<ProcessIdentity, ProbeError>, pid: u32) {
    assert!(matches!(outcome, Err(ProbeError::Gone { pid: gone }) if *gone == pid), "{outcome:?}");
}

fn a_probe_knows_its_own_process(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    assert_eq!(scene.probe.name(), subject.name);
    let own = scene.identify(std::process::id());
    assert_eq!(own.pid, std::process::id());
    assert_eq!(scene.observe(&own), Liveness::Alive);
}

fn a_child_is_identified_and_alive(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let child = scene.stranger(["say", "child"]);
    assert_eq!(child.pids(["child"]), [child.pid()]);
    let identity = scene.identify(child.pid());
    assert_eq!(identity.pid, child.pid());
    assert_eq!(scene.observe(&identity), Liveness::Alive);
}

fn an_identity_taken_twice_is_the_same(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let child = scene.stranger(["say", "child"]);
    child.pids(["child"]);
    let (first, second) = (scene.identify(child.pid()), scene.identify(child.pid()));
    assert_eq!(first.compare(&second), Match::Same);
    // It survives its written form: a record is all that is left of it after a crash.
    let written = serde_json::to_string(&first).expect("an identity has a JSON form");
    let read: ProcessIdentity = serde_json::from_str(&written).expect("an identity is read back");
    assert_eq!(scene.observe(&read), Liveness::Alive);
}

fn i2_two_processes_never_have_one_identity_where_that_is_promised(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let exact = scene.probe.capabilities().exact_identity;
    let children: Vec<_> = (0..12).map(|_| scene.stranger([""; 0])).collect();
    let identities: Vec<_> = children.iter().map(|child| scene.identify(child.pid())).collect();
    for (n, one) in identities.iter().enumerate() {
        for other in &identities[n + 1..] {
            assert_ne!(one.compare(other), Match::Same, "two pids");
            // As if the second had got the pid of the first.
            let reused = ProcessIdentity { pid: one.pid, ..other.clone() };
            if exact {
                assert_eq!(one.compare(&reused), Match::Different, "{one:?} {other:?}");
            }
        }
    }
}

fn a_pid_that_nobody_has_is_gone(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let child = scene.stranger(["say", "child"]);
    child.pids(["child"]);
    let pid = child.pid();
    child.finish();
    require_gone(&block_on(scene.probe.identify(pid)), pid);
}

fn a_number_that_can_be_no_pid_is_gone(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    // As a signed number each of these would mean a process group, or everyone.
    for pid in [0, u32::MAX, i32::MAX.unsigned_abs() + 1] {
        require_gone(&block_on(scene.probe.identify(pid)), pid);
        let liveness = scene.observe(&ProcessIdentity { pid, ..scene.identify(std::process::id()) });
        assert_eq!(liveness, Liveness::Gone, "{pid}");
    }
}

fn a_zombie_is_gone(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let child = scene.stranger(["say", "child"]);
    child.pids(["child"]);
    let identity = scene.identify(child.pid());
    child.become_zombie();
    assert_eq!(scene.observe(&identity), Liveness::Gone);
    require_gone(&block_on(scene.probe.identify(child.pid())), child.pid());
}

fn a_process_that_ended_is_gone(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let child = scene.stranger(["say", "child"]);
    child.pids(["child"]);
    let identity = scene.identify(child.pid());
    child.finish();
    assert_eq!(scene.observe(&identity), Liveness::Gone);
}

fn a_stopped_process_is_alive(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let child = scene.stranger(["stop"]);
    child.wait_until_stopped();
    assert_eq!(scene.observe(&scene.identify(child.pid())), Liveness::Alive);
}

fn a_process_with_a_hostile_name_is_read_correctly(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    for name in ["a) S 1 (b", ")", "a b", "(", "x) Z 1 1", "a\nb"] {
        let child = scene.stranger(["say", "before", "name", name, "say", "named"]);
        child.pids(["before"]);
        // Taken while the name was still an ordinary one, and read again with the hostile one.
        let identity = scene.identify(child.pid());
        child.pids(["named"]);
        assert_eq!(scene.observe(&identity), Liveness::Alive, "{name:?}");
        let again = scene.identify(child.pid());
        assert_eq!(identity.compare(&again), Match::Same, "{name:?}");
        let details = block_on(scene.probe.describe(child.pid())).expect("it can be described");
        assert_eq!(details.parent, Some(std::process::id()), "{name:?}");
    }
}

/// Identities that differ from `identity` in one piece of evidence each.
pub(super) fn altered(identity: &ProcessIdentity) -> Vec<ProcessIdentity> {
    let other = |number: Option<u64>| number.map(|number| number + 1_000_000);
    let mut altered = vec![identity.clone(); 3];
    altered[0].pidfd_inode = other(identity.pidfd_inode);
    altered[1].start_ticks = other(identity.start_ticks);
    altered[2].start_time_us = other(identity.start_time_us);
    // Ticks and times are not looked at where the inode decides.
    if identity.pidfd_inode.is_some() {
        altered.truncate(1);
    }
    altered.retain(|altered| altered != identity);
    altered
}

fn i2_other_evidence_for_the_same_pid_is_never_alive(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let child = scene.stranger(["say", "child"]);
    child.pids(["child"]);
    let altered = altered(&scene.identify(child.pid()));
    assert!(!altered.is_empty(), "an identity without evidence proves nobody");
    for other in altered {
        let liveness = scene.observe(&other);
        if scene.probe.capabilities().exact_identity {
            assert_eq!(liveness, Liveness::Reused, "{other:?}");
        } else {
            assert!(matches!(liveness, Liveness::Reused | Liveness::Unknown(_)), "{other:?}: {liveness:?}");
        }
    }
}

fn require_unknown(scene: &Scene, identity: &ProcessIdentity) {
    let liveness = scene.observe(identity);
    assert!(matches!(&liveness, Liveness::Unknown(why) if !why.is_empty()), "{identity:?}: {liveness:?}");
}

fn i2_another_pid_namespace_is_unknown(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let own = scene.identify(std::process::id());
    let elsewhere = own.pid_namespace.map_or(4_026_531_836, |inode| inode + 1);
    require_unknown(&scene, &ProcessIdentity { pid_namespace: Some(elsewhere), ..own.clone() });
    // Nor is a pid that nobody has here Gone there.
    let nobody = ProcessIdentity { pid: 0x3fff_fffe, pid_namespace: Some(elsewhere), ..own };
    require_unknown(&scene, &nobody);
}

fn i2_another_time_namespace_is_unknown(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let own = scene.identify(std::process::id());
    let elsewhere = own.time_namespace.map_or(4_026_531_834, |inode| inode + 1);
    require_unknown(&scene, &ProcessIdentity { time_namespace: Some(elsewhere), ..own });
}

fn another_boot_is_gone(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let own = scene.identify(std::process::id());
    let before =
        ProcessIdentity { boot_id: Some("00000000-0000-4000-8000-000000000000".to_owned()), ..own.clone() };
    if own.boot_id.is_some() {
        assert_eq!(scene.observe(&before), Liveness::Gone);
    } else {
        // A probe that does not know its boot cannot tell that it was another.
        assert!(!scene.probe.capabilities().exact_identity);
        require_unknown(&scene, &before);
    }
}

fn i2_a_bare_pid_is_unknown(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    require_unknown(&scene, &ProcessIdentity::of_pid(std::process::id()));
}

fn i2_a_thread_is_no_process(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    thread::scope(|scope| {
        let (sender, ready) = std::sync::mpsc::channel();
        let (finish, wait) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            sender.send(rustix::thread::gettid()).expect("the case waits for it");
            // The channel closes when the case is over, or has failed.
            _ = wait.recv();
        });
        let thread = ready.recv().expect("the thread says its number").as_raw_nonzero().get().unsigned_abs();
        assert_ne!(thread, std::process::id());
        require_gone(&block_on(scene.probe.identify(thread)), thread);
        drop(finish);
    });
}

fn any_number_of_threads_may_ask_one_probe(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let child = scene.stranger(["say", "child"]);
    child.pids(["child"]);
    let identity = scene.identify(child.pid());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    assert_eq!(scene.observe(&identity), Liveness::Alive);
                    assert_eq!(scene.identify(identity.pid).compare(&identity), Match::Same);
                }
            });
        }
    });
}

fn a_living_process_is_described(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let directory = directory.path().canonicalize().expect("it is there");
    let acts = ["chdir", directory.to_str().expect("a plain path"), "say", "two words"];
    let child = scene.stranger(acts);
    child.pids(["two words"]);
    let details = block_on(scene.probe.describe(child.pid())).expect("it can be described");
    assert_eq!(details.identity.compare(&scene.identify(child.pid())), Match::Same);
    assert_eq!(details.uid, Some(rustix::process::getuid().as_raw()));
    assert!(!details.kernel_thread);
    assert_eq!(details.parent, Some(std::process::id()));
    assert_eq!(details.cwd.as_deref(), Some(directory.as_path()));
    assert_eq!(details.command[1..], acts.map(std::ffi::OsString::from));
    child.become_zombie();
    let zombie = block_on(scene.probe.describe(child.pid()));
    assert!(matches!(zombie, Err(ProbeError::Gone { .. })), "{zombie:?}");
}
