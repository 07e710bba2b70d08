//! Lookup of a session by its id, its name, or a prefix of its id.

use super::{Session, SessionId};
use crate::{Query, Store, StoreError};

/// The shortest prefix of an id that is accepted.
pub const MIN_PREFIX: usize = 4;

/// How many matches an error lists at most.
const LISTED_MATCHES: usize = 10;

/// Why no single session was found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No session has that id, name or prefix.
    #[error("no session has the id or name `{}`", .0.escape_debug())]
    NoSuchSession(String),
    /// Several ids have this prefix.
    #[error("`{prefix}` is a prefix of several session ids: {}", .matches.join(", "))]
    Ambiguous {
        /// The given prefix.
        prefix: String,
        /// The matching ids, newest first, at most ten.
        matches: Vec<String>,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns the session that `text` identifies. An exact id takes precedence over a name, and a name over a
/// prefix. A name identifies the active session with that name, or else the newest one that had it.
pub async fn find_session(store: &dyn Store, text: &str) -> Result<Session, FindError> {
    if let Ok(id) = text.parse::<SessionId>()
        && let Some(session) = store.load(&id).await?
    {
        return Ok(session);
    }
    let named = store.list(&Query::all().named(text)).await?.sessions;
    let active = named.iter().position(|session| session.status.is_active());
    if let Some(session) = named.into_iter().nth(active.unwrap_or(0)) {
        return Ok(session);
    }
    if text.len() < MIN_PREFIX || text.parse::<SessionId>().is_err() {
        return Err(FindError::NoSuchSession(text.to_owned()));
    }
    let query = Query::all().id_prefix(text).limit(LISTED_MATCHES);
    let mut sessions = store.list(&query).await?.sessions;
    match sessions.len() {
        0 => Err(FindError::NoSuchSession(text.to_owned())),
        1 => Ok(sessions.remove(0)),
        _ => Err(FindError::Ambiguous {
            prefix: text.to_owned(),
            matches: sessions.into_iter().map(|session| session.id.to_string()).collect(),
        }),
    }
}
