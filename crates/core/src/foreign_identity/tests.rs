//! Tests of every row of the table, and of the dispatcher's state.

use super::*;
use crate::session::Worktree;
use crate::{Host, OsText, SessionId, Time};

fn recorded_at() -> Time {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn session(start_ticks: Option<u64>) -> Session {
    let id: SessionId = "t-1".parse().unwrap();
    let mut session = Session::new(id, Host::unnamed(), recorded_at());
    session.started_at = Some(recorded_at());
    session.worktree = Some(Worktree {
        path: OsText::from("/project/.tf/ralph/worktrees/T-1"),
        root: Some(OsText::from("/project/.tf/ralph/worktrees")),
        repo: Some(OsText::from("/project")),
        branch: None,
        base: None,
        extra: serde_json::Map::new(),
    });
    let exe = Some(OsText::from("pi"));
    session.process = Some(ProcessIdentity { start_ticks, exe, ..ProcessIdentity::of_pid(42) });
    session
}

/// Returns the details of the recorded process.
fn agent() -> ProcessDetails {
    ProcessDetails {
        identity: ProcessIdentity {
            boot_id: Some("boot".into()),
            pidfd_inode: Some(900),
            start_ticks: Some(7000),
            pid_namespace: Some(1),
            exe: Some(OsText::from("/usr/bin/node")),
            ..ProcessIdentity::of_pid(42)
        },
        uid: Some(1000),
        kernel_thread: false,
        stopped: false,
        parent: Some(1),
        command: vec!["node".into(), "/usr/bin/pi".into(), "-p".into()],
        cwd: Some("/project/.tf/ralph/worktrees/T-1/src".into()),
        started_at: Some(recorded_at()),
    }
}

fn later() -> Option<Time> {
    Some(recorded_at().saturating_add(SLACK + Duration::from_secs(1)))
}

fn judge(session: &Session, now: &ProcessDetails) -> Match {
    compare(session, session.process.as_ref().unwrap(), now)
}

#[test]
fn same_ticks_and_start_before_record_match() {
    assert_eq!(judge(&session(Some(7000)), &agent()), Match::Same);
    let at_the_limit = ProcessDetails { started_at: Some(recorded_at().saturating_add(SLACK)), ..agent() };
    assert_eq!(judge(&session(Some(7000)), &at_the_limit), Match::Same);
}

#[test]
fn i2_same_ticks_but_start_after_record_are_unknown() {
    for started_at in [later(), None] {
        let now = ProcessDetails { started_at, ..agent() };
        assert!(matches!(judge(&session(Some(7000)), &now), Match::CannotTell(_)), "{started_at:?}");
    }
}

#[test]
fn other_ticks_differ_unless_process_is_in_session_directory() {
    let elsewhere = ProcessDetails { cwd: Some("/".into()), ..agent() };
    assert_eq!(judge(&session(Some(6999)), &elsewhere), Match::Different);
    let hidden = ProcessDetails { cwd: None, ..agent() };
    assert_eq!(judge(&session(Some(6999)), &hidden), Match::Different);
    assert!(matches!(judge(&session(Some(6999)), &agent()), Match::CannotTell(_)));
}

#[test]
fn pid_alone_matches_only_if_program_start_and_directory_match() {
    assert_eq!(judge(&session(None), &agent()), Match::Same);
    let itself = ProcessDetails { command: vec!["/opt/pi".into()], ..agent() };
    assert_eq!(judge(&session(None), &itself), Match::Same);
}

#[test]
fn i2_pid_alone_with_partial_match_is_unknown() {
    let other_program = vec!["vim".into(), "notes".into(), "pi".into()];
    let misfits = [
        ProcessDetails { command: other_program.clone(), ..agent() },
        ProcessDetails { started_at: later(), ..agent() },
        ProcessDetails { started_at: None, ..agent() },
        ProcessDetails { cwd: Some("/project/.tf/ralph/worktrees/T-11".into()), ..agent() },
        ProcessDetails { cwd: None, ..agent() },
        ProcessDetails { command: other_program.clone(), cwd: Some("/".into()), ..agent() },
        ProcessDetails { command: other_program, started_at: later(), ..agent() },
        ProcessDetails { started_at: later(), cwd: Some("/".into()), ..agent() },
    ];
    for now in misfits {
        assert!(matches!(judge(&session(None), &now), Match::CannotTell(_)), "{now:?}");
    }
}

#[test]
fn pid_alone_without_any_match_is_another_process() {
    let directories = [Some("/".into()), None];
    for cwd in directories {
        let now = ProcessDetails { command: vec!["cron".into()], started_at: later(), cwd, ..agent() };
        assert_eq!(judge(&session(None), &now), Match::Different, "{now:?}");
    }
}

#[test]
fn own_identity_is_not_foreign() {
    assert!(is_foreign_identity(session(Some(7000)).process.as_ref().unwrap()));
    assert!(!is_foreign_identity(&agent().identity));
    let portable = ProcessIdentity { start_time_us: Some(1), ..ProcessIdentity::of_pid(42) };
    assert!(!is_foreign_identity(&portable));
}
