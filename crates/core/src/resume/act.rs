//! Acting: under the store's lock, look, decide, and commit what was decided, all of it or nothing.

use std::time::Duration;

use super::decide::{Claim, Current, Decision, Prior, decide, needs_priors};
use super::dialect::Reason;
use super::look::{Sight, Standing};
use crate::session::Cgroup;
use crate::store::LockName;
use crate::{Batch, Query, Session, SessionId, Store, StoreError, Time};

/// The lock that lets one resumption at a time work on a store.
pub const LOCK: &str = "resume";

/// How long a resumption waits for another.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How often a lost race with somebody who changes these records otherwise is run again.
const ATTEMPTS: usize = 100;

/// What a resumption works with.
pub struct Ground<'a> {
    /// The records.
    pub store: &'a dyn Store,
    /// Opens the eyes, or says why they stay closed. Called at most once, and only where a session matches
    /// whose end is not recorded: a hook has no time for more.
    pub sight: &'a (dyn Fn() -> Result<Sight, String> + Sync),
    /// The time.
    pub clock: &'a (dyn Fn() -> Time + Sync),
    /// How long to wait for another resumption; [`LOCK_WAIT`] unless somebody knows better.
    pub lock_wait: Duration,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumption {
    /// The session that was asked for.
    pub current_session: Option<SessionId>,
    /// Whether a loop was taken over.
    pub resumed: bool,
    /// Whether the owner, thread or pane of the current loop was brought up to date.
    pub updated_current_owner: bool,
    /// Why.
    pub reason: Reason,
    /// The session whose loop was taken, or is not to be had.
    pub source: Option<SessionId>,
    /// The session whose loop was found or made.
    pub target: Option<SessionId>,
    /// What was seen, in words, where somebody will want to know.
    pub evidence: Option<String>,
}

impl Resumption {
    fn of(current_session: Option<SessionId>, decision: Decision) -> Resumption {
        Resumption {
            current_session,
            resumed: decision.reason == Reason::Resumed,
            updated_current_owner: decision.updated_current_owner,
            reason: decision.reason,
            source: decision.source,
            target: decision.target,
            evidence: decision.evidence,
        }
    }

    /// Nothing was even looked at.
    pub fn unseen(reason: Reason) -> Resumption {
        Resumption {
            current_session: None,
            resumed: false,
            updated_current_owner: false,
            reason,
            source: None,
            target: None,
            evidence: None,
        }
    }
}

/// The current session that the environment names, else the one that the store does. A value that is no id,
/// or that the store knows nothing of, is passed over.
pub async fn find_current(
    store: &dyn Store,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<SessionId>, StoreError> {
    for name in store.dialect().session_variables {
        let Some(id) = variable(name).and_then(|value| value.trim().parse::<SessionId>().ok()) else {
            continue;
        };
        match store.load(&id).await {
            Ok(None) => {}
            Ok(Some(_)) | Err(StoreError::DamagedRecord { .. } | StoreError::Record { .. }) => {
                return Ok(Some(id));
            }
            Err(error) => return Err(error),
        }
    }
    if store.dialect().names_current { store.current_session().await } else { Ok(None) }
}

/// Takes over the loop that this agent left in an earlier session, where there is exactly one, and brings
/// the records up to date. Changes nothing where anything is in doubt.
pub async fn resume(
    ground: &Ground<'_>,
    current: Option<&SessionId>,
    claim: &Claim,
) -> Result<Resumption, StoreError> {
    let Some(id) = current else { return Ok(Resumption::unseen(Reason::CurrentSessionMissing)) };
    let _one_at_a_time = match ground.store.lock(&LockName::new(LOCK)?, ground.lock_wait).await {
        Ok(guard) => guard,
        Err(StoreError::LockTimeout { .. }) => return Ok(Resumption::unseen(Reason::LockTimeout)),
        Err(error) => return Err(error),
    };
    let dialect = ground.store.dialect();
    let mut attempt = 1;
    loop {
        let current = load_current(ground.store, id).await?;
        let named = (current != Current::Missing).then(|| id.clone());
        let mut eyes = None;
        let priors = match needs_priors(&current, claim, dialect) {
            true => find_priors(ground, &mut eyes, id, claim).await?,
            false => Vec::new(),
        };
        let mut decision = decide(&current, &priors, claim, dialect, (ground.clock)());
        let changed = std::mem::take(&mut decision.changed);
        if changed.is_empty() {
            return Ok(Resumption::of(named, decision));
        }
        let emptied = find_emptied(&priors, &changed);
        match ground.store.commit(changed.into_iter().fold(Batch::new(), Batch::replace)).await {
            Ok(_) => {
                if let (Some(cgroup), Some(Ok(sight))) = (emptied, eyes) {
                    sight.probe.release(&cgroup);
                }
                return Ok(Resumption::of(named, decision));
            }
            Err(StoreError::Conflict { .. }) if attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The control group of a session whose end is recorded by this very commit: nobody else will remove it.
fn find_emptied(priors: &[Prior], changed: &[Session]) -> Option<Cgroup> {
    let ended = priors.iter().filter(|prior| prior.standing == Standing::Gone);
    let mut settled = ended.filter(|prior| {
        changed.iter().any(|after| after.id == prior.session.id && after.status.is_finished())
    });
    settled.find_map(|prior| prior.session.cgroup.clone())
}

async fn load_current(store: &dyn Store, id: &SessionId) -> Result<Current, StoreError> {
    match store.load(id).await {
        Ok(Some(session)) => {
            let fallback = store.fallback_activity(&session).await?;
            Ok(Current::Found(Box::new(session), fallback))
        }
        Ok(None) => Ok(Current::Missing),
        Err(StoreError::DamagedRecord { .. } | StoreError::Record { .. }) => {
            Ok(Current::Unreadable(id.clone()))
        }
        Err(error) => Err(error),
    }
}

/// The sessions that may have driven the loop before, each looked at.
async fn find_priors(
    ground: &Ground<'_>,
    eyes: &mut Option<Result<Sight, String>>,
    current: &SessionId,
    claim: &Claim,
) -> Result<Vec<Prior>, StoreError> {
    let listed = ground.store.list(&Query::active_loops()).await?.sessions;
    let mut priors = Vec::new();
    for session in listed.into_iter().filter(|session| session.id != *current && claim.fits(session)) {
        let fallback = ground.store.fallback_activity(&session).await?;
        let standing = stand(ground, eyes, &session).await;
        priors.push(Prior { session, fallback, standing });
    }
    Ok(priors)
}

async fn stand(ground: &Ground<'_>, eyes: &mut Option<Result<Sight, String>>, session: &Session) -> Standing {
    if session.status.is_finished() || !ground.store.dialect().spares_the_living {
        return Standing::Ended;
    }
    match eyes.get_or_insert_with(ground.sight) {
        Ok(sight) => sight.of(session).await,
        Err(why) => Standing::Unclear(why.clone()),
    }
}
