//! Execution of a resumption: under the store's lock, observes, decides, and commits the decision atomically.

use std::time::Duration;

use super::decide::{Claim, Current, Decision, Prior, decide, needs_priors};
use super::dialect::Reason;
use super::look::{Sight, Standing};
use crate::session::Cgroup;
use crate::store::LockName;
use crate::{Batch, Query, Session, SessionId, Store, StoreError, Time};

/// The lock that admits one resumption at a time to a store.
pub const LOCK: &str = "resume";

/// How long a resumption waits for another one.
pub const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How many times a conflict with another writer is retried.
const ATTEMPTS: usize = 100;

/// What a resumption works with.
pub struct ResumeContext<'a> {
    /// The store.
    pub store: &'a dyn Store,
    /// Opens the probe, or returns why it cannot be opened. Called at most once, and only if a session matches
    /// whose end is not recorded: a hook has no time for more.
    pub sight: &'a (dyn Fn() -> Result<Sight, String> + Sync),
    /// Returns the present time.
    pub clock: &'a (dyn Fn() -> Time + Sync),
    /// How long to wait for another resumption; usually [`LOCK_WAIT`].
    pub lock_wait: Duration,
}

/// The result of a resumption.
#[derive(Clone, Debug, PartialEq)]
pub struct Resumption {
    /// The requested session.
    pub current_session: Option<SessionId>,
    /// Whether a loop was taken over.
    pub resumed: bool,
    /// Whether the owner, thread or pane of the current loop was updated.
    pub updated_current_owner: bool,
    /// The reason for the result.
    pub reason: Reason,
    /// The session whose loop was taken over, or is not available.
    pub source: Option<SessionId>,
    /// The session whose loop was found or created.
    pub target: Option<SessionId>,
    /// What was observed, in words, if it matters to the user.
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

    /// Creates a result for which nothing was examined.
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

/// Returns the current session that the environment names, or else the one that the store names. Skips a value
/// that is not an id or that the store has no record of.
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

/// Takes over the loop that this agent left in an earlier session, if there is exactly one, and updates the
/// records. Changes nothing if anything is unclear.
pub async fn resume(
    context: &ResumeContext<'_>,
    current: Option<&SessionId>,
    claim: &Claim,
) -> Result<Resumption, StoreError> {
    let Some(id) = current else { return Ok(Resumption::unseen(Reason::CurrentSessionMissing)) };
    let _lock = match context.store.lock(&LockName::new(LOCK)?, context.lock_wait).await {
        Ok(guard) => guard,
        Err(StoreError::LockTimeout { .. }) => return Ok(Resumption::unseen(Reason::LockTimeout)),
        Err(error) => return Err(error),
    };
    let dialect = context.store.dialect();
    let mut attempt = 1;
    loop {
        let current = load_current(context.store, id).await?;
        let named = (current != Current::Missing).then(|| id.clone());
        let mut opened = None;
        let priors = match needs_priors(&current, claim, dialect) {
            true => find_priors(context, &mut opened, id, claim).await?,
            false => Vec::new(),
        };
        let mut decision = decide(&current, &priors, claim, dialect, (context.clock)());
        let changed = std::mem::take(&mut decision.changed);
        if changed.is_empty() {
            return Ok(Resumption::of(named, decision));
        }
        let emptied = find_emptied(&priors, &changed);
        match context.store.commit(changed.into_iter().fold(Batch::new(), Batch::replace)).await {
            Ok(_) => {
                if let (Some(cgroup), Some(Ok(sight))) = (emptied, opened) {
                    sight.probe.release(&cgroup);
                }
                return Ok(Resumption::of(named, decision));
            }
            Err(StoreError::Conflict { .. }) if attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Returns the control group of a session whose end this commit records: nothing else will remove it.
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

/// Returns the sessions that may have driven the loop before, with the state of their processes.
async fn find_priors(
    context: &ResumeContext<'_>,
    opened: &mut Option<Result<Sight, String>>,
    current: &SessionId,
    claim: &Claim,
) -> Result<Vec<Prior>, StoreError> {
    let listed = context.store.list(&Query::active_loops()).await?.sessions;
    let mut priors = Vec::new();
    for session in listed.into_iter().filter(|session| session.id != *current && claim.fits(session)) {
        let fallback = context.store.fallback_activity(&session).await?;
        let standing = observe_prior(context, opened, &session).await;
        priors.push(Prior { session, fallback, standing });
    }
    Ok(priors)
}

async fn observe_prior(
    context: &ResumeContext<'_>,
    opened: &mut Option<Result<Sight, String>>,
    session: &Session,
) -> Standing {
    if session.status.is_finished() || !context.store.dialect().spares_the_living {
        return Standing::Ended;
    }
    match opened.get_or_insert_with(context.sight) {
        Ok(sight) => sight.of(context.store, session).await,
        Err(why) => Standing::Unclear(why.clone()),
    }
}
