//! Stopping sessions: many at once in one grace period, with or without a living shim.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use sexton_core::ending::{claim_ending, record_outcome};
use sexton_core::probe::{EndPolicy, Ended, Group, Survivor, lineage};
use sexton_core::session::{Ending, EndingReason, Exit, ExitReason};
use sexton_core::store::update_session;
use sexton_core::testimony::observe_command;
use sexton_core::{
    Liveness, ProbeError, ProcessIdentity, ProcessProbe, Session, SessionId, Store, StoreError, Time,
};

use crate::exit_file::PendingExits;
use crate::wait::{Watched, wait_for_all, watch_process};

/// How long a shim may take to record an end after its session's processes are gone: its own wait for
/// the store, and a little more.
const SHIM_WAIT: Duration = Duration::from_secs(4);

/// How sessions are stopped.
#[derive(Clone, Debug)]
pub struct StopPolicy {
    /// How long they have.
    pub grace: Duration,
    /// What they are told first.
    pub first_signal: i32,
    /// How long to wait for the kernel after SIGKILL.
    pub kill_wait: Duration,
}

/// What became of one session.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// Its record afterwards.
    pub session: Session,
    /// Whether it had ended before.
    pub had_ended: bool,
    /// Processes that could not be ended.
    pub survivors: Vec<Survivor>,
}

/// Why stopping failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The probe.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Waiting.
    #[error("cannot wait for processes")]
    Wait(#[from] io::Error),
}

/// Stops every session of `ids`. All of them share one grace period. Returns when their processes are
/// gone and their ends are recorded, in the order asked for.
///
/// Where the caller itself is inside one of them, it and its ancestors are ended last, after the outcome
/// is recorded; the caller is left to end by itself.
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
        // Another tool's record may say too little to prove anybody by; what was seen now says more.
        group.process = observe_command(probe, session).await.map(|seen| seen.identity);
    }
    let me = lineage(probe, std::process::id()).await?;
    let reports =
        if groups.is_empty() { Vec::new() } else { probe.terminate(&groups, &policy.sparing(&me)).await? };
    wait_for_shims(probe, &active, &reports)?;
    exits.commit(store)?;
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
    end_own_ancestors(probe, &groups, &reports, &me, policy).await?;
    stopped.sort_by_key(|stopped| ids.iter().position(|id| *id == stopped.session.id));
    Ok(stopped)
}

impl StopPolicy {
    fn sparing(&self, spare: &[ProcessIdentity]) -> EndPolicy {
        EndPolicy {
            grace: self.grace,
            first_signal: self.first_signal,
            kill_wait: self.kill_wait,
            spare: spare.to_vec(),
        }
    }
}

/// Waits for those shims that can finish now: whose session has nobody left.
fn wait_for_shims(probe: &dyn ProcessProbe, sessions: &[Session], reports: &[Ended]) -> io::Result<()> {
    let empty = |report: &&Ended| report.survivors.is_empty() && report.spared.is_empty();
    let done = reports.iter().filter(empty).map(|report| &report.session);
    let done: BTreeSet<_> = done.collect();
    let supervisors = sessions
        .iter()
        .filter(|session| done.contains(&session.id))
        .filter_map(|session| session.supervisor.as_ref());
    let watches: Vec<_> = supervisors
        .filter_map(|supervisor| match watch_process(probe, supervisor) {
            Watched::Alive(watch) => Some(watch),
            Watched::Gone | Watched::Unknown(_) => None,
        })
        .collect();
    wait_for_all(&watches, Some(Instant::now() + SHIM_WAIT))?;
    Ok(())
}

/// The command, where nobody can say that it is gone: then no end is recorded.
async fn not_proved_gone(probe: &dyn ProcessProbe, session: &Session) -> Option<Survivor> {
    let seen = observe_command(probe, session).await?;
    let identity = seen.identity;
    let why = match seen.liveness {
        Liveness::Gone | Liveness::Reused => return None,
        Liveness::Alive => "it could not be ended".to_owned(),
        Liveness::Unknown(why) => format!("nobody can tell whether it is gone: {why}"),
    };
    Some(Survivor { identity, why })
}

/// Records the end where no shim did.
async fn record(store: &dyn Store, session: Session, now: Time) -> Result<Session, StoreError> {
    let exit = Exit { code: None, reason: ExitReason::Stopped, ..Exit::exited(0) };
    let recorded =
        update_session(store, &session.id, |session| record_outcome(session, exit.clone(), None, now));
    Ok(recorded.await?.unwrap_or(session))
}

/// Ends what was spared, but for the caller itself.
async fn end_own_ancestors(
    probe: &dyn ProcessProbe,
    groups: &[Group],
    reports: &[Ended],
    me: &[ProcessIdentity],
    policy: &StopPolicy,
) -> Result<(), ProbeError> {
    let spared = |group: &&Group| {
        reports.iter().any(|report| report.session == group.session && !report.spared.is_empty())
    };
    let groups: Vec<_> = groups.iter().filter(spared).cloned().collect();
    if !groups.is_empty() {
        probe.terminate(&groups, &policy.sparing(me.get(..1).unwrap_or_default())).await?;
    }
    Ok(())
}
