//! Tests of recovery of sessions that another tool recorded: a pid as identity, a worktree without a mark.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::time::Duration;

use pollster::block_on;
use sexton_core::recover::{Outcome, Policy, RecoveryContext, Report, Retention, Silent, recover};
use sexton_core::session::{Worktree, WorktreeOutcome};
use sexton_core::worktree::WorktreeLocation;
use sexton_core::{Batch, Host, OsText, ProcessIdentity, Session, SessionId, Status, Store, Time};
use sexton_testkit::{FakeCleaner, FakeProbe, FakeProcess, FakeStateFiles, FakeStore};

const DAY: Duration = Duration::from_secs(86_400);

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

/// A machine with a project of another tool at `/project`.
struct Project {
    store: FakeStore,
    probe: FakeProbe,
    cleaner: FakeCleaner,
    state_files: FakeStateFiles,
    me: ProcessIdentity,
    /// The process that adopts orphans.
    reaper: ProcessIdentity,
}

impl Project {
    fn new() -> Project {
        let probe = FakeProbe::new();
        let reaper = probe.start(FakeProcess::new().in_directory("/"));
        let me = probe.start(FakeProcess::new().running(&["sexton", "recover"]));
        let store = FakeStore::new().of_another_tool();
        Project { store, probe, cleaner: FakeCleaner::new(), state_files: FakeStateFiles::new(), me, reaper }
    }

    fn recover(&self, policy: &Policy) -> Report {
        let host = Host::new("m", "laptop");
        let context = RecoveryContext {
            store: &self.store,
            probe: &self.probe,
            cleaner: Some(&self.cleaner),
            state_files: &self.state_files,
            host: &host,
            me: self.me.pid,
            clock: now,
        };
        block_on(recover(&context, policy, &Silent)).unwrap()
    }

    /// Starts the agent of a ticket, with this parent.
    fn agent(&self, ticket: &str, parent: &ProcessIdentity) -> ProcessIdentity {
        let agent = FakeProcess::new().running(&["pi", "-p", ticket]).in_directory(path(ticket));
        self.probe.start(agent.child_of(parent).started_at(now().saturating_sub(DAY)))
    }

    /// Records what the other tool would: a pid, and perhaps ticks.
    fn record(&self, id: &str, ticket: &str, pid: u32, start_ticks: Option<u64>) -> Session {
        let id: SessionId = id.parse().unwrap();
        let mut session = Session::new(id, Host::unnamed(), now().saturating_sub(DAY));
        session.status = Status::Running;
        session.started_at = Some(session.created_at);
        let exe = Some(OsText::from("pi"));
        session.process = Some(ProcessIdentity { start_ticks, exe, ..ProcessIdentity::of_pid(pid) });
        session.worktree = Some(Worktree {
            path: path(ticket).into(),
            root: Some(OsText::from("/project/.tf/ralph/worktrees")),
            repo: Some(OsText::from("/project")),
            branch: None,
            base: None,
            extra: serde_json::Map::new(),
        });
        block_on(self.store.commit(Batch::new().insert(session.clone()))).unwrap();
        session
    }

    /// Creates a worktree with an uncommitted note at the path of `session`.
    fn plant(&self, session: &Session) {
        let location = WorktreeLocation::of(session, &self.store.describe().uuid.unwrap()).unwrap();
        self.cleaner.place_unmarked(&location, session.created_at);
        self.cleaner.write(&location.path, "note", "work");
    }

    fn status(&self, session: &Session) -> Status {
        block_on(self.store.load(&session.id)).unwrap().unwrap().status
    }

    fn rescued(&self, session: &Session) -> bool {
        self.cleaner.find_rescued(Path::new("/project"), &session.id).is_some()
    }
}

fn path(ticket: &str) -> std::path::PathBuf {
    Path::new("/project/.tf/ralph/worktrees").join(ticket)
}

#[test]
fn i7_live_orphan_is_ended_and_its_work_saved_once() {
    for with_ticks in [true, false] {
        let project = Project::new();
        let agent = project.agent("T-1", &project.reaper);
        let ticks = agent.start_ticks.filter(|_| with_ticks);
        let session = project.record("s1", "T-1", agent.pid, ticks);
        project.plant(&session);
        let dry = project.recover(&Policy { dry_run: true, ..policy() });
        assert_eq!((dry.orphans, dry.sessions[0].worktree), (1, Some(WorktreeOutcome::Removed)), "{dry:?}");
        assert!(
            project.probe.is_alive(&agent) && project.cleaner.exists(&path("T-1")),
            "the dry run changed something"
        );
        let report = project.recover(&policy());
        assert_eq!((report.orphans, report.ended, report.failed), (1, 1, 0), "{report:?}");
        assert!(!project.probe.is_alive(&agent));
        assert_eq!(project.status(&session), Status::Orphaned);
        assert!(!project.cleaner.exists(&path("T-1")) && project.rescued(&session));
        let again = project.recover(&policy());
        assert_eq!((again.scanned, again.failed), (0, 0), "{again:?}");
        assert_eq!(again.backup, None, "there was nothing to change");
    }
}

#[test]
fn session_with_live_dispatcher_is_left_alone() {
    let project = Project::new();
    let dispatcher = project.probe.start(FakeProcess::new().in_directory("/project"));
    let agent = project.agent("T-1", &dispatcher);
    let session = project.record("s1", "T-1", agent.pid, agent.start_ticks);
    project.plant(&session);
    let report = project.recover(&policy());
    assert_eq!((report.left_alone, report.orphans), (1, 0), "{report:?}");
    assert!(project.probe.is_alive(&agent) && project.cleaner.exists(&path("T-1")));
}

#[test]
fn i2_process_that_only_shares_the_pid_is_never_signalled() {
    let project = Project::new();
    let stranger = FakeProcess::new().running(&["vim"]).in_directory("/home").child_of(&project.reaper);
    let stranger = project.probe.start(stranger.started_at(now()));
    let by_number = project.record("s1", "T-1", stranger.pid, None);
    let by_ticks = project.record("s2", "T-2", stranger.pid, stranger.start_ticks.map(|ticks| ticks + 1));
    let report = project.recover(&policy());
    assert_eq!((report.orphans, report.ended), (2, 0), "{report:?}");
    assert!(report.sessions.iter().all(|session| session.cause == "pid_reused"), "{report:?}");
    assert!(project.probe.is_alive(&stranger));
    assert_eq!([&by_number, &by_ticks].map(|session| project.status(session)), [Status::Orphaned; 2]);
}

#[test]
fn i2_partial_evidence_is_unknown_and_changes_nothing() {
    let project = Project::new();
    let shell = FakeProcess::new().running(&["bash"]).in_directory(path("T-1")).child_of(&project.reaper);
    let shell = project.probe.start(shell.started_at(now().saturating_sub(DAY)));
    let session = project.record("s1", "T-1", shell.pid, None);
    project.plant(&session);
    let report = project.recover(&policy());
    assert_eq!((report.unknown, report.orphans), (1, 0), "{report:?}");
    assert_eq!(report.sessions[0].outcome, Outcome::Unknown);
    assert!(project.probe.is_alive(&shell) && project.cleaner.exists(&path("T-1")));
    assert_eq!(project.status(&session), Status::Running);
}

#[test]
fn i3_worktree_used_by_later_session_is_kept() {
    let project = Project::new();
    let dispatcher = project.probe.start(FakeProcess::new().in_directory("/project"));
    let gone = project.agent("T-1", &dispatcher);
    project.probe.end(&gone);
    // Its helper without a cookie has left the directory, so that no occupant would keep the worktree.
    let living = FakeProcess::new().running(&["pi"]).in_directory("/project").child_of(&dispatcher);
    let living = project.probe.start(living.started_at(now().saturating_sub(DAY)));
    let first = project.record("s1", "T-1", gone.pid, gone.start_ticks);
    let second = project.record("s2", "T-1", living.pid, living.start_ticks);
    project.plant(&first);
    let report = project.recover(&policy());
    assert_eq!((report.orphans, report.left_alone), (1, 1), "{report:?}");
    assert_eq!([&first, &second].map(|session| project.status(session)), [Status::Orphaned, Status::Running]);
    assert!(project.cleaner.exists(&path("T-1")), "the worktree of a live session was removed");
    project.probe.end(&living);
    project.recover(&policy());
    assert!(!project.cleaner.exists(&path("T-1")));
    assert!(project.rescued(&second), "its work is saved under its last session");
}

#[test]
fn session_in_store_without_processes_is_no_orphan() {
    let mut project = Project::new();
    project.store = project.store.without_processes();
    let mut session = project.record("s1", "T-1", 4_000_000, None);
    session.process = None;
    block_on(project.store.commit(Batch::new().replace(Session { revision: 1, ..session.clone() }))).unwrap();
    let report = project.recover(&policy());
    assert_eq!((report.left_alone, report.orphans), (1, 0), "{report:?}");
    assert_eq!(project.status(&session), Status::Running);
}

#[test]
fn worktree_marked_by_another_session_is_kept() {
    let project = Project::new();
    let session = project.record("s1", "T-1", 4_000_000, Some(1));
    let other: SessionId = "other".parse().unwrap();
    let location = WorktreeLocation {
        session: other,
        ..WorktreeLocation::of(&session, &project.store.describe().uuid.unwrap()).unwrap()
    };
    project.cleaner.place(&location, now());
    let report = project.recover(&policy());
    assert_eq!(report.sessions[0].worktree, Some(WorktreeOutcome::Kept), "{report:?}");
    assert!(project.cleaner.exists(&location.path));
    assert_eq!(project.status(&session), Status::Orphaned);
}
