//! The loop's own record. The loop is registered as a session, so that it is listed and its end is detected; the record
//! also stores its state.

use std::time::Duration;

use sexton_core::ending::record_outcome;
use sexton_core::session::{EndingReason, Exit, ExitReason, OnOwnerDeath};
use sexton_core::store::{LockGuard, LockName, update_session};
use sexton_core::{
    Batch, Liveness, OsText, ProcessProbe, Query, Session, SessionId, Status, Store, StoreError,
};
use sexton_service::{Service, ServiceError, now};

use crate::error::RalphError;
use crate::loop_context::LoopContext;
use crate::state::{Phase, State};

/// How long to wait for the lock of a loop that was just killed.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of tries to take over while other processes change the same records.
const ATTEMPTS: usize = 20;

/// The record of a running loop.
pub(crate) struct LoopRecord {
    store: Box<dyn Store>,
    id: SessionId,
    name: String,
    max_iterations: u64,
    /// Held while the loop runs; `None` for a loop with a single ticket.
    _lock: Option<LockGuard>,
}

/// What a loop starts with.
pub(crate) struct Beginning {
    pub(crate) loop_record: LoopRecord,
    pub(crate) state: State,
    /// The loop that it continues.
    pub(crate) continues: Option<SessionId>,
}

impl LoopRecord {
    /// Registers the loop and takes over the state of the previous one, in one commit.
    pub(crate) async fn open(
        service: &Service,
        store: Box<dyn Store>,
        probe: &dyn ProcessProbe,
        loop_context: &LoopContext,
        max_iterations: u64,
        fresh: bool,
    ) -> Result<Beginning, RalphError> {
        let info = store.describe();
        if !info.capabilities.starts || !info.capabilities.keeps("loop") || !info.capabilities.keeps("name") {
            return Err(RalphError::CannotKeep(info.backend));
        }
        let lock = match loop_context.only {
            Some(_) => None,
            None => Some(lock(store.as_ref(), loop_context).await?),
        };
        for _ in 0..ATTEMPTS {
            let earlier = list_earlier(store.as_ref(), loop_context).await?;
            require_gone(&earlier, service, probe, loop_context).await?;
            let inherited = earlier.first().and_then(|record| {
                let state = State::from_loop(record.loop_state.as_ref()?)?.into_next(fresh);
                Some((record.id.clone(), state))
            });
            let continues = inherited.as_ref().map(|(id, _)| id.clone());
            let mut state = match inherited {
                Some((_, state)) => state,
                None => State::new(OsText::from(loop_context.repo.as_path()), loop_context.base.clone()),
            };
            // Unfinished work started from the old base; a loop without any may use another base.
            if loop_context.base_is_chosen || state.tickets.is_empty() {
                state.base.clone_from(&loop_context.base);
            }
            let [plain, hashed] = loop_context.names();
            for name in [plain, hashed] {
                let record = record((service, probe), name.clone(), &state, max_iterations).await?;
                let id = record.id.clone();
                match store.commit(hand_over(&earlier).insert(record)).await {
                    Ok(_) => {
                        let loop_record = LoopRecord { store, id, name, max_iterations, _lock: lock };
                        return Ok(Beginning { loop_record, state, continues });
                    }
                    // A loop of another repository has this name.
                    Err(StoreError::NameTaken { .. }) => {}
                    Err(StoreError::Conflict { .. } | StoreError::Transition { .. }) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Err(RalphError::AlreadyRunning { repo: loop_context.repo.clone(), by: None })
    }

    /// Returns the id of the loop's session.
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the name of the loop's session.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Saves the state durably.
    pub(crate) async fn save(&self, state: &State) -> Result<(), RalphError> {
        let loop_state = state.to_loop(true, self.max_iterations, now());
        let updated = update_session(self.store.as_ref(), &self.id, |session| {
            session.loop_state = Some(loop_state.clone());
            true
        });
        match updated.await? {
            Some(_) => Ok(()),
            None => {
                Err(ServiceError::BadRequest(format!("the record of the loop, {}, was not found", self.id))
                    .into())
            }
        }
    }

    /// Records the end of the loop and its state, in one commit.
    pub(crate) async fn finish(&self, state: &State, code: i32) -> Result<(), RalphError> {
        let loop_state = state.to_loop(state.is_unfinished(), self.max_iterations, now());
        let reason = (state.phase == Phase::Interrupted).then_some(EndingReason::Stopped);
        update_session(self.store.as_ref(), &self.id, |session| {
            session.loop_state = Some(loop_state.clone());
            record_outcome(session, Exit::exited(code), reason, now());
            true
        })
        .await?;
        Ok(())
    }

    /// Records that the loop failed. The next loop continues from the last saved state.
    pub(crate) async fn fail(&self) -> Result<(), RalphError> {
        update_session(self.store.as_ref(), &self.id, |session| {
            if let Some(loop_state) = &mut session.loop_state {
                loop_state.phase = Some(Phase::Failed.as_str().to_owned());
            }
            record_outcome(session, Exit::exited(1), None, now())
        })
        .await?;
        Ok(())
    }
}

async fn lock(store: &dyn Store, loop_context: &LoopContext) -> Result<LockGuard, RalphError> {
    let name = LockName::new(&format!("ralph:{}", loop_context.name.hash))?;
    match store.lock(&name, LOCK_WAIT).await {
        Ok(lock) => Ok(lock),
        Err(StoreError::LockTimeout { .. }) => {
            let records = list_earlier(store, loop_context).await?;
            let by = records.iter().find(|record| record.status.is_active());
            let by = by.and_then(|record| Some((record.id.clone(), record.process.as_ref()?.pid)));
            Err(RalphError::AlreadyRunning { repo: loop_context.repo.clone(), by })
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the records of loops with the same names in this repository that left something to continue, newest first.
async fn list_earlier(store: &dyn Store, loop_context: &LoopContext) -> Result<Vec<Session>, RalphError> {
    let ours = |session: &Session| {
        let kept = session.loop_state.as_ref().filter(|kept| kept.active).and_then(State::from_loop);
        kept.is_some_and(|state| state.repo.as_path() == loop_context.repo)
    };
    let mut found = Vec::new();
    for name in loop_context.names() {
        found.extend(store.list(&Query::all().named(name)).await?.sessions.into_iter().filter(ours));
    }
    found.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
    Ok(found)
}

/// Fails if one of the loops may still run.
async fn require_gone(
    records: &[Session],
    service: &Service,
    probe: &dyn ProcessProbe,
    loop_context: &LoopContext,
) -> Result<(), RalphError> {
    let here = service.here(probe).await?;
    for record in records.iter().filter(|record| record.status.is_active()) {
        if record.host.is_unnamed() || record.is_elsewhere(&here) {
            let why = format!("it runs on the host {}", record.host.hostname);
            return Err(RalphError::CannotTell { session: record.id.clone(), why });
        }
        let Some(process) = &record.process else { continue };
        match probe.observe(process).await {
            Liveness::Gone | Liveness::Reused => {}
            Liveness::Alive => {
                let by = Some((record.id.clone(), process.pid));
                return Err(RalphError::AlreadyRunning { repo: loop_context.repo.clone(), by });
            }
            Liveness::Unknown(why) => {
                return Err(RalphError::CannotTell { session: record.id.clone(), why });
            }
        }
    }
    Ok(())
}

/// Marks the earlier loops, whose processes have exited, as transferred.
fn hand_over(earlier: &[Session]) -> Batch {
    earlier.iter().fold(Batch::new(), |batch, record| {
        let mut record = record.clone();
        let exit = Exit { reason: ExitReason::Unknown, code: None, ..Exit::exited(0) };
        record.finish(exit, now());
        record.status = Status::Transferred;
        if let Some(loop_state) = &mut record.loop_state {
            loop_state.active = false;
            loop_state.updated_at = Some(now());
        }
        batch.replace(record)
    })
}

/// Creates the session record of this process.
async fn record(
    (service, probe): (&Service, &dyn ProcessProbe),
    name: String,
    state: &State,
    max_iterations: u64,
) -> Result<Session, RalphError> {
    let begun_at = now();
    let details = probe.describe(std::process::id()).await.map_err(ServiceError::from)?;
    let mut session = Session::new(SessionId::random(), service.require_host()?, begun_at);
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
