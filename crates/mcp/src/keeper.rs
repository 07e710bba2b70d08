//! The sessions that this server started: their supervisors are its children, and they end with it.
//!
//! Which sessions those are is what the records say, not what this process remembers: one that was adopted
//! meanwhile is somebody else's.

use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sexton_core::session::OnOwnerDeath;
use sexton_core::{Liveness, ProcessProbe, Query, Session, Store};
use sexton_embed::{House, HouseError, NotStarted, Request, stop_policy};
use sexton_supervise::Stopped;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::refusal::Refusal;

/// How many sessions are started at the same time; more wait for their turn.
const STARTS_AT_ONCE: u32 = 8;

/// How many sessions of one server run at the same time.
const MAX_RUNNING: usize = 256;

/// How long a server that ends waits for starts that have begun.
const START_WAIT: Duration = Duration::from_secs(30);

/// How long it waits for supervisors whose sessions are gone.
const REAP_WAIT: Duration = Duration::from_secs(10);

/// The sessions that this server started.
pub(crate) struct Keeper {
    starts: Arc<Semaphore>,
    supervisors: Mutex<Vec<Child>>,
    /// Cancelled when the server begins to end.
    pub(crate) closing: CancellationToken,
}

/// The right to start one session now. It goes along with the start, whoever stops waiting for that.
pub(crate) type Turn = OwnedSemaphorePermit;

impl Keeper {
    pub(crate) fn new() -> Keeper {
        Keeper {
            starts: Arc::new(Semaphore::new(STARTS_AT_ONCE as usize)),
            supervisors: Mutex::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Waits for the turn to start a session. There is none once the server ends, or while too many run.
    pub(crate) async fn turn(&self) -> Result<Turn, Refusal> {
        let turn = tokio::select! {
            biased;
            () = self.closing.cancelled() => return Err(Refusal::of_closing()),
            turn = Arc::clone(&self.starts).acquire_owned() => turn.map_err(|_| Refusal::of_closing())?,
        };
        if self.supervisors().len() >= MAX_RUNNING {
            let error = format!("{MAX_RUNNING} sessions of this server are running");
            return Err(Refusal::new(error, "stop some, or wait for one to end"));
        }
        Ok(turn)
    }

    /// Starts a session. Blocks this thread, which holds a turn.
    pub(crate) fn start(&self, house: &House, request: Request) -> Result<Session, NotStarted> {
        let running = pollster::block_on(house.start(request))?;
        self.supervisors().push(running.shim);
        // It may have ended before anybody could hear of it.
        self.reap();
        Ok(running.session)
    }

    /// Takes leave of the supervisors that have ended, so that none of them stays a zombie.
    fn reap(&self) {
        self.supervisors().retain_mut(|supervisor| matches!(supervisor.try_wait(), Ok(None)));
    }

    fn supervisors(&self) -> MutexGuard<'_, Vec<Child>> {
        // A list of children is as good as it was, whoever panicked.
        self.supervisors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes leave of supervisors as they end, for as long as the server lives.
    pub(crate) async fn reap_always(&self) -> std::io::Result<()> {
        let mut ended = signal(SignalKind::child())?;
        loop {
            self.reap();
            ended.recv().await;
        }
    }

    /// Lets nothing begin any more, and waits for what has begun to start. Says whether all of it did.
    pub(crate) async fn close(&self) -> bool {
        self.closing.cancel();
        let all = timeout(START_WAIT, self.starts.acquire_many(STARTS_AT_ONCE)).await;
        self.starts.close();
        all.is_ok()
    }

    /// Waits until every supervisor has ended. Says whether they did in time.
    pub(crate) async fn wait_for_supervisors(&self) -> std::io::Result<bool> {
        let mut ended = signal(SignalKind::child())?;
        let until = Instant::now() + REAP_WAIT;
        loop {
            self.reap();
            if self.supervisors().is_empty() {
                return Ok(true);
            }
            if timeout_at(until, ended.recv()).await.is_err() {
                return Ok(false);
            }
        }
    }
}

/// Stops every session that this process owns, within `grace`. Blocks this thread.
pub(crate) fn stop_owned(house: &House, grace: Duration) -> Result<Vec<Stopped>, HouseError> {
    pollster::block_on(async {
        let probe = house.open_probe()?;
        let owned = list_owned(house.open_for_reading()?.as_ref(), probe.as_ref()).await?;
        if owned.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<_> = owned.into_iter().map(|session| session.id).collect();
        let store = house.open_for_writing()?;
        house.stop(store.as_ref(), probe.as_ref(), &ids, &stop_policy(grace)).await
    })
}

/// The active sessions whose owner is this very process, and which end with it.
async fn list_owned(store: &dyn Store, probe: &dyn ProcessProbe) -> Result<Vec<Session>, HouseError> {
    let mut owned = Vec::new();
    for session in store.list(&Query::active()).await?.sessions {
        let mine = session.owner.as_ref().filter(|owner| owner.pid == std::process::id());
        if let Some(owner) = mine
            && session.on_owner_death == OnOwnerDeath::End
            && probe.observe(owner).await == Liveness::Alive
        {
            owned.push(session);
        }
    }
    Ok(owned)
}
