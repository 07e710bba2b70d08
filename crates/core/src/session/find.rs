//! How a person names a session: by its id, its name, or the beginning of its id.

use super::{Session, SessionId};
use crate::{Query, Store, StoreError};

/// The shortest beginning of an id that names a session.
pub const MIN_PREFIX: usize = 4;

/// How many of several matches an error lists.
const LISTED_MATCHES: usize = 10;

/// Why no single session was found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// Nothing has that id, name or prefix.
    #[error("no session is called `{}`", .0.escape_debug())]
    NoSuchSession(String),
    /// More than one id begins like that.
    #[error("`{prefix}` is the beginning of several sessions: {}", .matches.join(", "))]
    Ambiguous {
        /// What was typed.
        prefix: String,
        /// Ids that begin so, newest first, at most ten.
        matches: Vec<String>,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The session that `text` means. An exact id beats a name, and a name beats a prefix; a name means the
/// active session of that name, else the newest one that had it.
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
