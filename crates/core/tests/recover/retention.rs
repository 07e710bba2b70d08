//! Tests of retention: what is deleted and what is kept.

use super::*;

/// Records a finished session, `days` old.
fn finished(machine: &Machine, id: &str, days: u32) -> Session {
    let at = now().saturating_sub(DAY * days);
    let mut session = Session::new(id.parse().unwrap(), machine.host.clone(), at);
    session.status = Status::Running;
    session.finish(Exit::exited(0), at);
    machine.insert(&session)
}

#[test]
fn i9_retention_deletes_old_and_surplus_records_with_logs() {
    let machine = Machine::new();
    finished(&machine, "old", 8);
    for (id, days) in [("one", 1), ("two", 2), ("three", 3)] {
        finished(&machine, id, days);
    }
    let retention = Retention { ttl: DAY * 7, keep: 2, rescue_ttl: None };
    let pruned = block_on(prune(&machine.context(), &retention, true, &Silent)).unwrap().pruned;
    assert_eq!((pruned.expired, pruned.over_limit), (1, 1));
    assert_eq!(block_on(machine.store.list(&Query::all())).unwrap().sessions.len(), 4, "a dry run");
    let pruned = block_on(prune(&machine.context(), &retention, false, &Silent)).unwrap().pruned;
    assert_eq!((pruned.expired, pruned.over_limit), (1, 1));
    assert_eq!((pruned.age_days.week, pruned.age_days.month), (1, 1));
    let left = block_on(machine.store.list(&Query::all())).unwrap().sessions;
    assert_eq!(left.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(machine.state_files.discarded(), ["old", "three"].map(|id| id.parse().unwrap()));
}

/// Changes a record after retention has chosen what to delete.
struct Meddler<'a>(&'a Machine, &'a str);

impl Progress for Meddler<'_> {
    fn wait_for_other(&self) {}

    fn begin(&self, phase: Phase, _: usize) {
        assert_eq!(phase, Phase::Prune);
        let mut session = self.0.load(self.1);
        session.tags.insert("kept".to_owned(), "yes".to_owned());
        self.0.replace(&session);
    }

    fn advance(&self) {}
}

#[test]
fn record_changed_during_retention_keeps_its_log() {
    let machine = Machine::new();
    finished(&machine, "touched", 8);
    finished(&machine, "old", 8);
    let retention = Retention { ttl: DAY * 7, keep: 1000, rescue_ttl: None };
    block_on(prune(&machine.context(), &retention, false, &Meddler(&machine, "touched"))).unwrap();
    let left = block_on(machine.store.list(&Query::all())).unwrap().sessions;
    assert_eq!(left.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["touched"]);
    assert_eq!(machine.state_files.discarded(), ["old".parse().unwrap()]);
}

#[test]
fn i9_retention_keeps_sessions_with_worktree_or_pending_cleanup() {
    let machine = Machine::new();
    let kept = finished(&machine, "kept", 100);
    machine.with_work(kept);
    let mut failed = finished(&machine, "failed", 100);
    failed.status = Status::CleanupFailed;
    machine.replace(&failed);
    let mut pending = finished(&machine, "pending", 100);
    pending.recovery = Some(Recovery {
        cause: "owner_dead".to_owned(),
        evidence: None,
        rescue_ref: None,
        worktree: Some(WorktreeOutcome::Pending),
        error: None,
        extra: serde_json::Map::new(),
    });
    machine.replace(&pending);
    let retention = Retention { ttl: DAY, keep: 0, rescue_ttl: None };
    let pruned = block_on(prune(&machine.context(), &retention, false, &Silent)).unwrap().pruned;
    assert_eq!((pruned.expired, pruned.over_limit), (0, 0));
    assert_eq!(block_on(machine.store.list(&Query::all())).unwrap().sessions.len(), 3);
}

#[test]
fn i9_wrong_clock_does_not_prune_running_sessions() {
    for seconds in [400 * 86_400_i64, -400 * 86_400] {
        let machine = Machine::new();
        let mut session = machine.running("abcd");
        let span = Duration::from_secs(seconds.unsigned_abs());
        session.created_at =
            if seconds > 0 { now().saturating_sub(span) } else { now().saturating_add(span) };
        session.started_at = Some(session.created_at);
        machine.replace(&session);
        let report = machine.recover(&policy());
        assert_eq!((report.left_alone, report.pruned.expired), (1, 0), "{report:?}");
        assert_eq!(machine.probe.signals(), []);
    }
}
