//! How sessions end: waits for it, and handles ends that are not in the store yet.

use std::time::{Duration, Instant};

use sexton_core::foreign_identity::is_command_alive;
use sexton_core::session::FindError;
use sexton_core::{ProcessProbe, Session, SessionId, Store};
use sexton_supervise::{PendingExits, ProcessWatch, Watched, wait_for_all, watch_process};

use crate::error::ServiceError;
use crate::service::Service;

/// Applies exit files that are not committed yet to the records. An exit file is ignored while the command is
/// alive: its supervisor would have written it only later.
pub async fn overlay_exits<'a>(
    exits: &PendingExits,
    probe: &dyn ProcessProbe,
    sessions: impl IntoIterator<Item = &'a mut Session>,
) -> Result<(), ServiceError> {
    let unreadable = || ServiceError::io("cannot read the exit files");
    let pending = exits.list().map_err(unreadable())?;
    if pending.is_empty() {
        return Ok(());
    }
    for session in sessions.into_iter().filter(|session| pending.contains(&session.id)) {
        match exits.load(&session.id) {
            Ok(Some(_)) if is_command_alive(probe, session).await => {}
            Ok(Some(exit)) => drop(exit.apply(session)),
            Ok(None) => {}
            // An unreadable exit file leaves this record unchanged and must not hide the others.
            Err(_) => {}
        }
    }
    Ok(())
}

/// Watches the process whose exit ends the session: its supervisor, or its command if the supervisor is gone.
pub fn watch_session(probe: &dyn ProcessProbe, session: &Session) -> Option<ProcessWatch> {
    if !session.status.is_active() {
        return None;
    }
    let known = [session.supervisor.as_ref(), session.process.as_ref()];
    known.into_iter().flatten().find_map(|process| match watch_process(probe, process) {
        Watched::Alive(watch) => Some(watch),
        Watched::Gone | Watched::Unknown(_) => None,
    })
}

/// How often the record of a session of another host is read.
const RECORD_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until the host that runs the session has recorded its end, or until the deadline.
async fn wait_for_record(
    mut session: Session,
    store: &dyn Store,
    until: Option<Instant>,
) -> Result<(Session, bool), ServiceError> {
    while session.status.is_active() {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok((session, false));
        }
        std::thread::sleep(left.unwrap_or(RECORD_INTERVAL).min(RECORD_INTERVAL));
        session = store.load(&session.id).await?.unwrap_or(session);
    }
    Ok((session, true))
}

impl Service {
    /// Fails if another host runs the session: nothing here shows whether it has ended.
    pub async fn require_here(
        &self,
        session: &Session,
        probe: &dyn ProcessProbe,
    ) -> Result<(), ServiceError> {
        if !session.status.is_active() || !session.is_elsewhere(&self.here(probe).await?) {
            return Ok(());
        }
        let host = session.host.hostname.clone();
        Err(ServiceError::Elsewhere { session: session.id.clone(), host })
    }

    /// Applies exit files that are not committed yet to the records, if there are any.
    pub async fn overlay_exits<'a>(
        &self,
        sessions: impl IntoIterator<Item = &'a mut Session>,
    ) -> Result<(), ServiceError> {
        let exits = self.pending_exits();
        if exits.list().map_err(ServiceError::io("cannot read the exit files"))?.is_empty() {
            return Ok(());
        }
        overlay_exits(&exits, self.open_probe()?.as_ref(), sessions).await
    }

    /// Returns the current record and a watch for its end; no watch if no such process is left. For programs
    /// that wait for other events too: call it, wait for the watch, call it again.
    pub async fn look_for_end(
        &self,
        id: &SessionId,
    ) -> Result<(Session, Option<ProcessWatch>), ServiceError> {
        let (store, probe) = (self.open_for_reading()?, self.open_probe()?);
        let load = async || {
            let loaded = store.load(id).await?;
            loaded.ok_or_else(|| ServiceError::from(FindError::NoSuchSession(id.to_string())))
        };
        let mut session = load().await?;
        self.require_here(&session, probe.as_ref()).await?;
        let watch = watch_session(probe.as_ref(), &session);
        if watch.is_none() {
            // Read again after the supervisor was seen gone: the end is recorded before the supervisor exits.
            session = load().await?;
            overlay_exits(&self.pending_exits(), probe.as_ref(), [&mut session]).await?;
        }
        Ok((session, watch))
    }

    /// Returns the record of `session` once no process is left that could end it, or the current record at
    /// the deadline. The flag says whether it ended. Blocks this thread.
    pub async fn wait_for_end(
        &self,
        mut session: Session,
        store: &dyn Store,
        probe: &dyn ProcessProbe,
        until: Option<Instant>,
    ) -> Result<(Session, bool), ServiceError> {
        if session.is_elsewhere(&self.here(probe).await?) {
            return wait_for_record(session, store, until).await;
        }
        loop {
            let watch = watch_session(probe, &session);
            let is_unwatched = watch.is_none();
            if let Some(watch) = watch {
                let ended = wait_for_all(&[watch], until)
                    .map_err(ServiceError::io(format!("cannot wait for session {}", session.id)))?;
                if !ended {
                    overlay_exits(&self.pending_exits(), probe, [&mut session]).await?;
                    return Ok((session, false));
                }
            }
            // Read only after the supervisor was seen gone: the end is recorded before the supervisor exits.
            session = store.load(&session.id).await?.unwrap_or(session);
            overlay_exits(&self.pending_exits(), probe, [&mut session]).await?;
            if is_unwatched || !session.status.is_active() {
                return Ok((session, true));
            }
        }
    }
}
