//! Tests of resuming on the strict fakes: what is observed, what is committed, and what takes precedence.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pollster::block_on;
use sexton_core::resume::{
    AgentIdentity, Claim, Dialect, LOCK, Reason, ResumeContext, Resumption, Sight, find_current, resume,
};
use sexton_core::session::{Agent, Exit, LoopState, Worktree, WorktreeOutcome};
use sexton_core::store::LockName;
use sexton_core::{
    Batch, Host, Incarnation, OsText, ProcessIdentity, Query, Session, SessionId, Status, Store, StoreError,
    Time,
};
use sexton_testkit::fake_store::FailedCommit;
use sexton_testkit::{FakeProbe, FakeProcess, FakeStore};

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> Time {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

fn host() -> Host {
    Host::new("m", "laptop")
}

fn id(text: &str) -> SessionId {
    text.parse().unwrap()
}

/// A machine with a store. Counts how often the probe was opened.
struct TestEnv {
    store: FakeStore,
    probe: FakeProbe,
    opened: AtomicUsize,
}

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv { store: FakeStore::new(), probe: FakeProbe::new(), opened: AtomicUsize::new(0) }
    }

    fn add(&self, session: Session) -> Session {
        let id = session.id.clone();
        block_on(self.store.commit(Batch::new().insert(session))).unwrap();
        self.record(id.as_str())
    }

    fn record(&self, text: &str) -> Session {
        block_on(self.store.load(&id(text))).unwrap().unwrap()
    }

    /// Returns a running session with its own process.
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
            self.opened.fetch_add(1, Ordering::SeqCst);
            let here = Incarnation { host: host(), boot_id: None, pid_namespace: None };
            Ok(Sight { probe: Box::new(self.probe.clone()), here })
        };
        let context = ResumeContext { store, sight: &sight, clock: &now, lock_wait: Duration::ZERO };
        block_on(resume(&context, Some(&id(current)), &claim))
    }

    fn resume(&self, current: &str) -> Resumption {
        self.resume_in(&self.store, current).unwrap()
    }

    fn drivers(&self) -> Vec<String> {
        let listed = block_on(self.store.list(&Query::active_loops())).unwrap().sessions;
        listed.into_iter().map(|session| session.id.to_string()).collect()
    }
}

/// Returns the same session, driving a loop of the agent `a`.
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
fn finished_session_is_not_probed() {
    let test_env = TestEnv::new();
    test_env.add(finished(driving(test_env.running("old"))));
    test_env.add(test_env.running("new"));
    let before = test_env.store.commits();
    let resumption = test_env.resume("new");
    assert_eq!((resumption.reason, resumption.resumed), (Reason::Resumed, true));
    assert_eq!((resumption.source, resumption.target), (Some(id("old")), Some(id("new"))));
    assert_eq!(test_env.store.commits(), before + 1, "both records change in one commit");
    assert_eq!(test_env.drivers(), ["new"]);
    assert_eq!(test_env.record("old").status, Status::Transferred);
    assert_eq!(test_env.opened.load(Ordering::SeqCst), 0);
    assert_eq!(test_env.resume("new").reason, Reason::CurrentLoopActive);
    assert_eq!(test_env.store.commits(), before + 1, "nothing is written twice");
}

#[test]
fn running_session_keeps_its_loop_until_it_is_gone() {
    let test_env = TestEnv::new();
    let old = test_env.add(driving(test_env.running("old")));
    test_env.add(test_env.running("new"));
    let before = test_env.store.commits();
    assert_eq!(test_env.resume("new").reason, Reason::PriorSessionRunning);
    test_env.probe.hide(old.process.as_ref().unwrap(), "it was recorded in another pid namespace");
    let unclear = test_env.resume("new");
    assert_eq!(unclear.reason, Reason::PriorSessionRunning);
    assert_eq!(unclear.evidence.unwrap(), "it was recorded in another pid namespace");
    assert_eq!(test_env.store.commits(), before);
    test_env.end(&old);
    assert_eq!(test_env.resume("new").reason, Reason::Resumed);
}

#[test]
fn session_of_another_host_keeps_its_loop() {
    let test_env = TestEnv::new();
    let mut elsewhere = driving(test_env.running("old"));
    elsewhere.host.hostname = "far".to_owned();
    test_env.end(&elsewhere);
    test_env.add(elsewhere);
    test_env.add(test_env.running("new"));
    let resumption = test_env.resume("new");
    assert_eq!(resumption.reason, Reason::PriorSessionRunning);
    assert_eq!(resumption.evidence.unwrap(), "it belongs to the host far");
}

#[test]
fn dead_session_is_transferred_and_recovery_still_finds_its_worktree() {
    let test_env = TestEnv::new();
    let mut old = driving(test_env.running("old"));
    let path = OsText::from("/worktrees/old");
    old.worktree = Some(Worktree {
        path,
        root: None,
        repo: None,
        branch: None,
        base: None,
        extra: serde_json::Map::new(),
    });
    test_env.end(&old);
    test_env.add(old);
    test_env.add(test_env.running("new"));
    assert_eq!(test_env.resume("new").reason, Reason::Resumed);
    let record = test_env.record("old");
    assert_eq!((record.status, record.finished_at), (Status::Transferred, Some(now())));
    assert_eq!(record.recovery.as_ref().unwrap().worktree, Some(WorktreeOutcome::Pending));
    assert!(!record.is_settled());
}

#[test]
fn i10_session_with_remaining_processes_is_left_to_recovery() {
    let survivors: [fn(&TestEnv, &Session); 2] = [
        // A process that it started, which has not been ended yet.
        |test_env, old| {
            test_env.end(old);
            test_env.probe.start(FakeProcess::of(&old.id));
        },
        // Its supervisor, which is about to record the end.
        |test_env, old| test_env.probe.end(old.process.as_ref().unwrap()),
    ];
    for leave in survivors {
        let test_env = TestEnv::new();
        let old = test_env.add(driving(test_env.running("old")));
        leave(&test_env, &old);
        test_env.add(test_env.running("new"));
        assert_eq!(test_env.resume("new").reason, Reason::Resumed);
        assert_eq!(test_env.record("old").status, Status::Running);
        assert_eq!(test_env.drivers(), ["new"]);
    }
}

#[test]
fn starting_session_counts_as_running() {
    let test_env = TestEnv::new();
    let mut old = driving(test_env.running("old"));
    (old.status, old.process) = (Status::Starting, None::<ProcessIdentity>);
    test_env.add(old);
    test_env.add(test_env.running("new"));
    assert_eq!(test_env.resume("new").reason, Reason::PriorSessionRunning);
}

#[test]
fn held_lock_is_waited_for_and_then_reported() {
    let test_env = TestEnv::new();
    test_env.add(finished(driving(test_env.running("old"))));
    test_env.add(test_env.running("new"));
    let held = block_on(test_env.store.lock(&LockName::new(LOCK).unwrap(), Duration::ZERO)).unwrap();
    let resumption = test_env.resume("new");
    assert_eq!((resumption.reason, resumption.current_session), (Reason::LockTimeout, None));
    assert_eq!(test_env.drivers(), ["old"]);
    drop(held);
    assert_eq!(test_env.resume("new").reason, Reason::Resumed);
}

#[test]
fn unreadable_current_record_is_not_changed() {
    let test_env = TestEnv::new();
    test_env.add(finished(driving(test_env.running("old"))));
    test_env.add(test_env.running("new"));
    test_env.store.damage_record(&id("new"));
    let resumption = test_env.resume("new");
    assert_eq!(resumption.reason, Reason::CurrentLoopUnreadable);
    assert_eq!(resumption.target, Some(id("new")));
    assert_eq!(test_env.drivers(), ["old"]);
}

#[test]
fn missing_session_is_no_current_session() {
    let test_env = TestEnv::new();
    test_env.add(finished(driving(test_env.running("old"))));
    let resumption = test_env.resume("missing");
    assert_eq!((resumption.reason, resumption.current_session), (Reason::CurrentSessionMissing, None));
    assert_eq!(test_env.drivers(), ["old"]);
}

#[test]
fn call_after_a_lost_commit_result_converges() {
    for (how, then) in
        [(FailedCommit::Lost, Reason::Resumed), (FailedCommit::Written, Reason::CurrentLoopActive)]
    {
        let test_env = TestEnv::new();
        test_env.add(finished(driving(test_env.running("old"))));
        test_env.add(test_env.running("new"));
        test_env.store.fail_next_commit(how);
        assert!(test_env.resume_in(&test_env.store, "new").is_err());
        assert_eq!(test_env.drivers().len(), 1, "{how:?}");
        assert_eq!(test_env.resume("new").reason, then);
        assert_eq!(test_env.drivers(), ["new"]);
    }
}

/// Another tool's conventions: it has its own variables, and does not check liveness.
const THEIRS: Dialect = Dialect {
    session_variables: &["THEIR_SESSION", "SESSION"],
    spares_the_living: false,
    owner_key: Some("owner_theirs"),
    ..Dialect::SEXTON
};

#[test]
fn foreign_dialect_applies_in_its_own_store() {
    let test_env = TestEnv::new();
    test_env.add(driving(test_env.running("old")));
    test_env.add(test_env.running("new"));
    let theirs = test_env.store.speaking(&THEIRS);
    assert_eq!(test_env.resume_in(&theirs, "new").unwrap().reason, Reason::Resumed);
    assert_eq!(test_env.opened.load(Ordering::SeqCst), 0);
    let state = test_env.record("new").loop_state.unwrap();
    assert_eq!(state.extra["owner_theirs"], "new");
    assert_eq!(test_env.record("old").status, Status::Running);
}

#[test]
fn first_variable_that_names_a_recorded_session_counts() {
    let test_env = TestEnv::new();
    test_env.add(test_env.running("one"));
    test_env.add(test_env.running("bad"));
    test_env.store.damage_record(&id("bad"));
    let theirs = test_env.store.speaking(&THEIRS);
    let find = |first: Option<&str>, second: Option<&str>| {
        let variable = |name: &str| match name {
            "THEIR_SESSION" => first.map(str::to_owned),
            "SESSION" => second.map(str::to_owned),
            other => panic!("unexpected variable {other}"),
        };
        block_on(find_current(&theirs, variable)).unwrap().map(|id| id.to_string())
    };
    assert_eq!(find(Some(" one\n"), Some("bad")).as_deref(), Some("one"));
    assert_eq!(find(Some("../../etc"), Some("one")).as_deref(), Some("one"));
    assert_eq!(find(Some("missing"), Some("one")).as_deref(), Some("one"));
    assert_eq!(find(None, Some("bad")).as_deref(), Some("bad"), "a damaged record exists");
    assert_eq!(find(Some(""), None), None);
}
