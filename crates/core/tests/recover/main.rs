//! Recovery on the strict fakes: what is done about each session, and that a second run changes nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod retention;

use std::path::{Path, PathBuf};
use std::time::Duration;

use pollster::block_on;
use proptest::prelude::*;
use sexton_core::recover::{
    Adoption, Forgotten, Ground, Outcome, Phase, Policy, Progress, Report, Retention, Silent, forget,
    observe, plan, prune, recover,
};
use sexton_core::session::{Exit, OnOwnerDeath, Recovery, Worktree, WorktreeOutcome};
use sexton_core::worktree::Plot;
use sexton_core::{Batch, Host, OsText, ProcessIdentity, Query, Session, SessionId, Status, Store, Time};
use sexton_testkit::{FakeCleaner, FakePremises, FakeProbe, FakeProcess, FakeStore};

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
    premises: FakePremises,
    host: Host,
    me: ProcessIdentity,
    /// A process and a worktree that are nobody's business.
    bystander: ProcessIdentity,
}

impl Machine {
    fn new() -> Machine {
        let probe = FakeProbe::new();
        let me = probe.start(FakeProcess::new().running(&["sexton", "recover"]));
        let bystander = probe.start(FakeProcess::new().in_directory("/home"));
        let host = Host::new("m", "yard");
        let premises = FakePremises::new();
        premises.add_yard("/yard");
        Machine { store: FakeStore::new(), probe, cleaner: FakeCleaner::new(), premises, host, me, bystander }
    }

    fn ground(&self) -> Ground<'_> {
        Ground {
            store: &self.store,
            probe: &self.probe,
            cleaner: Some(&self.cleaner),
            premises: &self.premises,
            host: &self.host,
            me: self.me.pid,
            clock: now,
        }
    }

    fn recover(&self, policy: &Policy) -> Report {
        let report = block_on(recover(&self.ground(), policy, &Silent)).unwrap();
        assert!(self.probe.is_alive(&self.bystander), "a bystander was ended");
        report
    }

    fn uuid(&self) -> String {
        self.store.describe().uuid.unwrap_or_default()
    }

    /// Records a session that runs: its command, its supervisor and its owner are alive.
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

    /// Gives a session a worktree with a note in it that nobody committed.
    fn with_work(&self, mut session: Session) -> Session {
        session.worktree = Some(worktree(&session.id));
        let session = self.replace(&session);
        let plot = Plot::of(&session, &self.uuid()).unwrap();
        self.cleaner.place(&plot, session.created_at);
        self.cleaner.write(&plot.path, "note", session.id.as_str());
        session
    }

    fn kill(&self, processes: &[&Option<ProcessIdentity>]) {
        processes.iter().filter_map(|process| process.as_ref()).for_each(|process| self.probe.end(process));
    }
}

fn worktree(id: &SessionId) -> Worktree {
    Worktree {
        path: OsText::from(format!("/yard/{id}")),
        root: Some(OsText::from("/yard")),
        repo: Some(OsText::from("/src")),
        branch: Some(format!("sexton/{id}")),
        base: None,
        extra: serde_json::Map::new(),
    }
}

fn path(id: &str) -> PathBuf {
    Path::new("/yard").join(id)
}

#[test]
fn i7_an_orphan_is_ended_rescued_removed_and_recorded_and_then_nothing_is_left_to_do() {
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

    let (signals, backups) = (machine.probe.signals(), machine.premises.backups());
    let second = machine.recover(&policy());
    assert_eq!((second.scanned, &second.backup), (0, &None), "{second:?}");
    assert_eq!((machine.probe.signals(), machine.premises.backups()), (signals, backups));
}

#[test]
fn i2_what_nobody_can_judge_is_left_alone_and_said() {
    let machine = Machine::new();
    let hidden = machine.with_work(machine.running("abcd"));
    machine.probe.hide(hidden.process.as_ref().unwrap(), "its namespace is another");
    let mut elsewhere = machine.running("efgh");
    elsewhere.host.hostname = "other".to_owned();
    machine.kill(&[&elsewhere.process, &elsewhere.supervisor]);
    machine.replace(&elsewhere);
    let report = machine.recover(&policy());
    assert_eq!((report.unknown, report.left_alone, report.orphans), (1, 1, 0), "{report:?}");
    assert_eq!(machine.probe.signals(), []);
    assert!(machine.cleaner.exists(&path("abcd")));
}

#[test]
fn i7_an_orphan_is_settled_though_any_look_at_it_failed_once() {
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
fn i2_a_reboot_sends_no_signal() {
    let machine = Machine::new();
    let mut session = machine.with_work(machine.running("abcd"));
    // The same pids belong to somebody else now.
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
fn i4_a_rescue_that_fails_keeps_the_worktree_and_the_next_recovery_tries_again() {
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
    assert_eq!((again.failed, machine.load("abcd").revision), (1, revision), "nothing new was learned");
    machine.cleaner.allow_rescue(&path("abcd"));
    let healed = machine.recover(&policy());
    assert_eq!((healed.failed, healed.worktrees.removed), (0, 1), "{healed:?}");
    let after = machine.load("abcd");
    assert_eq!((after.status, after.recovery.unwrap().error), (Status::Orphaned, None));
}

#[test]
fn i3_a_worktree_that_somebody_is_in_is_kept() {
    let machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    machine.kill(&[&session.process, &session.supervisor]);
    machine.cleaner.let_somebody_in(&path("abcd"), "process 7 came in");
    let report = machine.recover(&policy());
    assert_eq!((report.failed, report.worktrees.kept), (1, 1), "{report:?}");
    assert!(machine.cleaner.exists(&path("abcd")));
    assert_eq!(machine.recover(&policy()).worktrees.removed, 1);
}

#[test]
fn i8_an_exit_file_is_committed_and_is_no_orphan() {
    let machine = Machine::new();
    let session = machine.running("abcd");
    machine.kill(&[&session.process, &session.supervisor]);
    machine.premises.leave_exit(&session.id, Exit::exited(0), now());
    let report = machine.recover(&policy());
    assert_eq!(report.orphans, 0, "{report:?}");
    assert_eq!(machine.load("abcd").status, Status::Completed);
}

#[test]
fn an_unkillable_process_keeps_its_session_and_its_worktree() {
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
fn adoption_gives_a_new_owner_and_tells_the_supervisor() {
    let machine = Machine::new();
    let (told, started) = (machine.running("abcd"), machine.running("efgh"));
    machine.kill(&[&told.owner, &started.owner, &started.supervisor]);
    let adopt = Some(Adoption { owner: Some(machine.me.clone()) });
    let report = machine.recover(&Policy { adopt, ..policy() });
    assert_eq!((report.adopted, report.orphans), (2, 0), "{report:?}");
    let pid = told.supervisor.as_ref().unwrap().pid;
    assert_eq!(machine.probe.signals(), [(pid, SIGUSR1)]);
    assert_eq!(machine.premises.supervised(), [started.id]);
    for id in ["abcd", "efgh"] {
        assert_eq!(machine.load(id).owner.as_ref(), Some(&machine.me));
    }
}

#[test]
fn an_orphan_that_may_live_on_is_left_alone() {
    let machine = Machine::new();
    let mut session = machine.running("abcd");
    machine.kill(&[&session.owner]);
    session.on_owner_death = OnOwnerDeath::Keep;
    machine.replace(&session);
    assert_eq!(machine.recover(&policy()).left_alone, 1);
    assert_eq!(machine.probe.signals(), []);
}

#[test]
fn i1_a_start_that_was_cut_off_is_cleaned_and_one_that_goes_on_is_not() {
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
fn from_inside_the_session_itself_the_outcome_is_recorded_before_everything_ends() {
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
fn a_dry_run_says_the_same_and_changes_nothing() {
    let machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    machine.kill(&[&session.owner]);
    let foreseen = machine.recover(&Policy { dry_run: true, ..policy() });
    assert_eq!((foreseen.orphans, foreseen.worktrees.removed, foreseen.worktrees.rescued), (1, 1, 1));
    assert_eq!(machine.load("abcd"), session);
    assert_eq!((machine.probe.signals(), machine.premises.backups()), (Vec::new(), 0));
    let done = machine.recover(&policy());
    let told = |report: &Report| {
        let sessions = report.sessions.iter();
        sessions.map(|one| (one.cause.clone(), one.action.clone(), one.outcome)).collect::<Vec<_>>()
    };
    assert_eq!(told(&foreseen), told(&done));
}

#[test]
fn a_stray_is_saved_and_removed_when_it_is_old_and_nobodys() {
    let machine = Machine::new();
    machine.running("live");
    let plot = |id: &str, store: &str| Plot {
        store: store.to_owned(),
        session: id.parse().unwrap(),
        repo: "/src".into(),
        root: "/yard".into(),
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
        machine.cleaner.place(&plot(id, store), made_at);
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
fn i9_files_and_a_control_group_of_no_record_are_strays_too() {
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
        machine.premises.leave_files(&id, store, made_at);
        machine.probe.leave_container(&id);
    }
    machine.probe.start(FakeProcess::of(&"carried".parse().unwrap()));
    let foreseen = machine.recover(&Policy { dry_run: true, ..policy() });
    assert_eq!(machine.premises.discarded(), []);
    let report = machine.recover(&policy());
    let told = |report: &Report| -> Vec<_> {
        let strays = report.sessions.iter().filter(|session| session.cause == "stray");
        strays.map(|stray| (stray.id.to_string(), stray.evidence.clone(), stray.worktree)).collect()
    };
    assert_eq!(told(&report), [("stray".to_owned(), "its files have no record".to_owned(), None)]);
    assert_eq!(told(&foreseen), told(&report));
    assert_eq!(machine.premises.discarded(), ["stray".parse().unwrap()]);
    assert_eq!(
        machine.probe.containers(),
        ["carried", "live", "others", "young"].map(|id| id.parse().unwrap())
    );
    assert_eq!(told(&machine.recover(&policy())), []);
}

#[test]
fn a_store_that_may_have_forgotten_sessions_has_no_strays_from_then() {
    let machine = Machine::new();
    machine.running("live");
    let plot = Plot {
        store: machine.uuid(),
        session: "stray".parse().unwrap(),
        repo: "/src".into(),
        root: "/yard".into(),
        path: path("stray"),
    };
    machine.cleaner.place(&plot, now().saturating_sub(DAY * 2));
    machine.premises.leave_files(&"files".parse().unwrap(), &machine.uuid(), now().saturating_sub(DAY * 2));
    machine.premises.forget_before(now().saturating_sub(DAY));
    machine.recover(&policy());
    assert!(machine.cleaner.exists(&path("stray")));
    assert_eq!(machine.premises.discarded(), []);
}

#[test]
fn forgetting_takes_the_users_word_but_not_over_what_is_seen_alive() {
    let machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    let running = block_on(forget(&machine.ground(), &session.id)).unwrap();
    assert_eq!(running, Forgotten::Running);
    machine.kill(&[&session.process, &session.supervisor]);
    let mut session = session;
    // Recorded inside a container: nobody out here can tell.
    session.process.iter_mut().for_each(|process| process.pid_namespace = Some(99));
    let session = machine.replace(&session);
    assert_eq!(machine.recover(&policy()).unknown, 1);
    let Forgotten::Done(report) = block_on(forget(&machine.ground(), &session.id)).unwrap() else {
        panic!("it was not forgotten");
    };
    assert_eq!((report.outcome, report.cause.as_str()), (Outcome::Done, "forgotten"));
    assert_eq!(machine.load("abcd").status, Status::Orphaned);
    assert_eq!(machine.probe.signals(), []);
    assert!(!machine.cleaner.exists(&path("abcd")));
    let again = block_on(forget(&machine.ground(), &session.id)).unwrap();
    assert_eq!(again, Forgotten::AlreadyFinished(Status::Orphaned));
}

/// What is done to one session before recovery comes.
#[derive(Clone, Copy, Debug)]
struct Fate {
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
    fn any_fate()(bits in any::<[bool; 8]>()) -> Fate {
        let [command, supervisor, owner, helper, stubborn, worktree, exit, reused] = bits;
        Fate { command, supervisor, owner, helper, stubborn, worktree, exit, reused }
    }
}

impl Fate {
    fn befall(self, machine: &Machine, id: &str) {
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
            machine.premises.leave_exit(&session.id, Exit::exited(0), now());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn i7_after_a_recovery_there_is_nothing_left_to_plan(fates in prop::collection::vec(any_fate(), 1..6)) {
        let machine = Machine::new();
        for (number, fate) in fates.iter().enumerate() {
            fate.befall(&machine, &format!("session{number}"));
        }
        let report = machine.recover(&policy());
        prop_assert_eq!(report.failed, 0);
        let sightings = block_on(observe(&machine.ground(), &Silent)).unwrap();
        let left = plan(&sightings, &policy(), now());
        prop_assert!(left.is_empty(), "{left:?}");
        let signals = machine.probe.signals().len();
        machine.recover(&policy());
        prop_assert_eq!(machine.probe.signals().len(), signals);
        for (number, fate) in fates.iter().enumerate() {
            let session = machine.load(&format!("session{number}"));
            let lives = !fate.command && !fate.owner || fate.command && !fate.supervisor;
            prop_assert_eq!(session.status.is_active(), lives, "{:?}", fate);
            prop_assert_eq!(machine.cleaner.exists(&path(session.id.as_str())), fate.worktree && (lives || fate.exit && fate.command && fate.supervisor));
            if fate.worktree && !machine.cleaner.exists(&path(session.id.as_str())) {
                prop_assert!(machine.cleaner.find_rescued(Path::new("/src"), &session.id).is_some());
            }
        }
    }
}
