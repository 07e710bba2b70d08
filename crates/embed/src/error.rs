//! What can go wrong in a house: what each part says, and what only the whole can say.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use sexton_core::config::ConfigError;
use sexton_core::plugin::PluginError;
use sexton_core::recover::RecoverError;
use sexton_core::session::FindError;
use sexton_core::{ProbeError, StoreError, WorktreeError};
use sexton_supervise::{StartError, StopError};

/// Why a house did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum HouseError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The choice of a backend.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The probe.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The worktrees.
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    /// A recovery.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// The name of a session.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The end of a session.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The start of a session.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Others could change what is in the state directory.
    #[error("{what}")]
    UnsafeStateDir {
        /// What is wrong with it.
        what: String,
        /// What to do about it.
        cure: String,
    },
    /// The state directory cannot be made.
    #[error("cannot make the state directory {}: {source}", .path.display())]
    StateDir {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something was asked for that makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// A command cannot run where it should.
    #[error("cannot run in {}: {why}", .path.display())]
    Directory {
        /// Where.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A session whose output is not here, or not as it was asked for.
    #[error("{0}")]
    NoOutput(String),
    /// No backend for worktrees is linked in.
    #[error("this build of sexton knows nothing of worktrees")]
    NoCleaner,
    /// A file or a process could not be worked with.
    #[error("{action}: {source}")]
    Io {
        /// What was tried, on what.
        action: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl HouseError {
    /// A failure of `action`, which names what it was tried on.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> HouseError {
        let action = action.into();
        move |source| HouseError::Io { action, source }
    }
}

/// An error and its causes on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // A cause that its error quotes already is not said twice.
        if !message.ends_with(&text) {
            message.push_str(": ");
            message.push_str(text.trim_end());
        }
        cause = error.source();
    }
    message.replace('\n', " ")
}
