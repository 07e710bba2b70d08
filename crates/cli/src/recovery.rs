//! What recovery, retention and everything about worktrees work with, opened once.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use sexton_core::recover::Ground;
use sexton_core::store::StoreInfo;
use sexton_core::{Host, ProcessProbe, Store, Time, WorktreeCleaner};
use sexton_supervise::StateDir;
use sha2::{Digest, Sha256};

use crate::context::Context;
use crate::failure::Failure;
use crate::host::this_host;

/// The backends and the state directory, as recovery needs them.
pub struct Tools {
    /// The records.
    pub store: Box<dyn Store>,
    /// The processes.
    pub probe: Box<dyn ProcessProbe>,
    /// The worktrees, where a backend for them is linked in.
    pub cleaner: Option<Box<dyn WorktreeCleaner>>,
    /// The files beside the store.
    pub premises: StateDir,
    host: Host,
}

impl Tools {
    /// Opens everything for changes.
    pub fn for_writing(context: &mut Context<'_>) -> Result<Tools, Failure> {
        let store = context.open_for_writing()?;
        Tools::around(store, context)
    }

    /// Opens everything to look.
    pub fn for_reading(context: &mut Context<'_>) -> Result<Tools, Failure> {
        let store = context.open_for_reading()?;
        Tools::around(store, context)
    }

    fn around(store: Box<dyn Store>, context: &Context<'_>) -> Result<Tools, Failure> {
        Ok(Tools {
            store,
            probe: context.open_probe()?,
            cleaner: context.find_cleaner(),
            premises: context.premises()?,
            host: this_host(),
        })
    }

    /// What recovery stands on.
    pub fn ground(&self) -> Ground<'_> {
        Ground {
            store: self.store.as_ref(),
            probe: self.probe.as_ref(),
            cleaner: self.cleaner.as_deref(),
            premises: &self.premises,
            host: &self.host,
            me: std::process::id(),
            clock: now,
        }
    }

    /// The cleaner, where a command makes no sense without one.
    pub fn require_cleaner(&self) -> Result<&dyn WorktreeCleaner, Failure> {
        self.cleaner.as_deref().ok_or_else(no_cleaner)
    }
}

/// What a build without worktrees says.
pub fn no_cleaner() -> Failure {
    Failure::new("this build of sexton knows nothing of worktrees")
        .hint("build it with the feature `worktree-git`; `sexton backends` shows what is linked in")
}

/// Remembers that a store may have forgotten sessions, before it is restored or repaired: their worktrees
/// are no strays then.
pub fn remember_gap(store: &StoreInfo, now: Time) -> Result<(), Failure> {
    StateDir::note_incomplete(store, now)
        .map_err(|error| Failure::new(format!("cannot write beside {}: {error}", store.path.display())))
}

/// What time it is.
pub fn now() -> Time {
    Timestamp::now().into()
}

/// The yard for worktrees of `repo` where nobody chose one: recognisable by its name, and unlike that of
/// another repository with the same name.
pub fn default_yard(yards: &Path, repo: &Path) -> PathBuf {
    let digest = Sha256::digest(repo.as_os_str().as_encoded_bytes());
    let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    let name = repo.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: String = name.trim_end_matches(".git").chars().filter(|one| plain(*one)).take(64).collect();
    let name = name.trim_start_matches('.');
    yards.join(format!("{}-{hash}", if name.is_empty() { "repo" } else { name }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yards_are_named_after_their_repository_and_never_shared() {
        let yards = Path::new("/state/worktrees");
        let one = default_yard(yards, Path::new("/src/parser"));
        let other = default_yard(yards, Path::new("/home/parser"));
        assert!(one.file_name().unwrap().to_str().unwrap().starts_with("parser-"), "{one:?}");
        assert_ne!(one, other);
        let strange = default_yard(yards, Path::new("/src/..\n/\u{1b}[2J"));
        assert_eq!(strange.parent(), Some(yards), "{strange:?}");
        assert!(strange.to_str().unwrap().chars().all(|c| !c.is_control()));
    }
}
