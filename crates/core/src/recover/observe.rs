//! Looking: what can be said of every session that recovery owes something.
//!
//! The processes are looked at first, and the records and exit files read again afterwards. So a
//! supervisor that was seen gone has written whatever it was going to write, and that is what is judged.

use std::collections::BTreeMap;

use super::ground::{Ground, Phase, Progress, RecoverError};
use crate::testimony::{observe_command, observe_dispatcher};
use crate::{Liveness, ProcessIdentity, Query, Session};

/// What was seen of one session.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// Its record, read after its processes were looked at.
    pub session: Session,
    /// Whether it belongs to this machine.
    pub ours: bool,
    /// Whether its end waits in an exit file.
    pub exit_waits: bool,
    /// Whether the machine was started again since.
    pub rebooted: bool,
    /// Whether its store has no place for a process, so that none says nothing.
    pub untold: bool,
    /// What became of its command; `None` where none was recorded.
    pub process: Option<Liveness>,
    /// Who its command is. More than the record says, where another tool wrote down no more than a number.
    pub identity: Option<ProcessIdentity>,
    /// What became of its supervisor.
    pub supervisor: Option<Liveness>,
    /// Whether that is alive but stopped, so that it will not go on by itself.
    pub supervisor_stopped: bool,
    /// What became of its owner.
    pub owner: Option<Liveness>,
}

impl Sighting {
    /// Whether somebody could not be judged who matters here.
    fn is_unclear(&self) -> bool {
        let seen = [&self.process, &self.supervisor, &self.owner];
        seen.into_iter().flatten().any(|liveness| matches!(liveness, Liveness::Unknown(_)))
    }
}

/// How often a session that changes while it is looked at is looked at again.
const ROUNDS: usize = 4;

/// How often a session is looked at of which it cannot be told whether it lives: the second time when everybody else
/// was. What fails here, such as opening one file too many, may have passed by then; and who is left alone waits for the
/// next recovery.
const LOOKS: usize = 2;

/// Looks at every session that is not settled. One that keeps changing under the eyes is busy, not an
/// orphan, and is left out.
pub async fn observe(ground: &Ground<'_>, progress: &dyn Progress) -> Result<Vec<Sighting>, RecoverError> {
    let mut records = list(ground).await?;
    progress.begin(Phase::Observe, records.len());
    let mut settled = BTreeMap::new();
    let here = ground.probe.identify(ground.me).await?;
    for round in 1..=ROUNDS {
        let mut seen = Vec::new();
        for record in records {
            seen.push(look(ground, &here, record).await);
            progress.advance();
        }
        if seen.is_empty() {
            break;
        }
        let exits =
            ground.premises.waiting_exits().map_err(RecoverError::premises("cannot list the exit files"))?;
        let mut again: BTreeMap<_, _> =
            list(ground).await?.into_iter().map(|record| (record.id.clone(), record)).collect();
        records = Vec::new();
        for mut sighting in seen {
            // Gone from the listing: it was settled by somebody else meanwhile.
            let Some(record) = again.remove(&sighting.session.id) else { continue };
            let is_clear = round >= LOOKS || !sighting.is_unclear();
            if record.revision == sighting.session.revision && is_clear {
                sighting.exit_waits = exits.contains(&record.id);
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

async fn list(ground: &Ground<'_>) -> Result<Vec<Session>, RecoverError> {
    Ok(ground.store.list(&Query::unsettled()).await?.sessions)
}

/// Looks at one session.
pub(super) async fn sight(ground: &Ground<'_>, session: Session) -> Result<Sighting, RecoverError> {
    let here = ground.probe.identify(ground.me).await?;
    Ok(look(ground, &here, session).await)
}

async fn look(ground: &Ground<'_>, here: &ProcessIdentity, session: Session) -> Sighting {
    let ours = session.host.is_here(ground.host) && ground.store.describe().capabilities.processes;
    let mut sighting = Sighting {
        ours,
        exit_waits: false,
        rebooted: ours && is_of_another_boot(&session, here),
        untold: !ground.store.describe().capabilities.keeps("process.pid"),
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
    // The command before its supervisor: one that was seen alive is not judged by what came after.
    let command = observe_command(ground.probe, &sighting.session).await;
    (sighting.process, sighting.identity) =
        command.map_or((None, None), |seen| (Some(seen.liveness), Some(seen.identity)));
    sighting.supervisor = observed(ground, sighting.session.supervisor.as_ref()).await;
    if sighting.process == Some(Liveness::Alive) {
        sighting.owner = match (&sighting.session.owner, &sighting.identity) {
            (None, Some(identity)) => observe_dispatcher(ground.probe, &sighting.session, identity).await,
            (owner, _) => observed(ground, owner.as_ref()).await,
        };
    } else if let Some((supervisor, Liveness::Alive)) =
        sighting.session.supervisor.as_ref().zip(sighting.supervisor.clone())
    {
        let details = ground.probe.describe(supervisor.pid).await;
        sighting.supervisor_stopped = details.is_ok_and(|details| details.stopped);
    }
    sighting
}

async fn observed(ground: &Ground<'_>, identity: Option<&ProcessIdentity>) -> Option<Liveness> {
    match identity {
        Some(identity) => Some(ground.probe.observe(identity).await),
        None => None,
    }
}

/// Whether the record was made before the machine was last started: then nothing of it can be alive.
fn is_of_another_boot(session: &Session, here: &ProcessIdentity) -> bool {
    let recorded = session.process.as_ref().or(session.supervisor.as_ref());
    let recorded = recorded.and_then(|identity| identity.boot_id.as_ref());
    recorded.zip(here.boot_id.as_ref()).is_some_and(|(recorded, now)| recorded != now)
}
