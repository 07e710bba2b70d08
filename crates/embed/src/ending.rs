//! How sessions end: waiting for it, and ends that no store knows yet.

use std::io;
use std::time::Instant;

use sexton_core::session::FindError;
use sexton_core::{ProcessProbe, Session, SessionId, Store};
use sexton_supervise::{PendingExits, ProcessWatch, Watched, wait_for_all, watch_process};

use crate::error::HouseError;
use crate::house::House;

/// Shows in the records what exit files say that no store has been told yet.
pub fn overlay_exits<'a>(
    exits: &PendingExits,
    sessions: impl IntoIterator<Item = &'a mut Session>,
) -> Result<(), HouseError> {
    let unreadable = || HouseError::io("cannot read the exit files");
    let pending = exits.list().map_err(unreadable())?;
    if pending.is_empty() {
        return Ok(());
    }
    for session in sessions.into_iter().filter(|session| pending.contains(&session.id)) {
        match exits.load(&session.id) {
            Ok(Some(exit)) => drop(exit.apply(session)),
            Ok(None) => {}
            // Its record stands as it is; one damaged witness hides nothing else.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            Err(error) => return Err(unreadable()(error)),
        }
    }
    Ok(())
}

/// Watches whoever tells the end of the session: its shim, and where that was killed its command.
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

impl House {
    /// The session as it stands, and what tells its end; nothing tells it where nobody is left who could. For
    /// programs that wait for much else at the same time: look, wait for what was given, look again.
    pub async fn look_for_end(&self, id: &SessionId) -> Result<(Session, Option<ProcessWatch>), HouseError> {
        let (store, probe) = (self.open_for_reading()?, self.open_probe()?);
        let load = async || {
            let loaded = store.load(id).await?;
            loaded.ok_or_else(|| HouseError::from(FindError::NoSuchSession(id.to_string())))
        };
        let mut session = load().await?;
        let watch = watch_session(probe.as_ref(), &session);
        if watch.is_none() {
            // Read again only after its supervisor was seen gone: the end is recorded before that.
            session = load().await?;
            overlay_exits(&self.pending_exits(), [&mut session])?;
        }
        Ok((session, watch))
    }

    /// The record of `session` once nobody is left who could end it, or as it stands when the time is up.
    /// Says which. Blocks this thread.
    pub async fn wait_for_end(
        &self,
        mut session: Session,
        store: &dyn Store,
        probe: &dyn ProcessProbe,
        until: Option<Instant>,
    ) -> Result<(Session, bool), HouseError> {
        loop {
            let watch = watch_session(probe, &session);
            let nobody_left = watch.is_none();
            if let Some(watch) = watch {
                let ended = wait_for_all(&[watch], until)
                    .map_err(HouseError::io(format!("cannot wait for session {}", session.id)))?;
                if !ended {
                    overlay_exits(&self.pending_exits(), [&mut session])?;
                    return Ok((session, false));
                }
            }
            // Read only after its supervisor was seen gone: the end is recorded before that.
            session = store.load(&session.id).await?.unwrap_or(session);
            overlay_exits(&self.pending_exits(), [&mut session])?;
            if nobody_left || !session.status.is_active() {
                return Ok((session, true));
            }
        }
    }
}
