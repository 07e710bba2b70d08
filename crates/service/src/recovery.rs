//! What recovery, retention and worktree operations need, opened once.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use sexton_core::recover::{Policy, Progress, RecoveryContext, Report, recover};
use sexton_core::store::StoreInfo;
use sexton_core::{Host, ProcessProbe, Store, Time, WorktreeCleaner};
use sexton_supervise::StateDir;
use sha2::{Digest, Sha256};

use crate::error::ServiceError;
use crate::service::Service;

/// The backends and the state directory, as recovery needs them.
pub struct Tools {
    /// The records.
    pub store: Box<dyn Store>,
    /// The processes.
    pub probe: Box<dyn ProcessProbe>,
    /// The worktrees, if a backend for them is linked in.
    pub cleaner: Option<Box<dyn WorktreeCleaner>>,
    /// The files beside the store.
    pub state_files: StateDir,
    host: Host,
}

impl Tools {
    /// Opens everything else for an open store.
    pub fn around(store: Box<dyn Store>, service: &Service) -> Result<Tools, ServiceError> {
        Ok(Tools {
            store,
            probe: service.open_probe()?,
            cleaner: service.find_cleaner()?,
            state_files: service.state_files()?,
            host: service.host(),
        })
    }

    /// Returns the recovery context.
    pub fn recovery_context(&self) -> RecoveryContext<'_> {
        RecoveryContext {
            store: self.store.as_ref(),
            probe: self.probe.as_ref(),
            cleaner: self.cleaner.as_deref(),
            state_files: &self.state_files,
            host: &self.host,
            me: std::process::id(),
            clock: now,
        }
    }

    /// Returns the cleaner, for operations that need one.
    pub fn require_cleaner(&self) -> Result<&dyn WorktreeCleaner, ServiceError> {
        self.cleaner.as_deref().ok_or(ServiceError::NoCleaner)
    }
}

impl Service {
    /// Recovers according to `policy`; `Policy::from_config(&service.config)` is the configured one.
    pub async fn recover(&self, policy: &Policy, progress: &dyn Progress) -> Result<Report, ServiceError> {
        let store = if policy.dry_run { self.open_for_reading()? } else { self.open_for_writing()? };
        Ok(recover(&Tools::around(store, self)?.recovery_context(), policy, progress).await?)
    }
}

/// Remembers that a store may have lost sessions, before it is restored or repaired: then worktrees without a
/// record are not strays.
pub fn remember_gap(store: &StoreInfo, now: Time) -> Result<(), ServiceError> {
    StateDir::note_incomplete(store, now)
        .map_err(ServiceError::io(format!("cannot write beside {}", store.path.display())))
}

/// Returns the current time.
pub fn now() -> Time {
    Timestamp::now().into()
}

/// Returns the default worktree root for worktrees of `repo`: recognisable by its name, and distinct from
/// that of another repository with the same name.
pub fn default_worktree_root(worktree_roots: &Path, repo: &Path) -> PathBuf {
    let RepositoryName { plain, hash } = RepositoryName::of(repo);
    worktree_roots.join(format!("{plain}-{hash}"))
}

/// The name of a repository in paths and messages: readable, and unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryName {
    /// The name of its directory, without characters that are unsafe in a path.
    pub plain: String,
    /// Distinguishes it from another repository of the same name.
    pub hash: String,
}

impl RepositoryName {
    /// Returns the name of the repository at `repo`.
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
    fn worktree_root_is_named_after_its_repository_and_unique() {
        let worktree_roots = Path::new("/state/worktrees");
        let one = default_worktree_root(worktree_roots, Path::new("/src/parser"));
        let other = default_worktree_root(worktree_roots, Path::new("/home/parser"));
        assert!(one.file_name().unwrap().to_str().unwrap().starts_with("parser-"), "{one:?}");
        assert_ne!(one, other);
        let strange = default_worktree_root(worktree_roots, Path::new("/src/..\n/\u{1b}[2J"));
        assert_eq!(strange.parent(), Some(worktree_roots), "{strange:?}");
        assert!(strange.to_str().unwrap().chars().all(|c| !c.is_control()));
    }
}
