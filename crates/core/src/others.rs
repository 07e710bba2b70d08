//! The other active sessions, which distinguish their processes from those of the session that is being ended.

use crate::probe::Group;
use crate::{Query, Store, StoreError};

/// The other active sessions of this host. They may include the session in question.
#[derive(Clone, Debug, PartialEq)]
pub enum Others {
    /// All of them.
    Known(Vec<Group>),
    /// The records could not be read: a process with another session's cookie is left alone.
    Unknown,
}

impl Others {
    /// Returns a set without any other session.
    pub fn none() -> Others {
        Others::Known(Vec::new())
    }

    /// Loads the active sessions that `store` has records of.
    pub async fn load(store: &dyn Store) -> Result<Others, StoreError> {
        let active = store.list(&Query::active()).await?.sessions;
        Ok(Others::Known(active.iter().map(Group::of).collect()))
    }

    /// Returns the known sessions.
    pub fn groups(&self) -> &[Group] {
        match self {
            Others::Known(groups) => groups,
            Others::Unknown => &[],
        }
    }

    /// Returns whether all other sessions are known.
    pub fn is_complete(&self) -> bool {
        matches!(self, Others::Known(_))
    }
}
