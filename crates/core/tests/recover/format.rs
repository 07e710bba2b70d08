//! Tests of when a recovery raises the store's format: never while a supervisor of an older release runs.

use sexton_core::recover::FormatOutcome;
use sexton_core::{Batch, Session, Status, Store};

use super::{Machine, block_on, policy};

/// The first release that supports the newer format.
const SINCE: &str = "0.3.0";

/// Returns a machine whose program can write a newer format than its store has.
fn machine() -> Machine {
    let machine = Machine::new();
    machine.store.make_older(SINCE);
    machine
}

impl Machine {
    fn raised(&self) -> (FormatOutcome, Vec<String>) {
        let report = self.recover(&policy()).format.expect("there is a newer format");
        assert_eq!(self.store.found_format() > 1, report.outcome == FormatOutcome::Raised);
        (report.outcome, report.waits_for.iter().map(ToString::to_string).collect())
    }

    fn of_release(&self, session: &Session, release: Option<&str>) -> Session {
        self.replace(&Session { release: release.map(str::to_owned), ..session.clone() })
    }
}

#[test]
fn i6_format_is_raised_once_after_older_supervisors_exited() {
    for release in [None, Some("0.1.0"), Some("0.3.0-dev"), Some("nonsense")] {
        let machine = machine();
        let session = machine.of_release(&machine.running("abcd"), release);
        assert_eq!(machine.raised(), (FormatOutcome::Waits, vec!["abcd".to_owned()]), "{release:?}");
        assert_eq!(machine.state_files.backups(), 0, "nothing was changed");
        machine.kill(&[&session.supervisor, &session.process]);
        assert_eq!(machine.raised(), (FormatOutcome::Raised, vec![]), "{release:?}");
        let commits = machine.store.commits();
        assert_eq!(machine.recover(&policy()).format, None, "it was raised already");
        assert_eq!(machine.store.commits(), commits);
    }
}

#[test]
fn i6_newer_supervisors_do_not_delay_the_raise() {
    for release in ["0.3.0", "0.10.1"] {
        let machine = machine();
        machine.of_release(&machine.running("abcd"), Some(release));
        assert_eq!(machine.raised(), (FormatOutcome::Raised, vec![]), "{release}");
        assert_eq!(machine.load("abcd").status, Status::Running);
    }
}

#[test]
fn i6_unknown_supervisor_delays_the_raise() {
    let machine = machine();
    let session = machine.running("abcd");
    machine.probe.hide(session.supervisor.as_ref().unwrap(), "its namespace is another");
    assert_eq!(machine.raised().0, FormatOutcome::Waits);

    let machine = self::machine();
    let mut elsewhere = machine.running("efgh");
    elsewhere.host.hostname = "other".to_owned();
    machine.replace(&elsewhere);
    assert_eq!(machine.raised(), (FormatOutcome::Waits, vec!["efgh".to_owned()]));
}

#[test]
fn i6_registered_session_does_not_delay_the_raise() {
    let machine = machine();
    let session = machine.running("abcd");
    machine.kill(&[&session.supervisor]);
    machine.replace(&Session { supervisor: None, ..session });
    assert_eq!(machine.raised(), (FormatOutcome::Raised, vec![]));
}

#[test]
fn i6_supervisor_still_running_after_recorded_end_delays_the_raise() {
    let machine = machine();
    let mut session = machine.running("abcd");
    machine.kill(&[&session.process]);
    session.finish(sexton_core::session::Exit::exited(0), super::now());
    let session = machine.replace(&session);
    assert_eq!(machine.raised(), (FormatOutcome::Waits, vec!["abcd".to_owned()]));
    machine.kill(&[&session.supervisor]);
    assert_eq!(machine.raised(), (FormatOutcome::Raised, vec![]));
}

#[test]
fn i6_session_started_concurrently_by_older_release_delays_the_raise() {
    let machine = machine();
    let late = machine.running("late");
    block_on(machine.store.commit(Batch::new().remove(&late))).unwrap();
    machine.store.before_raising(move |store| {
        block_on(store.commit(Batch::new().insert(late))).unwrap();
    });
    assert_eq!(machine.raised(), (FormatOutcome::Waits, vec!["late".to_owned()]));
}

#[test]
fn dry_run_does_not_raise_the_format() {
    let machine = machine();
    machine.of_release(&machine.running("abcd"), Some(SINCE));
    let report = machine.recover(&sexton_core::recover::Policy { dry_run: true, ..policy() });
    assert_eq!(report.format.map(|format| format.outcome), Some(FormatOutcome::Waits));
    assert_eq!((machine.store.found_format(), machine.state_files.backups()), (1, 0));
}
