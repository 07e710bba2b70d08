//! The result of a command: a documented exit code, or a failure with a message and a hint.

use std::error::Error;
use std::io::ErrorKind;

use sexton_core::config::ConfigError;
use sexton_core::plugin::PluginError;
use sexton_core::recover::RecoverError;
use sexton_core::session::FindError;
use sexton_core::{ProbeError, StoreError, WorktreeError};
use sexton_ralph::{GitError, RalphError, SettingsError};
use sexton_service::ServiceError;
pub use sexton_service::chain;
use sexton_supervise::{StartError, StopError};

/// An exit code. The documented codes have names; `run` and `wait` also return the exit code of their command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exit(pub u8);

impl Exit {
    /// Success.
    pub const DONE: Exit = Exit(0);
    /// Failure.
    pub const FAILED: Exit = Exit(1);
    /// Invalid arguments.
    pub const USAGE: Exit = Exit(2);
    /// Part of the work was done, and the rest failed.
    pub const PARTLY_DONE: Exit = Exit(3);
    /// No such session.
    pub const NO_SUCH_SESSION: Exit = Exit(4);
    /// The store is damaged or has a newer format.
    pub const STORE_UNUSABLE: Exit = Exit(5);
    /// The session exceeded its own timeout.
    pub const TIMED_OUT: Exit = Exit(124);
    /// `wait --timeout` returned while a session still runs.
    pub const STILL_RUNNING: Exit = Exit(123);
    /// The reader of our output closed the pipe: 128 + SIGPIPE, as for other programs.
    pub const BROKEN_PIPE: Exit = Exit(141);
    /// The exit status of the command is unknown, because its supervisor was killed.
    pub const UNKNOWN_END: Exit = Exit(122);
    /// `run` or `wait` itself failed.
    pub const OWN_ERROR: Exit = Exit(125);
}

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// One line: what failed, on what, and why.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// Creates a failure of the command itself.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::FAILED, message: message.into(), hint: None }
    }

    /// Creates a failure for invalid arguments.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::USAGE, ..Failure::new(message) }
    }

    /// Creates the failure for a closed output pipe. It is not printed.
    pub fn of_broken_pipe() -> Failure {
        Failure { exit: Exit::BROKEN_PIPE, ..Failure::new("the output pipe was closed") }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Maps the exit code for a command that returns its session's exit code: all codes but the one for usage
    /// become [`Exit::OWN_ERROR`], so that none is mistaken for the session's.
    #[must_use]
    pub fn of_own(mut self) -> Failure {
        if self.exit != Exit::USAGE && self.exit < Exit::TIMED_OUT {
            self.exit = Exit::OWN_ERROR;
        }
        self
    }

    fn of(exit: Exit, error: &dyn Error, hint: Option<&str>) -> Failure {
        Failure { exit, message: chain(error), hint: hint.map(str::to_owned) }
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Failure {
        match error {
            ServiceError::Config(error) => error.into(),
            ServiceError::Plugin(error) => error.into(),
            ServiceError::Store(error) | ServiceError::Start(StartError::Store(error)) => error.into(),
            ServiceError::Probe(error) => error.into(),
            ServiceError::Worktree(error) => error.into(),
            ServiceError::Recover(error) => error.into(),
            ServiceError::Find(error) => error.into(),
            ServiceError::Stop(error) => error.into(),
            ServiceError::UnsafeStateDir { what, fix } => Failure::new(what).hint(fix),
            ServiceError::HostId(error) => Failure::new(error.to_string())
                .hint("`sexton doctor --repair` moves it aside, and the next session creates a new one"),
            ServiceError::BadRequest(what) => Failure::usage(what),
            error @ ServiceError::Elsewhere { .. } => Failure::new(error.to_string())
                .hint("run this on that host; `sexton wait` waits here until its end is recorded"),
            ServiceError::StateDir { .. } => Failure::of(
                Exit::FAILED,
                &error,
                Some("set `--state-dir` (or SEXTON_STATE_DIR) to a writable directory"),
            ),
            ServiceError::NoCleaner => Failure::of(
                Exit::FAILED,
                &error,
                Some("build with the feature `worktree-git`; `sexton backends` lists the available backends"),
            ),
            other => Failure::of(Exit::FAILED, &other, None),
        }
    }
}

impl From<RalphError> for Failure {
    fn from(error: RalphError) -> Failure {
        let hint = match &error {
            RalphError::AlreadyRunning { by: Some((id, _)), .. } => {
                Some(format!("`sexton stop {id}` stops it; `sexton ps` shows its tickets"))
            }
            RalphError::CannotTell { session, .. } => {
                Some(format!("if the session is gone, run `sexton forget {session}`"))
            }
            RalphError::CannotKeep(_) => Some("set `--store` to sqlite:PATH or json:PATH".to_owned()),
            RalphError::NoBranch(_) => Some("check out a branch, or set `--base`".to_owned()),
            RalphError::NoCommit { .. } => Some("create a commit there first".to_owned()),
            RalphError::NotInstalled { program, .. } if program == "tk" => {
                Some("set `--ticket-query` to a shell command that prints tickets".to_owned())
            }
            RalphError::NotInstalled { .. } => {
                Some("set `--agent` to another command that contains {ticket}".to_owned())
            }
            RalphError::Git(GitError::NotRun(error)) if error.kind() == ErrorKind::NotFound => {
                Some("install git".to_owned())
            }
            RalphError::Settings(SettingsError::NotTrusted { .. }) => Some(
                "review the file, then run `sexton trust`; or set `--ticket-query` and `--agent`".to_owned(),
            ),
            _ => None,
        };
        match error {
            RalphError::Service(error) => error.into(),
            RalphError::Store(error) => error.into(),
            RalphError::Settings(_) => Failure::of(Exit::USAGE, &error, hint.as_deref()),
            other => Failure::of(Exit::FAILED, &other, hint.as_deref()),
        }
    }
}

impl From<RecoverError> for Failure {
    fn from(error: RecoverError) -> Failure {
        match error {
            RecoverError::Store(error) => error.into(),
            RecoverError::Probe(error) => error.into(),
            other @ RecoverError::StateFiles { .. } => Failure::of(Exit::FAILED, &other, None),
        }
    }
}

impl From<WorktreeError> for Failure {
    fn from(error: WorktreeError) -> Failure {
        let hint = match &error {
            WorktreeError::NoRescue { .. } => Some("`sexton rescue list` lists all rescues"),
            WorktreeError::CannotRestore { .. } => Some("use `--into DIR` to restore into another directory"),
            _ => None,
        };
        Failure::of(Exit::FAILED, &error, hint)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let exit = if error.is_store_unusable() { Exit::STORE_UNUSABLE } else { Exit::FAILED };
        let newer = error.newer_format_advice();
        let hint = match &error {
            StoreError::Damaged { .. } | StoreError::DamagedRecord { .. } => Some(
                "`sexton doctor` shows the damage; `sexton doctor --repair` moves it aside and keeps the rest",
            ),
            StoreError::NewerFormat { .. } => newer.as_deref(),
            StoreError::Record { .. } => Some("use the newer version of sexton that wrote the record"),
            StoreError::NameTaken { .. } => Some("choose another name, or stop the session that uses it"),
            StoreError::LockTimeout { .. } => Some("try again when the other command has finished"),
            StoreError::BadBackup { .. } => Some("`sexton backup --list` lists all backups"),
            StoreError::Unsupported { .. } => Some(
                "`sexton migrate --from … --to sqlite:…` copies the records into a store that supports all fields",
            ),
            StoreError::OtherOwner { .. } => {
                Some("set `--store` to a store that you own, or run the command as that user")
            }
            StoreError::NotAStore { .. } => Some("no changes were made; check `--store`"),
            StoreError::Io { source, .. } => io_hint(source),
            _ => None,
        };
        Failure::of(exit, &error, hint)
    }
}

fn io_hint(error: &std::io::Error) -> Option<&'static str> {
    use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        StorageFull => Some("free some disk space and try again; no acknowledged change is lost"),
        ReadOnlyFilesystem | PermissionDenied => {
            Some("set `--state-dir` (or SEXTON_STATE_DIR) to a writable directory")
        }
        NotFound => Some("create the directory; sexton only creates its own state directory"),
        _ => None,
    }
}

impl From<PluginError> for Failure {
    fn from(error: PluginError) -> Failure {
        let exit = match error {
            PluginError::Unknown { .. } | PluginError::NotAUrl { .. } => Exit::USAGE,
            PluginError::Probe(error) => return error.into(),
            _ => Exit::FAILED,
        };
        Failure::of(exit, &error, Some("`sexton backends` lists the available backends"))
    }
}

impl From<FindError> for Failure {
    fn from(error: FindError) -> Failure {
        match error {
            FindError::Store(error) => error.into(),
            FindError::NoSuchSession(_) => {
                Failure::of(Exit::NO_SUCH_SESSION, &error, Some("`sexton ps -a` lists all sessions"))
            }
            FindError::Ambiguous { .. } => {
                Failure::of(Exit::USAGE, &error, Some("use more characters of the id"))
            }
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        let hint = match error {
            ConfigError::NoStateDir => "set HOME or `--state-dir DIR`",
            _ => "`sexton config --help` lists every key",
        };
        Failure::of(Exit::USAGE, &error, Some(hint))
    }
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Failure {
        let hint = match &error {
            ProbeError::ForeignProc { .. } => {
                Some("mount the /proc of this pid namespace: `mount -t proc proc /proc`")
            }
            ProbeError::Unsupported { .. } => Some("`sexton backends` lists the available backends"),
            _ => None,
        };
        Failure::of(Exit::FAILED, &error, hint)
    }
}

impl From<StopError> for Failure {
    fn from(error: StopError) -> Failure {
        match error {
            StopError::Store(error) => error.into(),
            StopError::Probe(error) => error.into(),
            StopError::Wait(_) => Failure::of(Exit::FAILED, &error, None),
        }
    }
}
