//! Tests of sessions that run without their supervisor.

use sexton_core::recover::Policy;

use super::{Machine, policy, supervise};

#[test]
fn lost_supervisor_is_replaced_except_in_a_dry_run() {
    let machine = Machine::new();
    let (lost, fine) = (machine.running("abcd"), machine.running("efgh"));
    machine.kill(&[&lost.supervisor]);
    let report = machine.recover(&Policy { dry_run: true, ..policy() });
    assert_eq!((report.resupervised, report.left_alone), (1, 1), "{report:?}");
    assert_eq!(machine.state_files.supervised(), []);
    let report = machine.recover(&policy());
    assert_eq!((report.resupervised, report.left_alone, report.orphans), (1, 1, 0), "{report:?}");
    let reported = report.sessions.iter().find(|session| session.id == lost.id).unwrap();
    assert_eq!((reported.action.as_str(), reported.cause.as_str()), ("resupervised", "supervisor_dead"));
    assert_eq!(machine.state_files.supervised(), std::slice::from_ref(&lost.id));
    assert_eq!(machine.probe.signals(), []);
    let again = machine.recover(&policy());
    assert_eq!((again.resupervised, again.left_alone, &again.backup), (0, 2, &None), "{again:?}");
    assert_eq!(machine.state_files.supervised(), [lost.id]);
    assert_eq!(machine.load("efgh").supervisor, fine.supervisor);
}

#[test]
fn i7_concurrent_recovery_starts_no_second_supervisor() {
    let machine = Machine::new();
    let lost = machine.running("abcd");
    machine.kill(&[&lost.supervisor]);
    machine.state_files.supervise_by({
        let (store, probe) = (machine.store.clone(), machine.probe.clone());
        move |lost| {
            // The other recovery was first.
            supervise(&store, &probe, lost);
            supervise(&store, &probe, lost)
        }
    });
    let report = machine.recover(&policy());
    assert_eq!((report.resupervised, report.left_alone, report.failed), (0, 1, 0), "{report:?}");
    assert_eq!(machine.state_files.supervised(), []);
}
