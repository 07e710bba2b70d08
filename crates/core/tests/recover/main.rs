//! Tests of recovery on the strict fakes: what is done for each session, and that a second run changes nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod format;
mod hosts;
mod problems;
mod retention;
mod steps;
mod supervision;

use std::path::{Path, PathBuf};
use std::time::Duration;

use pollster::block_on;
use proptest::prelude::*;
use sexton_core::recover::{
    Adoption, Forgotten, Outcome, Phase, Policy, Progress, RecoveryContext, Report, Retention, Silent,
    forget, observe, plan, prune, recover,
};
use sexton_core::session::{Exit, OnOwnerDeath, Recovery, Worktree, WorktreeOutcome};
use sexton_core::store::update_session;
use sexton_core::worktree::WorktreeLocation;
use sexton_core::{Batch, Host, OsText, ProcessIdentity, Query, Session, SessionId, Status, Store, Time};
use sexton_testkit::{FakeCleaner, FakeProbe, FakeProcess, FakeStateFiles, FakeStore};

const DAY: Duration = Duration::from_secs(86_400);
const SIGUSR1: i32 = 10;

fn now() -> Time {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

fn policy() -> Policy {
    Policy {
        min_age: Duration::ZERO,
        stop_grace: Duration::from_secs(5),
        kill_wait: Duration::from_secs(5),
        stale: DAY * 30,
        stray_age: DAY,
        retention: Retention { ttl: DAY * 7, keep: 1000, rescue_ttl: None },
        adopt: None,
        backup: true,
        dry_run: false,
    }
}

/// A machine with a store, and the process that recovers on it.
struct Machine {
    store: FakeStore,
    probe: FakeProbe,
    cleaner: FakeCleaner,
    state_files: FakeStateFiles,
    host: Host,
    me: ProcessIdentity,
    /// A process that belongs to no session.
    bystander: ProcessIdentity,
}

impl Machine {
    fn new() -> Machine {
        let probe = FakeProbe::new();
        let me = probe.start(FakeProcess::new().running(&["sexton", "recover"]));
        let bystander = probe.start(FakeProcess::new().in_directory("/home"));
        let host = Host::new("m", "laptop");
        let state_files = FakeStateFiles::new();
        state_files.add_worktree_root("/worktrees");
        let store = FakeStore::new();
        state_files.supervise_by({
            let (store, probe) = (store.clone(), probe.clone());
            move |lost| supervise(&store, &probe, lost)
        });
        Machine { store, probe, cleaner: FakeCleaner::new(), state_files, host, me, bystander }
    }

    fn context(&self) -> RecoveryContext<'_> {
        RecoveryContext {
            store: &self.store,
            probe: &self.probe,
            cleaner: Some(&self.cleaner),
            state_files: &self.state_files,
            host: &self.host,
            me: self.me.pid,
            clock: now,
        }
    }

    fn recover(&self, policy: &Policy) -> Report {
        let report = block_on(recover(&self.context(), policy, &Silent)).unwrap();
        assert!(self.probe.is_alive(&self.bystander), "a bystander was ended");
        report
    }

    fn uuid(&self) -> String {
        self.store.describe().uuid.unwrap_or_default()
    }

    /// Records a running session: its command, its supervisor and its owner are alive.
    fn running(&self, id: &str) -> Session {
        let id: SessionId = id.parse().unwrap();
        let owner = self.probe.start(FakeProcess::new().running(&["orchestrator"]));
        let shim = self.probe.start(FakeProcess::new());
        let process = self.probe.start(FakeProcess::of(&id).child_of(&shim));
        let mut session = Session::new(id, self.host.clone(), now().saturating_sub(DAY));
        session.status = Status::Running;
        session.started_at = Some(session.created_at);
        (session.process, session.supervisor, session.owner) = (Some(process), Some(shim), Some(owner));
        self.insert(&session)
    }

    fn insert(&self, session: &Session) -> Session {
        block_on(self.store.commit(Batch::new().insert(session.clone()))).unwrap();
        self.load(session.id.as_str())
    }

    fn replace(&self, session: &Session) -> Session {
        block_on(self.store.commit(Batch::new().replace(session.clone()))).unwrap();
        self.load(session.id.as_str())
    }

    fn load(&self, id: &str) -> Session {
        block_on(self.store.load(&id.parse().unwrap())).unwrap().unwrap()
    }

    /// Gives a session a worktree with an uncommitted note.
    fn with_work(&self, mut session: Session) -> Session {
        session.worktree = Some(worktree(&session.id));
        let session = self.replace(&session);
        let location = WorktreeLocation::of(&session, &self.uuid()).unwrap();
        self.cleaner.place(&location, session.created_at);
        self.cleaner.write(&location.path, "note", session.id.as_str());
        session
    }

    fn kill(&self, processes: &[&Option<ProcessIdentity>]) {
        processes.iter().filter_map(|process| process.as_ref()).for_each(|process| self.probe.end(process));
    }
}

/// Does what a new supervisor does first: it enters itself in the record if the record still names the lost
/// one.
fn supervise(store: &FakeStore, probe: &FakeProbe, lost: &Session) -> bool {
    let mut needed = false;
    let supervisor = probe.start(FakeProcess::new());
    let replace = |session: &mut Session| {
        needed = session.status.is_active() && session.supervisor == lost.supervisor;
        if needed {
            session.supervisor = Some(supervisor.clone());
        }
        needed
    };
    block_on(update_session(store, &lost.id, replace)).unwrap();
    needed
}

fn worktree(id: &SessionId) -> Worktree {
    Worktree {
        path: OsText::from(format!("/worktrees/{id}")),
        root: Some(OsText::from("/worktrees")),
        repo: Some(OsText::from("/src")),
        branch: Some(format!("sexton/{id}")),
        base: None,
        extra: serde_json::Map::new(),
    }
}

fn path(id: &str) -> PathBuf {
    Path::new("/worktrees").join(id)
}

#[test]
fn i7_orphan_is_ended_rescued_removed_and_recorded_once() {
    let machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    let helper = machine.probe.start(FakeProcess::of(&session.id).ignoring(&[2, 15]));
    machine.kill(&[&session.owner, &session.supervisor]);
    let report = machine.recover(&policy());
    assert_eq!((report.orphans, report.ended, report.failed), (1, 1, 0), "{report:?}");
    assert_eq!((report.worktrees.rescued, report.worktrees.removed), (1, 1));
    assert!(report.backup.is_some());
    let after = machine.load("abcd");
    assert_eq!(after.status, Status::Orphaned);
    let recovery = after.recovery.unwrap();
    assert_eq!((recovery.cause.as_str(), recovery.worktree), ("owner_dead", Some(WorktreeOutcome::Removed)));
    assert_eq!(recovery.rescue_ref.as_deref(), Some("refs/sexton/rescue/abcd"));
    assert!(!machine.probe.is_alive(&helper) && !machine.cleaner.exists(&path("abcd")));
    assert!(machine.cleaner.trash().is_empty());
    let saved = machine.cleaner.find_rescued(Path::new("/src"), &session.id).unwrap();
    assert_eq!(saved.get("note").map(String::as_str), Some("abcd"));

    let (signals, backups) = (machine.probe.signals(), machine.state_files.backups());
    let second = machine.recover(&policy());
    assert_eq!((second.scanned, &second.backup), (0, &None), "{second:?}");
    assert_eq!((machine.probe.signals(), machine.state_files.backups()), (signals, backups));
}

#[test]
fn i2_unknown_session_is_left_alone_and_reported() {
    let machine = Machine::new();
    let hidden = machine.with_work(machine.running("abcd"));
    machine.probe.hide(hidden.process.as_ref().unwrap(), "its namespace is another");
    let mut elsewhere = machine.running("efgh");
    elsewhere.host.hostname = "other".to_owned();
    for identity in [&mut elsewhere.process, &mut elsewhere.supervisor].into_iter().flatten() {
        identity.boot_id = Some("another boot".to_owned());
    }
    machine.kill(&[&elsewhere.process, &elsewhere.supervisor]);
    machine.replace(&elsewhere);
    let report = machine.recover(&policy());
    assert_eq!((report.unknown, report.left_alone, report.orphans), (1, 1, 0), "{report:?}");
    assert_eq!(machine.probe.signals(), []);
    assert!(machine.cleaner.exists(&path("abcd")));
}

#[test]
fn i7_one_failed_probe_does_not_prevent_recovery() {
    for whose in ["process", "supervisor"] {
        let machine = Machine::new();
        let orphan = machine.with_work(machine.running("abcd"));
        machine.kill(&[&orphan.process, &orphan.supervisor]);
        let unseen = if whose == "process" { &orphan.process } else { &orphan.supervisor };
        machine.probe.hide_once(unseen.as_ref().unwrap(), "too many open files");
        let report = machine.recover(&policy());
        assert_eq!((report.unknown, report.orphans), (0, 1), "{whose}: {report:?}");
        assert!(!machine.cleaner.exists(&path("abcd")), "{whose}");
    }
}

#[test]
fn i2_no_signal_is_sent_after_a_reboot() {
    let machine = Machine::new();
    let mut session = machine.with_work(machine.running("abcd"));
    // The same pids belong to other processes now.
    for identity in [&mut session.process, &mut session.supervisor, &mut session.owner].into_iter().flatten()
    {
        identity.boot_id = Some("an earlier boot".to_owned());
    }
    machine.replace(&session);
    let report = machine.recover(&policy());
    assert_eq!(report.sessions[0].cause, "host_rebooted");
    assert_eq!(machine.probe.signals(), []);
    assert_eq!(machine.load("abcd").status, Status::Orphaned);
    assert!(!machine.cleaner.exists(&path("abcd")));
}

#[test]
fn i4_failed_rescue_keeps_the_worktree_and_is_retried() {
    let machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    let other = machine.with_work(machine.running("efgh"));
    machine.kill(&[&session.process, &session.supervisor, &other.process, &other.supervisor]);
    machine.cleaner.refuse_rescue(&path("abcd"), "a nested repository has changes");
    let report = machine.recover(&policy());
    assert_eq!((report.orphans, report.failed, report.worktrees.failed), (2, 1, 1), "{report:?}");
    assert!(machine.cleaner.exists(&path("abcd")) && !machine.cleaner.exists(&path("efgh")));
    let after = machine.load("abcd");
    assert_eq!(after.status, Status::CleanupFailed);
    assert!(after.recovery.unwrap().error.unwrap().contains("nested repository"));
    assert_eq!(machine.load("efgh").status, Status::Orphaned);

    let revision = machine.load("abcd").revision;
    let again = machine.recover(&policy());
    assert_eq!(
        (again.failed, machine.load("abcd").revision),
        (1, revision),
        "the record was written without a change"
    );
    machine.cleaner.allow_rescue(&path("abcd"));
    let retried = machine.recover(&policy());
    assert_eq!((retried.failed, retried.worktrees.removed), (0, 1), "{retried:?}");
    let after = machine.load("abcd");
    assert_eq!((after.status, after.recovery.unwrap().error), (Status::Orphaned, None));
}

#[test]
fn i3_occupied_worktree_is_kept() {
    let machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    machine.kill(&[&session.process, &session.supervisor]);
    machine.cleaner.enter_during_removal(&path("abcd"), "process 7 came in");
    let report = machine.recover(&policy());
    assert_eq!((report.failed, report.worktrees.kept), (1, 1), "{report:?}");
    assert!(machine.cleaner.exists(&path("abcd")));
    assert_eq!(machine.recover(&policy()).worktrees.removed, 1);
}

#[test]
fn i8_exit_file_is_committed_and_session_is_no_orphan() {
    let machine = Machine::new();
    let session = machine.running("abcd");
    machine.kill(&[&session.process, &session.supervisor]);
    machine.state_files.leave_exit(&session.id, Exit::exited(0), now());
    let report = machine.recover(&policy());
    assert_eq!(report.orphans, 0, "{report:?}");
    assert_eq!(machine.load("abcd").status, Status::Completed);
}

#[test]
fn unkillable_process_keeps_its_session_and_worktree() {
    let machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    machine.probe.start(FakeProcess::of(&session.id).unkillable());
    machine.kill(&[&session.process, &session.supervisor]);
    let report = machine.recover(&policy());
    assert_eq!(report.failed, 1, "{report:?}");
    assert!(machine.cleaner.exists(&path("abcd")));
    assert_eq!(machine.load("abcd").status, Status::CleanupFailed);
}

#[test]
fn adoption_sets_the_owner_and_notifies_the_supervisor() {
    let machine = Machine::new();
    let (notified, started) = (machine.running("abcd"), machine.running("efgh"));
    machine.kill(&[&notified.owner, &started.owner, &started.supervisor]);
    let adopt = Some(Adoption { owner: Some(machine.me.clone()) });
    let report = machine.recover(&Policy { adopt, ..policy() });
    assert_eq!((report.adopted, report.orphans), (2, 0), "{report:?}");
    let pid = notified.supervisor.as_ref().unwrap().pid;
    assert_eq!(machine.probe.signals(), [(pid, SIGUSR1)]);
    assert_eq!(machine.state_files.supervised(), [started.id]);
    for id in ["abcd", "efgh"] {
        assert_eq!(machine.load(id).owner.as_ref(), Some(&machine.me));
    }
}

#[test]
fn session_with_keep_survives_its_owner() {
    let machine = Machine::new();
    let mut session = machine.running("abcd");
    machine.kill(&[&session.owner]);
    session.on_owner_death = OnOwnerDeath::Keep;
    machine.replace(&session);
    assert_eq!(machine.recover(&policy()).left_alone, 1);
    assert_eq!(machine.probe.signals(), []);
}

#[test]
fn i1_interrupted_start_is_cleaned_up_and_running_start_is_not() {
    let machine = Machine::new();
    for id in ["abcd", "efgh"] {
        let mut session = machine.running(id);
        let process = session.process.take();
        machine.kill(&[&process]);
        session.status = Status::Starting;
        let session = block_on(async {
            machine.store.commit(Batch::new().remove(&session)).await.unwrap();
            machine.insert(&session)
        });
        machine.with_work(session);
    }
    machine.kill(&[&machine.load("abcd").supervisor]);
    let report = machine.recover(&policy());
    assert_eq!((report.orphans, report.left_alone), (1, 1), "{report:?}");
    let after = machine.load("abcd");
    assert_eq!(after.recovery.unwrap().cause, "never_started");
    assert!(!machine.cleaner.exists(&path("abcd")) && machine.cleaner.exists(&path("efgh")));
    assert_eq!(machine.load("efgh").status, Status::Starting);
}

#[test]
fn recovery_inside_a_session_records_the_outcome_before_ending_it() {
    let mut machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    let shell = machine.probe.start(FakeProcess::of(&session.id).child_of(session.process.as_ref().unwrap()));
    machine.me = machine.probe.start(FakeProcess::of(&session.id).child_of(&shell));
    machine.kill(&[&session.owner]);
    let report = machine.recover(&policy());
    assert_eq!(report.failed, 0, "{report:?}");
    let after = machine.load("abcd");
    assert_eq!(after.status, Status::Orphaned);
    assert_eq!(after.recovery.unwrap().worktree, Some(WorktreeOutcome::Pending));
    assert!(machine.probe.is_alive(&machine.me) && !machine.probe.is_alive(&shell));
    assert!(machine.cleaner.exists(&path("abcd")));
}

#[test]
fn dry_run_reports_the_same_and_changes_nothing() {
    let machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    machine.kill(&[&session.owner]);
    let dry = machine.recover(&Policy { dry_run: true, ..policy() });
    assert_eq!((dry.orphans, dry.worktrees.removed, dry.worktrees.rescued), (1, 1, 1));
    assert_eq!(machine.load("abcd"), session);
    assert_eq!((machine.probe.signals(), machine.state_files.backups()), (Vec::new(), 0));
    let done = machine.recover(&policy());
    let summary = |report: &Report| {
        let sessions = report.sessions.iter();
        sessions.map(|one| (one.cause.clone(), one.action.clone(), one.outcome)).collect::<Vec<_>>()
    };
    assert_eq!(summary(&dry), summary(&done));
}

#[test]
fn old_unused_stray_is_saved_and_removed() {
    let machine = Machine::new();
    machine.running("live");
    let location = |id: &str, store: &str| WorktreeLocation {
        store: store.to_owned(),
        session: id.parse().unwrap(),
        repo: "/src".into(),
        root: "/worktrees".into(),
        path: path(id),
    };
    let uuid = machine.uuid();
    let old = now().saturating_sub(DAY * 2);
    for (id, store, made_at) in [
        ("stray", uuid.as_str(), old),
        ("young", uuid.as_str(), now().saturating_sub(DAY / 2)),
        ("others", "another store", old),
        ("carried", uuid.as_str(), old),
    ] {
        machine.cleaner.place(&location(id, store), made_at);
        machine.cleaner.write(&path(id), "note", id);
    }
    machine.probe.start(FakeProcess::of(&"carried".parse().unwrap()));
    let report = machine.recover(&policy());
    let strays: Vec<_> = report.sessions.iter().filter(|session| session.cause == "stray").collect();
    assert_eq!(strays.iter().map(|stray| stray.id.as_str()).collect::<Vec<_>>(), ["stray"]);
    assert_eq!(strays[0].rescue_ref.as_deref(), Some("refs/sexton/rescue/stray"));
    for kept in ["young", "others", "carried"] {
        assert!(machine.cleaner.exists(&path(kept)), "{kept}");
    }
}

#[test]
fn i9_files_and_control_group_without_record_are_strays() {
    let machine = Machine::new();
    machine.running("live");
    let uuid = machine.uuid();
    let old = now().saturating_sub(DAY * 2);
    for (id, store, made_at) in [
        ("stray", uuid.as_str(), old),
        ("live", uuid.as_str(), old),
        ("young", uuid.as_str(), now().saturating_sub(DAY / 2)),
        ("others", "another store", old),
        ("carried", uuid.as_str(), old),
    ] {
        let id: SessionId = id.parse().unwrap();
        machine.state_files.leave_files(&id, store, made_at);
        machine.probe.leave_container(&id);
    }
    machine.probe.start(FakeProcess::of(&"carried".parse().unwrap()));
    let dry = machine.recover(&Policy { dry_run: true, ..policy() });
    assert_eq!(machine.state_files.discarded(), []);
    let report = machine.recover(&policy());
    let summary = |report: &Report| -> Vec<_> {
        let strays = report.sessions.iter().filter(|session| session.cause == "stray");
        strays.map(|stray| (stray.id.to_string(), stray.evidence.clone(), stray.worktree)).collect()
    };
    assert_eq!(summary(&report), [("stray".to_owned(), "its files have no record".to_owned(), None)]);
    assert_eq!(summary(&dry), summary(&report));
    assert_eq!(machine.state_files.discarded(), ["stray".parse().unwrap()]);
    assert_eq!(
        machine.probe.containers(),
        ["carried", "live", "others", "young"].map(|id| id.parse().unwrap())
    );
    assert_eq!(summary(&machine.recover(&policy())), []);
}

#[test]
fn worktrees_older_than_a_possible_record_loss_are_no_strays() {
    let machine = Machine::new();
    machine.running("live");
    let location = WorktreeLocation {
        store: machine.uuid(),
        session: "stray".parse().unwrap(),
        repo: "/src".into(),
        root: "/worktrees".into(),
        path: path("stray"),
    };
    machine.cleaner.place(&location, now().saturating_sub(DAY * 2));
    machine.state_files.leave_files(
        &"files".parse().unwrap(),
        &machine.uuid(),
        now().saturating_sub(DAY * 2),
    );
    machine.state_files.forget_before(now().saturating_sub(DAY));
    machine.recover(&policy());
    assert!(machine.cleaner.exists(&path("stray")));
    assert_eq!(machine.state_files.discarded(), []);
}

#[test]
fn forget_marks_unknown_sessions_but_not_live_ones() {
    let machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    let running = block_on(forget(&machine.context(), &session.id)).unwrap();
    assert_eq!(running, Forgotten::Running);
    machine.kill(&[&session.process, &session.supervisor]);
    let mut session = session;
    // Recorded inside a container, so its state is unknown here.
    session.process.iter_mut().for_each(|process| process.pid_namespace = Some(99));
    let session = machine.replace(&session);
    assert_eq!(machine.recover(&policy()).unknown, 1);
    let Forgotten::Done(report) = block_on(forget(&machine.context(), &session.id)).unwrap() else {
        panic!("it was not forgotten");
    };
    assert_eq!((report.outcome, report.cause.as_str()), (Outcome::Done, "forgotten"));
    assert_eq!(machine.load("abcd").status, Status::Orphaned);
    assert_eq!(machine.probe.signals(), []);
    assert!(!machine.cleaner.exists(&path("abcd")));
    let again = block_on(forget(&machine.context(), &session.id)).unwrap();
    assert_eq!(again, Forgotten::AlreadyFinished(Status::Orphaned));
}

/// What happens to one session before the recovery.
#[derive(Clone, Copy, Debug)]
struct Faults {
    command: bool,
    supervisor: bool,
    owner: bool,
    helper: bool,
    stubborn: bool,
    worktree: bool,
    exit: bool,
    reused: bool,
}

prop_compose! {
    fn any_faults()(bits in any::<[bool; 8]>()) -> Faults {
        let [command, supervisor, owner, helper, stubborn, worktree, exit, reused] = bits;
        Faults { command, supervisor, owner, helper, stubborn, worktree, exit, reused }
    }
}

impl Faults {
    fn apply(self, machine: &Machine, id: &str) {
        let mut session = machine.running(id);
        if self.worktree {
            session = machine.with_work(session);
        }
        if self.helper {
            let helper = FakeProcess::of(&session.id);
            machine.probe.start(if self.stubborn { helper.ignoring(&[2, 15]) } else { helper });
        }
        for (dies, identity) in [
            (self.command, &session.process),
            (self.supervisor, &session.supervisor),
            (self.owner, &session.owner),
        ] {
            if dies {
                machine.kill(&[identity]);
            }
        }
        if self.command && self.reused {
            machine.probe.start_in_place_of(session.process.as_ref().unwrap(), FakeProcess::new());
        }
        if self.exit && self.command && self.supervisor {
            machine.state_files.leave_exit(&session.id, Exit::exited(0), now());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn i7_plan_is_empty_after_recovery(cases in prop::collection::vec(any_faults(), 1..6)) {
        let machine = Machine::new();
        for (number, faults) in cases.iter().enumerate() {
            faults.apply(&machine, &format!("session{number}"));
        }
        let report = machine.recover(&policy());
        prop_assert_eq!(report.failed, 0);
        let sightings = block_on(observe(&machine.context(), &Silent)).unwrap();
        let left = plan(&sightings, &policy(), now());
        prop_assert!(left.is_empty(), "{left:?}");
        let signals = machine.probe.signals().len();
        machine.recover(&policy());
        prop_assert_eq!(machine.probe.signals().len(), signals);
        for (number, faults) in cases.iter().enumerate() {
            let session = machine.load(&format!("session{number}"));
            let lives = !faults.command && !faults.owner || faults.command && !faults.supervisor;
            prop_assert_eq!(session.status.is_active(), lives, "{:?}", faults);
            prop_assert_eq!(machine.cleaner.exists(&path(session.id.as_str())), faults.worktree && (lives || faults.exit && faults.command && faults.supervisor));
            if faults.worktree && !machine.cleaner.exists(&path(session.id.as_str())) {
                prop_assert!(machine.cleaner.find_rescued(Path::new("/src"), &session.id).is_some());
            }
        }
    }
}
