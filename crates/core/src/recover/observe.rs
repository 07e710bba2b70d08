//! Observation of every session that recovery has not finished with.
//!
//! The processes are observed first, and the records and exit files are read again afterwards. So a supervisor
//! that was observed gone has written everything that it was going to write, and the decision is based on that.

use std::collections::BTreeMap;

use super::context::{Phase, Progress, RecoverError, RecoveryContext};
use crate::foreign_identity::{observe_command, observe_dispatcher};
use crate::{Incarnation, Liveness, Place, ProcessIdentity, Query, Session, SessionId};

/// The observation of one session.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// Its record, read after its processes were observed.
    pub session: Session,
    /// Whether it belongs to this host.
    pub ours: bool,
    /// Whether an exit file with its end exists.
    pub exit_waits: bool,
    /// Why its exit file could not be read this time; the file may record how the session ended.
    pub exit_unreadable: Option<String>,
    /// Whether the host was rebooted since.
    pub rebooted: bool,
    /// Whether its store cannot record a process, so that a missing one proves nothing.
    pub store_omits_process: bool,
    /// The state of its command; `None` if none was recorded.
    pub process: Option<Liveness>,
    /// The identity of its command. More than the record holds if another tool recorded only a pid.
    pub identity: Option<ProcessIdentity>,
    /// The state of its supervisor.
    pub supervisor: Option<Liveness>,
    /// Whether the supervisor is alive but stopped, so that it does not continue by itself.
    pub supervisor_stopped: bool,
    /// The state of its owner.
    pub owner: Option<Liveness>,
}

impl Sighting {
    /// Returns whether the state of a process that matters is unknown.
    fn is_unclear(&self) -> bool {
        let seen = [&self.process, &self.supervisor, &self.owner];
        seen.into_iter().flatten().any(|liveness| matches!(liveness, Liveness::Unknown(_)))
    }
}

/// How many times a session that changes during the observation is observed.
const ROUNDS: usize = 4;

/// How many times a session whose liveness is unknown is observed: the second time after all others. The cause,
/// such as too many open files, may have passed by then; otherwise the session waits for the next recovery.
const MAX_OBSERVATIONS: usize = 2;

/// Observes every session that is not settled. One that keeps changing is busy, not an orphan, and is left out.
pub async fn observe(
    context: &RecoveryContext<'_>,
    progress: &dyn Progress,
) -> Result<Vec<Sighting>, RecoverError> {
    let mut records = list(context).await?;
    progress.begin(Phase::Observe, records.len());
    let mut settled = BTreeMap::new();
    let here = context.here().await?;
    for round in 1..=ROUNDS {
        let mut seen = Vec::new();
        for record in records {
            seen.push(observe_session(context, &here, record).await);
            progress.advance();
        }
        if seen.is_empty() {
            break;
        }
        let exits = context
            .state_files
            .waiting_exits()
            .map_err(RecoverError::state_files("cannot list the exit files"))?;
        let unreadable = find_unreadable_exits(context)?;
        let mut again: BTreeMap<_, _> =
            list(context).await?.into_iter().map(|record| (record.id.clone(), record)).collect();
        records = Vec::new();
        for mut sighting in seen {
            // Not listed any more: another process settled it meanwhile.
            let Some(record) = again.remove(&sighting.session.id) else { continue };
            let is_clear = round >= MAX_OBSERVATIONS || !sighting.is_unclear();
            if record.revision == sighting.session.revision && is_clear {
                sighting.exit_waits = exits.contains(&record.id);
                sighting.exit_unreadable = unreadable.get(&record.id).cloned();
                settled.insert(record.id.clone(), sighting);
            } else {
                records.push(record);
            }
        }
    }
    // Newest first, as every listing of sessions.
    let mut sightings: Vec<_> = settled.into_values().collect();
    sightings
        .sort_by(|a, b| (b.session.created_at, &b.session.id).cmp(&(a.session.created_at, &a.session.id)));
    Ok(sightings)
}

async fn list(context: &RecoveryContext<'_>) -> Result<Vec<Session>, RecoverError> {
    Ok(context.store.list(&Query::unsettled()).await?.sessions)
}

/// Observes one session.
pub(super) async fn sight(context: &RecoveryContext<'_>, session: Session) -> Result<Sighting, RecoverError> {
    let here = context.here().await?;
    Ok(observe_session(context, &here, session).await)
}

async fn observe_session(context: &RecoveryContext<'_>, here: &Incarnation, session: Session) -> Sighting {
    let place = session.place(here);
    let ours = place != Place::Elsewhere && context.store.describe().capabilities.processes;
    let mut sighting = Sighting {
        ours,
        exit_waits: false,
        exit_unreadable: None,
        rebooted: ours && place == Place::Rebooted,
        store_omits_process: !context.store.describe().capabilities.keeps("process.pid"),
        process: None,
        identity: None,
        supervisor: None,
        supervisor_stopped: false,
        owner: None,
        session,
    };
    if !sighting.ours || sighting.rebooted {
        return sighting;
    }
    // The command before its supervisor: if the command was alive, a supervisor that exits later does not
    // matter.
    let command = observe_command(context.probe, &sighting.session).await;
    (sighting.process, sighting.identity) =
        command.map_or((None, None), |seen| (Some(seen.liveness), Some(seen.identity)));
    sighting.supervisor = observed(context, sighting.session.supervisor.as_ref()).await;
    if sighting.process == Some(Liveness::Alive) {
        sighting.owner = match (&sighting.session.owner, &sighting.identity) {
            (None, Some(identity)) => observe_dispatcher(context.probe, &sighting.session, identity).await,
            (owner, _) => observed(context, owner.as_ref()).await,
        };
    } else if let Some((supervisor, Liveness::Alive)) =
        sighting.session.supervisor.as_ref().zip(sighting.supervisor.clone())
    {
        let details = context.probe.describe(supervisor.pid).await;
        sighting.supervisor_stopped = details.is_ok_and(|details| details.stopped);
    }
    sighting
}

async fn observed(context: &RecoveryContext<'_>, identity: Option<&ProcessIdentity>) -> Option<Liveness> {
    match identity {
        Some(identity) => Some(context.probe.observe(identity).await),
        None => None,
    }
}

/// Returns the exit files that could not be read this time, and why. A damaged one will never be readable, so
/// its session is judged without it.
fn find_unreadable_exits(context: &RecoveryContext<'_>) -> Result<BTreeMap<SessionId, String>, RecoverError> {
    let exits = context
        .state_files
        .unreadable_exits()
        .map_err(RecoverError::state_files("cannot list the exit files"))?;
    let unread = exits.into_iter().filter(|exit| !exit.damaged);
    Ok(unread
        .map(|exit| {
            let why = format!("its exit file {} cannot be read: {}", exit.path.display(), exit.why);
            (exit.session, why)
        })
        .collect())
}
