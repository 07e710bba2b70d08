//! The sessions that this server started. Their supervisors are its child processes, and they end with the server.
//!
//! The records decide which sessions those are, not this process's memory: a session that was adopted in the meantime
//! has another owner.

use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sexton_core::session::OnOwnerDeath;
use sexton_core::{Liveness, ProcessProbe, Query, Session, Store};
use sexton_service::{NotStarted, Request, Service, ServiceError, stop_policy};
use sexton_supervise::{Stopped, reap_watchers};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::refusal::Refusal;

/// Maximum number of sessions being started at the same time. Further starts wait.
const STARTS_AT_ONCE: u32 = 8;

/// Maximum number of running sessions per server.
const MAX_RUNNING: usize = 256;

/// How long shutdown waits for starts in progress.
const START_WAIT: Duration = Duration::from_secs(30);

/// How long shutdown waits for supervisors after their sessions have ended.
const REAP_WAIT: Duration = Duration::from_secs(10);

/// The sessions that this server started.
pub(crate) struct StartedSessions {
    starts: Arc<Semaphore>,
    supervisors: Mutex<Vec<Child>>,
    /// Cancelled when shutdown begins.
    pub(crate) closing: CancellationToken,
}

/// Permission to start one session. Held until the start is complete, even if the caller stops waiting.
pub(crate) type StartPermit = OwnedSemaphorePermit;

impl StartedSessions {
    pub(crate) fn new() -> StartedSessions {
        StartedSessions {
            starts: Arc::new(Semaphore::new(STARTS_AT_ONCE as usize)),
            supervisors: Mutex::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Waits for permission to start a session. Fails during shutdown, or while too many sessions run.
    pub(crate) async fn acquire_start(&self) -> Result<StartPermit, Refusal> {
        let permit = tokio::select! {
            biased;
            () = self.closing.cancelled() => return Err(Refusal::of_closing()),
            permit = Arc::clone(&self.starts).acquire_owned() => permit.map_err(|_| Refusal::of_closing())?,
        };
        if self.supervisors().len() >= MAX_RUNNING {
            let error = format!("{MAX_RUNNING} sessions of this server are running");
            return Err(Refusal::new(error, "stop some, or wait for one to end"));
        }
        Ok(permit)
    }

    /// Starts a session. Blocks the thread; the caller holds a [`StartPermit`].
    pub(crate) fn start(&self, service: &Service, request: Request) -> Result<Session, NotStarted> {
        let running = pollster::block_on(service.start(request))?;
        self.supervisors().push(running.shim);
        // The supervisor may have exited before it was in the list; its SIGCHLD is then already handled.
        self.reap();
        Ok(running.session)
    }

    /// Reaps the supervisors that have exited, so that none remains a zombie.
    fn reap(&self) {
        reap_watchers();
        self.supervisors().retain_mut(|supervisor| matches!(supervisor.try_wait(), Ok(None)));
    }

    fn supervisors(&self) -> MutexGuard<'_, Vec<Child>> {
        // A panic elsewhere cannot leave the list inconsistent.
        self.supervisors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reaps supervisors as they exit, until the server exits.
    pub(crate) async fn reap_always(&self) -> std::io::Result<()> {
        let mut ended = signal(SignalKind::child())?;
        loop {
            self.reap();
            ended.recv().await;
        }
    }

    /// Rejects new starts and waits for those in progress. Returns whether all of them completed in time.
    pub(crate) async fn close(&self) -> bool {
        self.closing.cancel();
        let all = timeout(START_WAIT, self.starts.acquire_many(STARTS_AT_ONCE)).await;
        self.starts.close();
        all.is_ok()
    }

    /// Waits until every supervisor has exited. Returns whether they did in time.
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

/// Stops every session that this process owns, within `grace`. Blocks the thread.
pub(crate) fn stop_owned(service: &Service, grace: Duration) -> Result<Vec<Stopped>, ServiceError> {
    pollster::block_on(async {
        let probe = service.open_probe()?;
        let owned = list_owned(service.open_for_reading()?.as_ref(), probe.as_ref()).await?;
        if owned.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<_> = owned.into_iter().map(|session| session.id).collect();
        let store = service.open_for_writing()?;
        service.stop(store.as_ref(), probe.as_ref(), &ids, &stop_policy(grace)).await
    })
}

/// Returns the active sessions that this process owns and that end with it.
async fn list_owned(store: &dyn Store, probe: &dyn ProcessProbe) -> Result<Vec<Session>, ServiceError> {
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
