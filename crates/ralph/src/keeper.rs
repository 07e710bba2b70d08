//! The loop's own record: registered as a session, so that everybody sees it and knows when it is gone, and the
//! place where its memory is kept.

use std::time::Duration;

use sexton_core::ending::record_outcome;
use sexton_core::session::{EndingReason, Exit, ExitReason, OnOwnerDeath};
use sexton_core::store::{LockGuard, LockName, update_session};
use sexton_core::{
    Batch, Liveness, OsText, ProcessProbe, Query, Session, SessionId, Status, Store, StoreError,
};
use sexton_embed::{HouseError, now, this_host};

use crate::error::RalphError;
use crate::site::Site;
use crate::state::{Phase, State};

/// How long a loop that was just killed may keep its lock.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// How often a take-over begins again because somebody else changes the same records.
const ATTEMPTS: usize = 20;

/// Keeps the loop's record.
pub(crate) struct Keeper {
    store: Box<dyn Store>,
    id: SessionId,
    name: String,
    max_iterations: u64,
    /// Held for as long as the loop lives; `None` for one that works on a single ticket.
    _lock: Option<LockGuard>,
}

/// What a loop begins with.
pub(crate) struct Beginning {
    pub(crate) keeper: Keeper,
    pub(crate) state: State,
    /// The loop that it goes on for.
    pub(crate) continues: Option<SessionId>,
}

impl Keeper {
    /// Registers the loop, and takes the memory of the last one over: both or neither, in one commit.
    pub(crate) async fn open(
        store: Box<dyn Store>,
        probe: &dyn ProcessProbe,
        site: &Site,
        max_iterations: u64,
        fresh: bool,
    ) -> Result<Beginning, RalphError> {
        let info = store.describe();
        if !info.capabilities.starts || !info.capabilities.keeps("loop") || !info.capabilities.keeps("name") {
            return Err(RalphError::CannotKeep(info.backend));
        }
        let lock = match site.only {
            Some(_) => None,
            None => Some(lock(store.as_ref(), site).await?),
        };
        for _ in 0..ATTEMPTS {
            let earlier = list_earlier(store.as_ref(), site).await?;
            require_gone(&earlier, probe, site).await?;
            let inherited = earlier.first().and_then(|record| {
                let state = State::from_loop(record.loop_state.as_ref()?)?.into_next(fresh);
                Some((record.id.clone(), state))
            });
            let continues = inherited.as_ref().map(|(id, _)| id.clone());
            let mut state = match inherited {
                Some((_, state)) => state,
                None => State::new(OsText::from(site.repo.as_path()), site.base.clone()),
            };
            // What is to be merged was begun at that branch; a loop with nothing in hand may choose another.
            if site.base_is_chosen || state.tickets.is_empty() {
                state.base.clone_from(&site.base);
            }
            let [plain, hashed] = site.names();
            for name in [plain, hashed] {
                let record = record(probe, name.clone(), &state, max_iterations).await?;
                let id = record.id.clone();
                match store.commit(hand_over(&earlier).insert(record)).await {
                    Ok(_) => {
                        let keeper = Keeper { store, id, name, max_iterations, _lock: lock };
                        return Ok(Beginning { keeper, state, continues });
                    }
                    // A loop of another repository with the same name.
                    Err(StoreError::NameTaken { .. }) => {}
                    Err(StoreError::Conflict { .. } | StoreError::Transition { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Err(RalphError::AlreadyRunning { repo: site.repo.clone(), by: None })
    }

    /// The loop's session.
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the memory durable.
    pub(crate) async fn keep(&self, state: &State) -> Result<(), RalphError> {
        let kept = state.to_loop(true, self.max_iterations, now());
        let updated = update_session(self.store.as_ref(), &self.id, |session| {
            session.loop_state = Some(kept.clone());
            true
        });
        match updated.await? {
            Some(_) => Ok(()),
            None => {
                Err(HouseError::BadRequest(format!("the record of the loop, {}, is gone", self.id)).into())
            }
        }
    }

    /// Records the end of the loop, with its memory, in one commit.
    pub(crate) async fn finish(&self, state: &State, code: i32) -> Result<(), RalphError> {
        let kept = state.to_loop(state.is_unfinished(), self.max_iterations, now());
        let reason = (state.phase == Phase::Interrupted).then_some(EndingReason::Stopped);
        update_session(self.store.as_ref(), &self.id, |session| {
            session.loop_state = Some(kept.clone());
            record_outcome(session, Exit::exited(code), reason, now());
            true
        })
        .await?;
        Ok(())
    }

    /// Records that the loop could not go on. What was durable of its memory is what the next one goes on with.
    pub(crate) async fn give_up(&self) -> Result<(), RalphError> {
        update_session(self.store.as_ref(), &self.id, |session| {
            if let Some(kept) = &mut session.loop_state {
                kept.phase = Some(Phase::Failed.as_str().to_owned());
            }
            record_outcome(session, Exit::exited(1), None, now())
        })
        .await?;
        Ok(())
    }
}

async fn lock(store: &dyn Store, site: &Site) -> Result<LockGuard, RalphError> {
    let name = LockName::new(&format!("ralph:{}", site.name.hash))?;
    match store.lock(&name, LOCK_WAIT).await {
        Ok(lock) => Ok(lock),
        Err(StoreError::LockTimeout { .. }) => {
            let records = list_earlier(store, site).await?;
            let by = records.iter().find(|record| record.status.is_active());
            let by = by.and_then(|record| Some((record.id.clone(), record.process.as_ref()?.pid)));
            Err(RalphError::AlreadyRunning { repo: site.repo.clone(), by })
        }
        Err(error) => Err(error.into()),
    }
}

/// The records of loops that did the same here and left something to go on with, newest first.
async fn list_earlier(store: &dyn Store, site: &Site) -> Result<Vec<Session>, RalphError> {
    let ours = |session: &Session| {
        let kept = session.loop_state.as_ref().filter(|kept| kept.active).and_then(State::from_loop);
        kept.is_some_and(|state| state.repo.as_path() == site.repo)
    };
    let mut found = Vec::new();
    for name in site.names() {
        found.extend(store.list(&Query::all().named(name)).await?.sessions.into_iter().filter(ours));
    }
    found.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
    Ok(found)
}

/// Refuses to go on for a loop that may still work.
async fn require_gone(records: &[Session], probe: &dyn ProcessProbe, site: &Site) -> Result<(), RalphError> {
    for record in records.iter().filter(|record| record.status.is_active()) {
        if !record.host.is_same(&this_host()) {
            let why = format!("it belongs to the host {}", record.host.hostname);
            return Err(RalphError::CannotTell { session: record.id.clone(), why });
        }
        let Some(process) = &record.process else { continue };
        match probe.observe(process).await {
            Liveness::Gone | Liveness::Reused => {}
            Liveness::Alive => {
                let by = Some((record.id.clone(), process.pid));
                return Err(RalphError::AlreadyRunning { repo: site.repo.clone(), by });
            }
            Liveness::Unknown(why) => {
                return Err(RalphError::CannotTell { session: record.id.clone(), why });
            }
        }
    }
    Ok(())
}

/// Takes the loop away from those that had it. Their processes are gone.
fn hand_over(earlier: &[Session]) -> Batch {
    earlier.iter().fold(Batch::new(), |batch, record| {
        let mut record = record.clone();
        let exit = Exit { reason: ExitReason::Unknown, code: None, ..Exit::exited(0) };
        record.finish(exit, now());
        record.status = Status::Transferred;
        if let Some(kept) = &mut record.loop_state {
            kept.active = false;
            kept.updated_at = Some(now());
        }
        batch.replace(record)
    })
}

/// This very process, as a session.
async fn record(
    probe: &dyn ProcessProbe,
    name: String,
    state: &State,
    max_iterations: u64,
) -> Result<Session, RalphError> {
    let begun_at = now();
    let details = probe.describe(std::process::id()).await.map_err(HouseError::from)?;
    let mut session = Session::new(SessionId::random(), this_host(), begun_at);
    session.name = Some(name);
    session.status = Status::Running;
    session.probe = Some(probe.name().to_owned());
    session.started_at = Some(begun_at);
    session.command = details.command.into_iter().map(Into::into).collect();
    session.cwd = details.cwd.map(Into::into);
    session.process = Some(details.identity);
    session.on_owner_death = OnOwnerDeath::Keep;
    session.loop_state = Some(state.to_loop(true, max_iterations, begun_at));
    Ok(session)
}
