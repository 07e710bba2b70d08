//! Tests of problems that cannot be resolved: reported, tried again, and new only once.

use sexton_core::recover::ProblemKind;

use super::*;

/// Records a session that is gone and whose worktree cannot be deleted.
fn undeletable(machine: &Machine) -> Session {
    let session = machine.with_work(machine.running("abcd"));
    machine.kill(&[&session.process, &session.supervisor]);
    machine
        .cleaner
        .refuse_deletion(&path("abcd"), "cannot delete /worktrees/.trash/abcd/f: Permission denied");
    session
}

#[test]
fn i7_failed_deletion_is_reported_retried_and_new_once() {
    let machine = Machine::new();
    undeletable(&machine);
    let report = machine.recover(&policy());
    assert_eq!((report.failed, report.worktrees.removed, report.worktrees.failed), (1, 0, 1), "{report:?}");
    assert_eq!((report.sessions[0].outcome, report.has_new_problems()), (Outcome::Failed, true));
    assert!(report.sessions[0].error.as_ref().unwrap().contains("Permission denied"), "{report:?}");
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert_eq!((report.problems[0].kind, report.problems[0].new), (ProblemKind::Trash, true));
    let record = machine.load("abcd");
    assert_eq!(record.status, Status::CleanupFailed);
    assert_eq!(record.recovery.as_ref().unwrap().worktree, Some(WorktreeOutcome::Failed));
    for _ in 0..2 {
        let again = machine.recover(&policy());
        assert_eq!(
            (again.failed, again.has_new_problems(), again.problems.len()),
            (1, false, 1),
            "{again:?}"
        );
        assert_eq!(again.backup, None, "an unchanged problem is no reason for a backup");
        assert_eq!(machine.load("abcd"), record, "an unchanged problem changes nothing");
    }
    machine.cleaner.allow_deletion(&path("abcd"));
    let settled = machine.recover(&policy());
    assert_eq!((settled.failed, settled.worktrees.removed), (0, 1), "{settled:?}");
    assert_eq!((settled.problems, machine.state_files.problems()), (Vec::new(), Vec::new()));
    assert_eq!(machine.load("abcd").status, Status::Orphaned);
    assert_eq!(machine.cleaner.trash(), Vec::<PathBuf>::new());
}

#[test]
fn i7_undeletable_worktree_does_not_change_a_recorded_end() {
    let machine = Machine::new();
    let mut session = undeletable(&machine);
    session.finish(Exit::exited(3), now());
    session.recovery = Some(Recovery {
        cause: "worktree_removed".to_owned(),
        evidence: None,
        rescue_ref: None,
        worktree: Some(WorktreeOutcome::Pending),
        error: None,
        extra: serde_json::Map::new(),
    });
    let status = machine.replace(&session).status;
    for new in [true, false] {
        assert_eq!(machine.recover(&policy()).has_new_problems(), new);
        let record = machine.load("abcd");
        assert_eq!((record.status, record.is_settled()), (status, false));
    }
    machine.cleaner.allow_deletion(&path("abcd"));
    assert_eq!(machine.recover(&policy()).problems, []);
    let record = machine.load("abcd");
    assert_eq!((record.status, record.is_settled()), (status, true));
}

#[test]
fn i7_failed_rescue_is_new_once() {
    let machine = Machine::new();
    let session = machine.with_work(machine.running("abcd"));
    machine.kill(&[&session.process, &session.supervisor]);
    machine.cleaner.refuse_rescue(&path("abcd"), "the disk is full");
    for new in [true, false, false] {
        let report = machine.recover(&policy());
        assert_eq!((report.failed, report.has_new_problems()), (1, new), "{report:?}");
        assert_eq!(report.problems[0].kind, ProblemKind::Session);
    }
    machine.cleaner.refuse_rescue(&path("abcd"), "the repository is gone");
    assert!(machine.recover(&policy()).has_new_problems(), "another reason is another problem");
}

#[test]
fn i8_unreadable_exit_file_is_reported_and_not_used() {
    for (damaged, expected) in [(true, Status::Orphaned), (false, Status::Running)] {
        let machine = Machine::new();
        let dead = machine.running("dead");
        machine.kill(&[&dead.process, &dead.supervisor]);
        let alive = machine.running("alive");
        let other = machine.running("other");
        machine.kill(&[&other.process, &other.supervisor]);
        for session in [&dead, &alive] {
            machine.state_files.leave_unreadable_exit(&session.id, damaged);
        }
        machine.state_files.leave_exit(&other.id, Exit::exited(3), now());
        let report = machine.recover(&policy());
        assert_eq!(report.problems.len(), 2, "{report:?}");
        assert!(report.has_new_problems());
        assert_eq!(machine.load("dead").status, expected, "damaged: {damaged}");
        assert_eq!(machine.load("alive").status, Status::Running);
        assert_eq!(machine.load("other").exit.unwrap().code, Some(3), "another exit file was not committed");
        assert!(!machine.recover(&policy()).has_new_problems());
    }
}

#[test]
fn i9_deletion_of_session_files_is_retried() {
    let machine = Machine::new();
    let at = now().saturating_sub(DAY * 100);
    let mut session = Session::new("old".parse().unwrap(), machine.host.clone(), at);
    session.status = Status::Running;
    session.finish(Exit::exited(0), at);
    machine.insert(&session);
    machine.state_files.refuse_discard(&session.id, "cannot delete /state/sessions/old: Permission denied");
    for new in [true, false, false] {
        let report = machine.recover(&policy());
        assert_eq!((report.problems.len(), report.has_new_problems()), (1, new), "{report:?}");
        assert_eq!(report.problems[0].kind, ProblemKind::SessionFiles);
    }
}
