//! Resuming on the strict fakes: what is looked at, what is committed, and who comes first.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pollster::block_on;
use sexton_core::resume::{
    AgentIdentity, Claim, Dialect, Ground, LOCK, Reason, Resumption, Sight, find_current, resume,
};
use sexton_core::session::{Agent, Exit, LoopState, Worktree, WorktreeOutcome};
use sexton_core::store::LockName;
use sexton_core::{
    Batch, Host, OsText, ProcessIdentity, Query, Session, SessionId, Status, Store, StoreError, Time,
};
use sexton_testkit::fake_store::FailedCommit;
use sexton_testkit::{FakeProbe, FakeProcess, FakeStore};

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> Time {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

fn host() -> Host {
    Host::new("m", "yard")
}

fn id(text: &str) -> SessionId {
    text.parse().unwrap()
}

/// A machine with a store. How often somebody opened their eyes is counted.
struct Yard {
    store: FakeStore,
    probe: FakeProbe,
    looks: AtomicUsize,
}

impl Yard {
    fn new() -> Yard {
        Yard { store: FakeStore::new(), probe: FakeProbe::new(), looks: AtomicUsize::new(0) }
    }

    fn add(&self, session: Session) -> Session {
        let id = session.id.clone();
        block_on(self.store.commit(Batch::new().insert(session))).unwrap();
        self.record(id.as_str())
    }

    fn record(&self, text: &str) -> Session {
        block_on(self.store.load(&id(text))).unwrap().unwrap()
    }

    /// A running session with a process of its own.
    fn running(&self, text: &str) -> Session {
        let mut session = Session::new(id(text), host(), now());
        session.status = Status::Running;
        session.process = Some(self.probe.start(FakeProcess::of(&session.id)));
        session.supervisor = Some(self.probe.start(FakeProcess::new()));
        session
    }

    fn end(&self, session: &Session) {
        for process in session.process.iter().chain(&session.supervisor) {
            self.probe.end(process);
        }
    }

    fn resume_in(&self, store: &FakeStore, current: &str) -> Result<Resumption, StoreError> {
        let claim = Claim { agent: AgentIdentity::new(Some("a"), None), stale: DAY, ..Claim::default() };
        let sight = || {
            self.looks.fetch_add(1, Ordering::SeqCst);
            Ok(Sight { probe: Box::new(self.probe.clone()), host: host() })
        };
        let ground = Ground { store, sight: &sight, clock: &now, lock_wait: Duration::ZERO };
        block_on(resume(&ground, Some(&id(current)), &claim))
    }

    fn resume(&self, current: &str) -> Resumption {
        self.resume_in(&self.store, current).unwrap()
    }

    fn drivers(&self) -> Vec<String> {
        let listed = block_on(self.store.list(&Query::active_loops())).unwrap().sessions;
        listed.into_iter().map(|session| session.id.to_string()).collect()
    }
}

/// The same session, driving a loop of the agent `a`.
fn driving(session: Session) -> Session {
    let agent = Agent { session_id: Some("a".to_owned()), ..Agent::default() };
    let state = LoopState { active: true, updated_at: Some(now()), ..LoopState::default() };
    Session { agent: Some(agent), loop_state: Some(state), ..session }
}

fn finished(mut session: Session) -> Session {
    session.finish(Exit::exited(0), now());
    session
}

#[test]
fn a_session_whose_end_is_recorded_is_not_looked_at() {
    let yard = Yard::new();
    yard.add(finished(driving(yard.running("old"))));
    yard.add(yard.running("new"));
    let before = yard.store.commits();
    let resumption = yard.resume("new");
    assert_eq!((resumption.reason, resumption.resumed), (Reason::Resumed, true));
    assert_eq!((resumption.source, resumption.target), (Some(id("old")), Some(id("new"))));
    assert_eq!(yard.store.commits(), before + 1, "both records change in one commit");
    assert_eq!(yard.drivers(), ["new"]);
    assert_eq!(yard.record("old").status, Status::Transferred);
    assert_eq!(yard.looks.load(Ordering::SeqCst), 0);
    assert_eq!(yard.resume("new").reason, Reason::CurrentLoopActive);
    assert_eq!(yard.store.commits(), before + 1, "nothing is written twice");
}

#[test]
fn a_running_session_keeps_its_loop_until_it_is_gone() {
    let yard = Yard::new();
    let old = yard.add(driving(yard.running("old")));
    yard.add(yard.running("new"));
    let before = yard.store.commits();
    assert_eq!(yard.resume("new").reason, Reason::PriorSessionRunning);
    yard.probe.hide(old.process.as_ref().unwrap(), "it was recorded in another pid namespace");
    let unclear = yard.resume("new");
    assert_eq!(unclear.reason, Reason::PriorSessionRunning);
    assert_eq!(unclear.evidence.unwrap(), "it was recorded in another pid namespace");
    assert_eq!(yard.store.commits(), before);
    yard.end(&old);
    assert_eq!(yard.resume("new").reason, Reason::Resumed);
}

#[test]
fn a_session_of_another_host_may_run_for_all_we_know() {
    let yard = Yard::new();
    let mut elsewhere = driving(yard.running("old"));
    elsewhere.host.hostname = "far".to_owned();
    yard.end(&elsewhere);
    yard.add(elsewhere);
    yard.add(yard.running("new"));
    let resumption = yard.resume("new");
    assert_eq!(resumption.reason, Reason::PriorSessionRunning);
    assert_eq!(resumption.evidence.unwrap(), "it belongs to the host far");
}

#[test]
fn a_dead_session_that_nobody_recovered_is_transferred_and_recovery_still_finds_its_worktree() {
    let yard = Yard::new();
    let mut old = driving(yard.running("old"));
    let path = OsText::from("/yard/old");
    old.worktree = Some(Worktree {
        path,
        root: None,
        repo: None,
        branch: None,
        base: None,
        extra: serde_json::Map::new(),
    });
    yard.end(&old);
    yard.add(old);
    yard.add(yard.running("new"));
    assert_eq!(yard.resume("new").reason, Reason::Resumed);
    let record = yard.record("old");
    assert_eq!((record.status, record.finished_at), (Status::Transferred, Some(now())));
    assert_eq!(record.recovery.as_ref().unwrap().worktree, Some(WorktreeOutcome::Pending));
    assert!(!record.is_settled());
}

#[test]
fn i10_a_session_that_left_somebody_behind_is_left_to_recovery() {
    let survivors: [fn(&Yard, &Session); 2] = [
        // A process that it started, and that nobody has ended yet.
        |yard, old| {
            yard.end(old);
            yard.probe.start(FakeProcess::of(&old.id));
        },
        // Its supervisor, which is about to record the end.
        |yard, old| yard.probe.end(old.process.as_ref().unwrap()),
    ];
    for leave in survivors {
        let yard = Yard::new();
        let old = yard.add(driving(yard.running("old")));
        leave(&yard, &old);
        yard.add(yard.running("new"));
        assert_eq!(yard.resume("new").reason, Reason::Resumed);
        assert_eq!(yard.record("old").status, Status::Running);
        assert_eq!(yard.drivers(), ["new"]);
    }
}

#[test]
fn a_session_that_is_being_started_runs() {
    let yard = Yard::new();
    let mut old = driving(yard.running("old"));
    (old.status, old.process) = (Status::Starting, None::<ProcessIdentity>);
    yard.add(old);
    yard.add(yard.running("new"));
    assert_eq!(yard.resume("new").reason, Reason::PriorSessionRunning);
}

#[test]
fn a_lock_that_somebody_else_has_is_waited_for_and_then_reported() {
    let yard = Yard::new();
    yard.add(finished(driving(yard.running("old"))));
    yard.add(yard.running("new"));
    let held = block_on(yard.store.lock(&LockName::new(LOCK).unwrap(), Duration::ZERO)).unwrap();
    let resumption = yard.resume("new");
    assert_eq!((resumption.reason, resumption.current_session), (Reason::LockTimeout, None));
    assert_eq!(yard.drivers(), ["old"]);
    drop(held);
    assert_eq!(yard.resume("new").reason, Reason::Resumed);
}

#[test]
fn a_current_record_that_cannot_be_read_is_left_as_it_is() {
    let yard = Yard::new();
    yard.add(finished(driving(yard.running("old"))));
    yard.add(yard.running("new"));
    yard.store.damage_record(&id("new"));
    let resumption = yard.resume("new");
    assert_eq!(resumption.reason, Reason::CurrentLoopUnreadable);
    assert_eq!(resumption.target, Some(id("new")));
    assert_eq!(yard.drivers(), ["old"]);
}

#[test]
fn a_session_that_does_not_exist_is_no_current_session() {
    let yard = Yard::new();
    yard.add(finished(driving(yard.running("old"))));
    let resumption = yard.resume("nobody");
    assert_eq!((resumption.reason, resumption.current_session), (Reason::CurrentSessionMissing, None));
    assert_eq!(yard.drivers(), ["old"]);
}

#[test]
fn a_commit_whose_answer_was_lost_is_found_done_or_not_done_by_the_next_call() {
    for (how, then) in
        [(FailedCommit::Lost, Reason::Resumed), (FailedCommit::Written, Reason::CurrentLoopActive)]
    {
        let yard = Yard::new();
        yard.add(finished(driving(yard.running("old"))));
        yard.add(yard.running("new"));
        yard.store.fail_next_commit(how);
        assert!(yard.resume_in(&yard.store, "new").is_err());
        assert_eq!(yard.drivers().len(), 1, "{how:?}");
        assert_eq!(yard.resume("new").reason, then);
        assert_eq!(yard.drivers(), ["new"]);
    }
}

/// Another tool's customs: it has variables of its own, and asks nobody whether they live.
const THEIRS: Dialect = Dialect {
    session_variables: &["THEIR_SESSION", "SESSION"],
    spares_the_living: false,
    owner_key: Some("owner_theirs"),
    ..Dialect::SEXTON
};

#[test]
fn another_tools_customs_decide_in_its_own_store() {
    let yard = Yard::new();
    yard.add(driving(yard.running("old")));
    yard.add(yard.running("new"));
    let theirs = yard.store.speaking(&THEIRS);
    assert_eq!(yard.resume_in(&theirs, "new").unwrap().reason, Reason::Resumed);
    assert_eq!(yard.looks.load(Ordering::SeqCst), 0);
    let state = yard.record("new").loop_state.unwrap();
    assert_eq!(state.extra["owner_theirs"], "new");
    assert_eq!(yard.record("old").status, Status::Running);
}

#[test]
fn the_first_variable_that_names_a_session_of_the_store_counts() {
    let yard = Yard::new();
    yard.add(yard.running("one"));
    yard.add(yard.running("bad"));
    yard.store.damage_record(&id("bad"));
    let theirs = yard.store.speaking(&THEIRS);
    let find = |first: Option<&str>, second: Option<&str>| {
        let variable = |name: &str| match name {
            "THEIR_SESSION" => first.map(str::to_owned),
            "SESSION" => second.map(str::to_owned),
            other => panic!("{other} is nobody's variable"),
        };
        block_on(find_current(&theirs, variable)).unwrap().map(|id| id.to_string())
    };
    assert_eq!(find(Some(" one\n"), Some("bad")).as_deref(), Some("one"));
    assert_eq!(find(Some("../../etc"), Some("one")).as_deref(), Some("one"));
    assert_eq!(find(Some("nobody"), Some("one")).as_deref(), Some("one"));
    assert_eq!(find(None, Some("bad")).as_deref(), Some("bad"), "what is damaged is there");
    assert_eq!(find(Some(""), None), None);
}
