//! Tests that records, worktrees, files and rescues of other hosts are not changed.

use sexton_core::recover::prune_host;
use sexton_core::{Incarnation, WorktreeCleaner};

use super::*;

fn other_host() -> Host {
    Host::new("m2", "far")
}

/// Records a session of `host` that finished `days` ago.
fn finished_on(machine: &Machine, host: &Host, id: &str, days: u32) -> Session {
    let at = now().saturating_sub(DAY * days);
    let mut session = Session::new(id.parse().unwrap(), host.clone(), at);
    session.status = Status::Running;
    session.finish(Exit::exited(0), at);
    machine.insert(&session)
}

fn left(machine: &Machine) -> Vec<String> {
    let sessions = block_on(machine.store.list(&Query::all())).unwrap().sessions;
    let mut ids: Vec<_> = sessions.iter().map(|session| session.id.to_string()).collect();
    ids.sort();
    ids
}

#[test]
fn i12_retention_considers_only_records_of_this_host() {
    let machine = Machine::new();
    // Its worktree exists on the other host; nothing is at that path here.
    let mut far = finished_on(&machine, &other_host(), "far-old", 100);
    far.worktree = Some(worktree(&far.id));
    machine.replace(&far);
    for (host, id, days) in [
        (other_host(), "far-1", 1),
        (other_host(), "far-2", 2),
        (machine.host.clone(), "here-1", 1),
        (machine.host.clone(), "here-2", 2),
        (machine.host.clone(), "here-old", 100),
    ] {
        finished_on(&machine, &host, id, days);
    }
    let retention = Retention { ttl: DAY * 7, keep: 2, rescue_ttl: None };
    let pruned = block_on(prune(&machine.context(), &retention, false, &Silent)).unwrap().pruned;
    assert_eq!((pruned.expired, pruned.over_limit), (1, 0), "two of this host are no more than two");
    let recovered = machine.recover(&Policy { retention, ..policy() });
    assert_eq!((recovered.pruned.expired, recovered.pruned.over_limit), (0, 0));
    assert_eq!(left(&machine), ["far-1", "far-2", "far-old", "here-1", "here-2"]);
    let retention = Retention { ttl: DAY * 7, keep: 1, rescue_ttl: None };
    let pruned = block_on(prune(&machine.context(), &retention, false, &Silent)).unwrap().pruned;
    assert_eq!((pruned.expired, pruned.over_limit), (0, 1));
    assert_eq!(left(&machine), ["far-1", "far-2", "far-old", "here-1"]);
    assert_eq!(machine.state_files.discarded(), ["here-old", "here-2"].map(|id| id.parse().unwrap()));
}

#[test]
fn i9_records_of_a_forgotten_host_are_pruned() {
    let machine = Machine::new();
    finished_on(&machine, &other_host(), "far-old", 100);
    finished_on(&machine, &other_host(), "far-new", 1);
    finished_on(&machine, &machine.host, "here-old", 100);
    let retention = Retention { ttl: DAY * 7, keep: 1000, rescue_ttl: None };
    let here = machine.host.hostname.clone();
    let none = block_on(prune_host(&here, &machine.context(), &retention, false, &Silent)).unwrap();
    assert_eq!(none.pruned.expired, 0, "this host is not another host");
    let gone = block_on(prune_host("far", &machine.context(), &retention, false, &Silent)).unwrap();
    assert_eq!((gone.pruned.expired, left(&machine)), (1, vec!["far-new".to_owned(), "here-old".to_owned()]));
}

#[test]
fn i12_strays_of_another_host_are_kept() {
    let machine = Machine::new();
    machine.running("known");
    let made_at = now().saturating_sub(DAY * 10);
    for (id, host) in [("far", other_host()), ("here", machine.host.clone())] {
        let id: SessionId = id.parse().unwrap();
        let mut session = Session::new(id.clone(), host.clone(), made_at);
        session.worktree = Some(worktree(&id));
        machine.cleaner.place(&WorktreeLocation::of(&session, &machine.uuid()).unwrap(), made_at);
        machine.cleaner.make_on(&path(id.as_str()), host.clone());
        let made_on = Incarnation { host, boot_id: None, pid_namespace: None };
        machine.state_files.leave_files_of(&id, &machine.uuid(), made_at, made_on);
    }
    let report = machine.recover(&policy());
    assert_eq!(report.worktrees.removed, 1, "{report:?}");
    assert!(machine.cleaner.exists(&path("far")) && !machine.cleaner.exists(&path("here")));
    assert_eq!(machine.state_files.discarded(), ["here".parse().unwrap()]);
}

#[test]
fn i12_rescues_and_trash_of_another_host_are_kept() {
    let machine = Machine::new();
    let mut kept = Vec::new();
    for (id, host) in [("far-1", other_host()), ("far-2", other_host()), ("here-1", machine.host.clone())] {
        let session = finished_on(&machine, &host, id, 1);
        let session = machine.with_work(session);
        let location = WorktreeLocation::of(&session, &machine.uuid()).unwrap();
        machine.cleaner.make_on(&location.path, host);
        block_on(machine.cleaner.clear(&location, &machine.probe, now().saturating_sub(DAY))).unwrap();
        kept.push(location);
    }
    // The record of this one is gone: the rescue itself names its host.
    block_on(machine.store.commit(Batch::new().remove(&machine.load("far-2")))).unwrap();
    let retention = Retention { rescue_ttl: Some(DAY / 2), ..policy().retention };
    let report = machine.recover(&Policy { retention, ..policy() });
    assert_eq!(report.problems, []);
    let rescued = |location: &WorktreeLocation| {
        machine.cleaner.find_rescued(&location.repo, &location.session).is_some()
    };
    assert_eq!(kept.iter().map(rescued).collect::<Vec<_>>(), [true, true, false]);
    assert!(machine.cleaner.trash().contains(&path("far-1")), "{:?}", machine.cleaner.trash());
    assert!(!machine.cleaner.trash().contains(&path("here-1")));
}

#[test]
fn i12_clone_is_not_a_reboot_and_renamed_host_is_the_same() {
    let machine = Machine::new();
    let mut clone = machine.running("clone");
    clone.host = Host::new("m", "clone").with_id(machine.host.id.clone());
    let process = clone.process.as_mut().unwrap();
    process.boot_id = Some("another boot".to_owned());
    clone.supervisor = None;
    machine.replace(&clone);
    let mut renamed = machine.running("renamed");
    renamed.host.hostname = "before".to_owned();
    machine.replace(&renamed);
    machine.kill(&[&renamed.process, &renamed.supervisor]);
    let report = machine.recover(&policy());
    assert_eq!((report.orphans, report.left_alone), (1, 1), "{report:?}");
    assert_eq!(machine.load("clone").status, Status::Running);
    assert_eq!(machine.load("renamed").status, Status::Orphaned);
}
