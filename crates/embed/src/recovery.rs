//! What recovery, retention and everything about worktrees work with, opened once.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use sexton_core::recover::{Ground, Policy, Progress, Report, recover};
use sexton_core::store::StoreInfo;
use sexton_core::{Host, ProcessProbe, Store, Time, WorktreeCleaner};
use sexton_supervise::StateDir;
use sha2::{Digest, Sha256};

use crate::error::HouseError;
use crate::host::this_host;
use crate::house::House;

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
    /// Puts them around a store that was opened.
    pub fn around(store: Box<dyn Store>, house: &House) -> Result<Tools, HouseError> {
        Ok(Tools {
            store,
            probe: house.open_probe()?,
            cleaner: house.find_cleaner(),
            premises: house.premises()?,
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

    /// The cleaner, where nothing makes sense without one.
    pub fn require_cleaner(&self) -> Result<&dyn WorktreeCleaner, HouseError> {
        self.cleaner.as_deref().ok_or(HouseError::NoCleaner)
    }
}

impl House {
    /// Puts everything in order, as `policy` says: `Policy::from_config(&house.config)` is what the
    /// configuration wants.
    pub async fn recover(&self, policy: &Policy, progress: &dyn Progress) -> Result<Report, HouseError> {
        let store = if policy.dry_run { self.open_for_reading()? } else { self.open_for_writing()? };
        Ok(recover(&Tools::around(store, self)?.ground(), policy, progress).await?)
    }
}

/// Remembers that a store may have forgotten sessions, before it is restored or repaired: their worktrees
/// are no strays then.
pub fn remember_gap(store: &StoreInfo, now: Time) -> Result<(), HouseError> {
    StateDir::note_incomplete(store, now)
        .map_err(HouseError::io(format!("cannot write beside {}", store.path.display())))
}

/// What time it is.
pub fn now() -> Time {
    Timestamp::now().into()
}

/// The yard for worktrees of `repo` where nobody chose one: recognisable by its name, and unlike that of
/// another repository with the same name.
pub fn default_yard(yards: &Path, repo: &Path) -> PathBuf {
    let RepositoryName { plain, hash } = RepositoryName::of(repo);
    yards.join(format!("{plain}-{hash}"))
}

/// What a repository is called in names that people read and that must not be mistaken for another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryName {
    /// The name of its directory, without what could not stand in a path.
    pub plain: String,
    /// What tells it from another of the same name.
    pub hash: String,
}

impl RepositoryName {
    /// The name of the repository at `repo`.
    pub fn of(repo: &Path) -> RepositoryName {
        let digest = Sha256::digest(repo.as_os_str().as_encoded_bytes());
        let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
        let name = repo.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name: String = name.trim_end_matches(".git").chars().filter(|one| plain(*one)).take(64).collect();
        let name = name.trim_start_matches('.');
        let plain = if name.is_empty() { "repo" } else { name }.to_owned();
        RepositoryName { plain, hash }
    }
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
