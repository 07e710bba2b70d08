//! Stops sessions: many at once in one grace period, with or without a live shim.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use sexton_core::ending::{claim_ending, record_outcome};
use sexton_core::foreign_identity::observe_command;
use sexton_core::probe::{EndPolicy, Ended, Group, Survivor, lineage};
use sexton_core::session::{Ending, EndingReason, Exit, ExitReason};
use sexton_core::store::update_session;
use sexton_core::{
    Liveness, Others, ProbeError, ProcessIdentity, ProcessProbe, Session, SessionId, Store, StoreError, Time,
};

use crate::exit_file::PendingExits;
use crate::wait::wait_for_ends;

/// How long a shim may take to record an end after its session's processes are gone: its own limit for the
/// store, plus a margin.
const SHIM_WAIT: Duration = Duration::from_secs(4);

/// How sessions are stopped.
#[derive(Clone, Debug)]
pub struct StopPolicy {
    /// Time from the first signal to SIGKILL.
    pub grace: Duration,
    /// First signal to send.
    pub first_signal: i32,
    /// How long to wait for the kernel after SIGKILL.
    pub kill_wait: Duration,
}

/// Result for one session.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Its record afterwards.
    pub session: Session,
    /// Whether it had ended before.
    pub had_ended: bool,
    /// Processes that could not be stopped.
    pub survivors: Vec<Survivor>,
}

/// Why stopping failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Error of the probe.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Waiting for processes failed.
    #[error("cannot wait for processes")]
    Wait(#[from] io::Error),
}

/// Stops every session of `ids`. All of them share one grace period. Returns when their processes are gone
/// and their ends are recorded, in the order of `ids`.
///
/// If the caller itself is inside one of them, its ancestors are stopped last, after the outcome is recorded;
/// the caller is left to exit by itself.
pub async fn stop_sessions(
    store: &dyn Store,
    probe: &dyn ProcessProbe,
    exits: &PendingExits,
    ids: &[SessionId],
    policy: &StopPolicy,
    clock: fn() -> Time,
) -> Result<Vec<Stopped>, StopError> {
    let limit = policy.grace + policy.kill_wait + SHIM_WAIT;
    let ending = Ending::new(EndingReason::Stopped, "stop", clock()).within(limit);
    let claimed = claim_ending(store, ids, &ending, &BTreeMap::new()).await?;
    let (ended, active): (Vec<_>, Vec<_>) =
        claimed.into_iter().partition(|session| !session.status.is_active());
    let mut groups: Vec<_> = active.iter().map(Group::of).collect();
    for (group, session) in groups.iter_mut().zip(&active) {
        // Another tool's record may not identify the process; the observed identity is more exact.
        group.process = observe_command(probe, session).await.map(|seen| seen.identity);
    }
    let me = lineage(probe, std::process::id()).await?;
    let reports = if groups.is_empty() {
        Vec::new()
    } else {
        let policy = policy.sparing(&me, Others::load(store).await?);
        probe.terminate(&groups, &policy).await?
    };
    wait_for_shims(probe, &active, &reports)?;
    exits.commit(store, probe)?;
    let mut stopped: Vec<_> = ended
        .into_iter()
        .map(|session| Stopped { session, had_ended: true, survivors: Vec::new() })
        .collect();
    for (session, report) in active.into_iter().zip(&reports) {
        let mut survivors = report.survivors.clone();
        if survivors.is_empty() && report.spared.is_empty() {
            survivors.extend(not_proved_gone(probe, &session).await);
        }
        let session = if survivors.is_empty() { record(store, session, clock()).await? } else { session };
        // A shim that was killed could not do it.
        session.cgroup.iter().for_each(|cgroup| probe.release(cgroup));
        stopped.push(Stopped { session, had_ended: false, survivors });
    }
    end_own_ancestors(store, probe, &groups, &reports, &me, policy).await?;
    stopped.sort_by_key(|stopped| ids.iter().position(|id| *id == stopped.session.id));
    Ok(stopped)
}

impl StopPolicy {
    fn sparing(&self, spare: &[ProcessIdentity], others: Others) -> EndPolicy {
        EndPolicy {
            grace: self.grace,
            first_signal: self.first_signal,
            kill_wait: self.kill_wait,
            spare: spare.to_vec(),
            others,
        }
    }
}

/// Waits for the shims that can finish now: those of sessions without a remaining process.
fn wait_for_shims(probe: &dyn ProcessProbe, sessions: &[Session], reports: &[Ended]) -> io::Result<()> {
    let empty = |report: &&Ended| report.survivors.is_empty() && report.spared.is_empty();
    let done = reports.iter().filter(empty).map(|report| &report.session);
    let done: BTreeSet<_> = done.collect();
    let supervisors = sessions
        .iter()
        .filter(|session| done.contains(&session.id))
        .filter_map(|session| session.supervisor.as_ref());
    wait_for_ends(probe, supervisors, Instant::now() + SHIM_WAIT)
}

/// Returns the command if it is not proved to be gone: then no end is recorded.
async fn not_proved_gone(probe: &dyn ProcessProbe, session: &Session) -> Option<Survivor> {
    let seen = observe_command(probe, session).await?;
    let identity = seen.identity;
    let why = match seen.liveness {
        Liveness::Gone | Liveness::Reused => return None,
        Liveness::Alive => "it could not be stopped".to_owned(),
        Liveness::Unknown(why) => format!("cannot determine whether it is gone: {why}"),
    };
    Some(Survivor { identity, why })
}

/// Records the end if no shim did.
async fn record(store: &dyn Store, session: Session, now: Time) -> Result<Session, StoreError> {
    let exit = Exit { code: None, reason: ExitReason::Stopped, ..Exit::exited(0) };
    let recorded =
        update_session(store, &session.id, |session| record_outcome(session, exit.clone(), None, now));
    Ok(recorded.await?.unwrap_or(session))
}

/// Stops the spared processes, except the caller itself.
async fn end_own_ancestors(
    store: &dyn Store,
    probe: &dyn ProcessProbe,
    groups: &[Group],
    reports: &[Ended],
    me: &[ProcessIdentity],
    policy: &StopPolicy,
) -> Result<(), StopError> {
    let spared = |group: &&Group| {
        reports.iter().any(|report| report.session == group.session && !report.spared.is_empty())
    };
    let groups: Vec<_> = groups.iter().filter(spared).cloned().collect();
    if !groups.is_empty() {
        let others = Others::load(store).await?;
        probe.terminate(&groups, &policy.sparing(me.get(..1).unwrap_or_default(), others)).await?;
    }
    Ok(())
}
