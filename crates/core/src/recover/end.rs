//! Ends the remaining processes of orphans: all of them together, in one grace period.

use std::time::Duration;

use super::act::Run;
use super::case::Case;
use super::context::{Phase, RecoverError};
use super::plan::{Cause, Step, StepKind};
use super::report::seconds;
use crate::ending::claim_ending;
use crate::probe::{EndPolicy, Group};
use crate::session::{Ending, EndingReason};
use crate::{Others, ProcessIdentity};

/// The first signal that is sent.
const SIGINT: i32 = 2;

/// How long a supervisor may take to record an end after its session's processes are gone: its own timeout for
/// the store, and a margin.
const SUPERVISOR_WAIT: Duration = Duration::from_secs(4);

/// The `by` of the endings that recovery records.
const BY: &str = "recover";

/// Records in the sessions of live orphans that they are being ended.
pub(super) async fn claim(run: &mut Run<'_>, cases: &mut [Case]) -> Result<(), RecoverError> {
    let claims = |case: &Case| case.is_due(StepKind::Claim);
    let ids: Vec<_> = cases.iter().filter(|case| claims(case)).map(|case| case.session.id.clone()).collect();
    // Their supervisors may record everything else, so they are counted here.
    let mut counters = run.take_counters();
    counters.insert(format!("orphans.{}", Cause::OwnerDead), ids.len() as u64);
    let limit = run.policy.stop_grace + run.policy.kill_wait + SUPERVISOR_WAIT;
    let ending = Ending::new(EndingReason::OwnerDead, BY, run.now()).within(limit);
    let claimed = claim_ending(run.context.store, &ids, &ending, &counters).await?;
    for case in cases.iter_mut().filter(|case| claims(case)) {
        match claimed.iter().find(|session| session.id == case.session.id) {
            // It was adopted or ended in the meantime, so it is judged again.
            Some(session) if !session.status.is_active() || session.owner != case.session.owner => {
                case.overtaken = true;
            }
            Some(session) => case.session = session.clone(),
            None => case.overtaken = true,
        }
    }
    Ok(())
}

/// Ends every member of every orphan, and proves that they are gone. A live supervisor then records the end of
/// its session.
pub(super) async fn end(run: &mut Run<'_>, cases: &mut [Case]) -> Result<(), RecoverError> {
    let began = run.now();
    let mut ending = Vec::new();
    let mut groups = Vec::new();
    for (index, case) in cases.iter().enumerate().filter(|(_, case)| case.is_due(StepKind::End)) {
        if let Some(group) = group_to_end(case) {
            ending.push(index);
            groups.push(group.clone());
        }
    }
    run.progress.begin(Phase::End, groups.len());
    let policy = policy(run, &run.lineage, Others::load(run.context.store).await?);
    let reports = run.context.probe.terminate(&groups, &policy).await?;
    for (index, report) in ending.iter().zip(&reports) {
        let case = &mut cases[*index];
        case.signalled = !report.signalled.is_empty();
        case.inside = !report.spared.is_empty();
        let left: Vec<_> = report
            .survivors
            .iter()
            .map(|survivor| format!("process {} is still alive: {}", survivor.identity.pid, survivor.why))
            .collect();
        if !left.is_empty() {
            case.failure = Some(left.join("; "));
        }
        run.progress.advance();
    }
    let recorded: Vec<_> = ending.into_iter().filter(|index| has_supervisor(&cases[*index])).collect();
    let supervisors: Vec<_> =
        recorded.iter().filter_map(|index| cases[*index].session.supervisor.clone()).collect();
    if !supervisors.is_empty() {
        let context = run.context;
        context
            .state_files
            .wait_for_supervisors(context.probe, &supervisors, SUPERVISOR_WAIT)
            .map_err(RecoverError::state_files("cannot wait for supervisors"))?;
        context.state_files.commit_exits(context.store, context.probe)?;
        for index in recorded {
            match context.store.load(&cases[index].session.id).await? {
                Some(session) => cases[index].session = session,
                None => cases[index].overtaken = true,
            }
        }
    }
    run.report.seconds.end += seconds(began, run.now());
    Ok(())
}

/// Returns whether a live supervisor records the end of this session, now that no process is left.
fn has_supervisor(case: &Case) -> bool {
    let alive = group_to_end(case).is_some_and(|group| group.supervisor.is_some());
    alive && case.goes_on() && !case.inside
}

fn group_to_end(case: &Case) -> Option<&Group> {
    case.decision.steps.iter().find_map(|step| match step {
        Step::End(group) => Some(&**group),
        _ => None,
    })
}

fn policy(run: &Run<'_>, spare: &[ProcessIdentity], others: Others) -> EndPolicy {
    EndPolicy {
        grace: run.policy.stop_grace,
        first_signal: SIGINT,
        kill_wait: run.policy.kill_wait,
        spare: spare.to_vec(),
        others,
    }
}

/// Ends the spared processes of the sessions that this process is part of, except this process.
pub(super) async fn end_own_ancestors(run: &Run<'_>, own: &mut [Case]) -> Result<(), RecoverError> {
    let groups: Vec<_> = own.iter().filter_map(group_to_end).cloned().collect();
    if !groups.is_empty() {
        let me = run.lineage.get(..1).unwrap_or_default();
        let others = Others::load(run.context.store).await?;
        run.context.probe.terminate(&groups, &policy(run, me, others)).await?;
    }
    Ok(())
}
