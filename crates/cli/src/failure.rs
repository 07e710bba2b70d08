//! What a command can end with: an exit code of the contract, or a failure with a message and a hint.

use std::error::Error;
use std::io::ErrorKind;

use sexton_core::config::ConfigError;
use sexton_core::plugin::PluginError;
use sexton_core::recover::RecoverError;
use sexton_core::session::FindError;
use sexton_core::{ProbeError, StoreError, WorktreeError};
use sexton_embed::HouseError;
pub use sexton_embed::chain;
use sexton_ralph::{GitError, RalphError, SettingsError};
use sexton_supervise::{StartError, StopError};

/// An exit code. Those of the contract have names; `run` and `wait` also pass on their command's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exit(pub u8);

impl Exit {
    /// It was done.
    pub const DONE: Exit = Exit(0);
    /// It failed.
    pub const FAILED: Exit = Exit(1);
    /// It was asked for wrongly.
    pub const USAGE: Exit = Exit(2);
    /// Some of it was done, and the rest could not be.
    pub const PARTLY_DONE: Exit = Exit(3);
    /// There is no such session.
    pub const NO_SUCH_SESSION: Exit = Exit(4);
    /// The store is damaged or of a newer format.
    pub const STORE_UNUSABLE: Exit = Exit(5);
    /// The time was up.
    pub const TIMED_OUT: Exit = Exit(124);
    /// Whoever read our output went away: 128 and SIGPIPE, as other programs end then.
    pub const BROKEN_PIPE: Exit = Exit(141);
    /// `run` or `wait` itself failed, or nobody knows how the command ended.
    pub const OWN_ERROR: Exit = Exit(125);
}

/// Why a command did not do what it should.
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
    /// A failure of the work itself.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::FAILED, message: message.into(), hint: None }
    }

    /// A command that makes no sense as it was typed.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::USAGE, ..Failure::new(message) }
    }

    /// Whoever read our output went away. Nobody is told: there is nobody.
    pub fn of_broken_pipe() -> Failure {
        Failure { exit: Exit::BROKEN_PIPE, ..Failure::new("nobody reads the output any more") }
    }

    /// The same failure, with what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The same failure of a command that passes on its session's exit code: there only usage keeps its
    /// own, so that nothing is mistaken for the session's.
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

impl From<HouseError> for Failure {
    fn from(error: HouseError) -> Failure {
        match error {
            HouseError::Config(error) => error.into(),
            HouseError::Plugin(error) => error.into(),
            HouseError::Store(error) | HouseError::Start(StartError::Store(error)) => error.into(),
            HouseError::Probe(error) => error.into(),
            HouseError::Worktree(error) => error.into(),
            HouseError::Recover(error) => error.into(),
            HouseError::Find(error) => error.into(),
            HouseError::Stop(error) => error.into(),
            HouseError::UnsafeStateDir { what, cure } => Failure::new(what).hint(cure),
            HouseError::BadRequest(what) => Failure::usage(what),
            HouseError::StateDir { .. } => Failure::of(
                Exit::FAILED,
                &error,
                Some("give `--state-dir` (or SEXTON_STATE_DIR) a directory that you can write"),
            ),
            HouseError::NoCleaner => Failure::of(
                Exit::FAILED,
                &error,
                Some("build it with the feature `worktree-git`; `sexton backends` shows what is linked in"),
            ),
            other => Failure::of(Exit::FAILED, &other, None),
        }
    }
}

impl From<RalphError> for Failure {
    fn from(error: RalphError) -> Failure {
        let hint = match &error {
            RalphError::AlreadyRunning { by: Some((id, _)), .. } => {
                Some(format!("`sexton stop {id}` ends it; `sexton ps` shows what it works on"))
            }
            RalphError::CannotTell { session, .. } => {
                Some(format!("if you know that it is gone: `sexton forget {session}`"))
            }
            RalphError::CannotKeep(_) => {
                Some("give `--store` one of Sexton's own: sqlite:PATH or json:PATH".to_owned())
            }
            RalphError::NoBranch(_) => Some("check one out, or name one with `--base`".to_owned()),
            RalphError::NoCommit { .. } => Some("commit something there first".to_owned()),
            RalphError::NotInstalled { program, .. } if program == "tk" => {
                Some("`--ticket-query` names another: any shell line that prints tickets".to_owned())
            }
            RalphError::NotInstalled { .. } => {
                Some("`--agent` names another: any command with {ticket} in it".to_owned())
            }
            RalphError::Git(GitError::NotRun(error)) if error.kind() == ErrorKind::NotFound => {
                Some("install git".to_owned())
            }
            RalphError::Settings(SettingsError::NotTrusted { .. }) => Some(
                "read the file, then say `sexton trust`; or give `--ticket-query` and `--agent` yourself"
                    .to_owned(),
            ),
            _ => None,
        };
        match error {
            RalphError::House(error) => error.into(),
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
            other @ RecoverError::Premises { .. } => Failure::of(Exit::FAILED, &other, None),
        }
    }
}

impl From<WorktreeError> for Failure {
    fn from(error: WorktreeError) -> Failure {
        let hint = match &error {
            WorktreeError::NoRescue { .. } => Some("`sexton rescue list` shows which there are"),
            WorktreeError::CannotRestore { .. } => Some("`--into DIR` puts it somewhere else"),
            _ => None,
        };
        Failure::of(Exit::FAILED, &error, hint)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let exit = if error.is_store_unusable() { Exit::STORE_UNUSABLE } else { Exit::FAILED };
        let hint = match &error {
            StoreError::Damaged { .. } | StoreError::DamagedRecord { .. } => Some(
                "`sexton doctor` says what is damaged; `sexton doctor --repair` sets it aside and keeps the rest",
            ),
            StoreError::NewerFormat { .. } | StoreError::Record { .. } => {
                Some("use the newer version of sexton that wrote it")
            }
            StoreError::NameTaken { .. } => Some("choose another name, or end the session that has it"),
            StoreError::LockTimeout { .. } => Some("try again when the other command has finished"),
            StoreError::BadBackup { .. } => Some("`sexton backup --list` shows the backups there are"),
            StoreError::Unsupported { .. } => Some(
                "`sexton migrate --from … --to sqlite:…` copies the records into a store that keeps everything",
            ),
            StoreError::NotAStore { .. } => Some("nothing was changed; check `--store`"),
            StoreError::Io { source, .. } => io_hint(source),
            _ => None,
        };
        Failure::of(exit, &error, hint)
    }
}

fn io_hint(error: &std::io::Error) -> Option<&'static str> {
    use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        StorageFull => Some("free some space and try again; nothing that was acknowledged is lost"),
        ReadOnlyFilesystem | PermissionDenied => {
            Some("give `--state-dir` (or SEXTON_STATE_DIR) a directory that you can write")
        }
        NotFound => Some("the directory must exist; sexton makes only its own state directory"),
        _ => None,
    }
}

impl From<PluginError> for Failure {
    fn from(error: PluginError) -> Failure {
        let exit = match error {
            PluginError::Unknown { .. } | PluginError::NotAUrl { .. } => Exit::USAGE,
            _ => Exit::FAILED,
        };
        Failure::of(exit, &error, Some("`sexton backends` shows what is linked in"))
    }
}

impl From<FindError> for Failure {
    fn from(error: FindError) -> Failure {
        match error {
            FindError::Store(error) => error.into(),
            FindError::NoSuchSession(_) => {
                Failure::of(Exit::NO_SUCH_SESSION, &error, Some("`sexton ps -a` shows every session"))
            }
            FindError::Ambiguous { .. } => Failure::of(Exit::USAGE, &error, Some("type more of the id")),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        let hint = match error {
            ConfigError::NoStateDir => "set HOME, or give `--state-dir DIR`",
            _ => "`sexton config --help` lists every key",
        };
        Failure::of(Exit::USAGE, &error, Some(hint))
    }
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Failure {
        Failure::of(Exit::FAILED, &error, None)
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
