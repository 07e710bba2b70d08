//! Errors of a service: those of its parts, and its own.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use sexton_core::config::ConfigError;
use sexton_core::plugin::PluginError;
use sexton_core::recover::RecoverError;
use sexton_core::session::FindError;
use sexton_core::{ProbeError, SessionId, StoreError, WorktreeError};
use sexton_supervise::{StartError, StopError};

/// Why an operation of the service failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Invalid configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No such backend.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Error of the probe.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Error of a worktree operation.
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    /// Error of a recovery.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// The session was not found, or the name is ambiguous.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The session could not be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The session could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Other users could change the content of the state directory.
    #[error("{what}")]
    UnsafeStateDir {
        /// What is wrong.
        what: String,
        /// How to fix it.
        fix: String,
    },
    /// The state directory cannot be created.
    #[error("cannot create the state directory {}: {source}", .path.display())]
    StateDir {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The identifier of this machine cannot be read or created.
    #[error("{0}")]
    HostId(io::Error),
    /// The request is invalid.
    #[error("{0}")]
    BadRequest(String),
    /// The command cannot run in the requested directory.
    #[error("cannot run in {}: {why}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Only the host that runs the session knows whether it has ended.
    #[error("session {session} runs on {host}, and only that host knows when it ends")]
    Elsewhere {
        /// The session.
        session: SessionId,
        /// The host's name.
        host: String,
    },
    /// The session's output is not available, or not in the requested form.
    #[error("{0}")]
    NoOutput(String),
    /// No worktree backend is linked in.
    #[error("this build of sexton has no worktree backend")]
    NoCleaner,
    /// An operation on a file or a process failed.
    #[error("{action}: {source}")]
    Io {
        /// The operation and its object.
        action: String,
        /// The cause.
        source: io::Error,
    },
}

impl ServiceError {
    /// Returns a function that wraps an error of `action`, which names the object too.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> ServiceError {
        let action = action.into();
        move |source| ServiceError::Io { action, source }
    }
}

/// Returns an error and its causes on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // A cause that the error already quotes is not repeated.
        if !message.ends_with(&text) {
            message.push_str(": ");
            message.push_str(text.trim_end());
        }
        cause = error.source();
    }
    message.replace('\n', " ")
}
