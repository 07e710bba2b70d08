//! Git worktrees: creates them with a mark, rescues their work, removes and restores them.
//!
//! Architecture invariant: only `own_worktree.rs` decides which session owns a worktree, and nothing is
//! removed without that decision. `worktree_root.rs` holds the worktree root open, so that nothing outside of
//! it can be reached. A rescue runs no program.

mod absence;
mod branch;
mod checkout;
mod claim;
mod clear;
mod create;
mod delete;
mod entry;
mod entry_plan;
mod every_ref;
mod fault;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gone;
mod inspect;
mod mark;
mod marked;
mod mounts;
mod own_worktree;
mod pack;
mod refs;
mod remove_entry;
mod repository;
mod rescue;
mod rescues;
mod restore;
mod scan;
mod sweep;
mod tree;
mod workers;
mod worktree_root;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sexton_core::plugin::{WorktreePlugin, inventory};
use sexton_core::worktree::{
    Cleared, CreatedWorktree, Inspection, Marked, RescueDetails, RescueList, Rescued, RestoredWork, Spare,
    StartPoint, Swept, WorktreeLocation, WorktreeOptions,
};
use sexton_core::{ProcessProbe, SessionId, Time, WorktreeCleaner, WorktreeError};

use crate::worktree_root::WorktreeRoot;

const NAME: &str = "git";

inventory::submit! {
    WorktreePlugin {
        name: NAME,
        summary: "git worktrees: rescued under refs/sexton/rescue before they are removed",
        strength: 100,
        open,
    }
}

/// Opens the cleaner. It works on every system that has git repositories.
pub fn open(options: &WorktreeOptions) -> Result<Box<dyn WorktreeCleaner>, WorktreeError> {
    // Like git: zlib's checksum detects a damaged object, and verifying the hash of every object would take
    // most of the time of a checkout.
    git2::opts::strict_hash_verification(false);
    Ok(Box::new(GitCleaner { options: options.clone() }))
}

/// The cleaner of git worktrees. It has no state of its own and decides by what is on disk.
struct GitCleaner {
    options: WorktreeOptions,
}

#[async_trait]
impl WorktreeCleaner for GitCleaner {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn find_repository(&self, directory: &Path) -> Result<PathBuf, WorktreeError> {
        repository::find(directory)
    }

    async fn find_commit(&self, directory: &Path, name: &str) -> Result<Option<String>, WorktreeError> {
        repository::find_commit(directory, name)
    }

    async fn create(
        &self,
        location: &WorktreeLocation,
        from: &StartPoint,
        now: Time,
    ) -> Result<CreatedWorktree, WorktreeError> {
        create::create(location, from, self.options.host.as_ref(), now)
    }

    async fn claim(&self, location: &WorktreeLocation, now: Time) -> Result<(), WorktreeError> {
        claim::claim(location, self.options.host.as_ref(), now)
    }

    async fn inspect(&self, location: &WorktreeLocation) -> Result<Inspection, WorktreeError> {
        inspect::inspect(location, self.options.rescue_ignored)
    }

    async fn survey(&self, location: &WorktreeLocation) -> Result<Inspection, WorktreeError> {
        inspect::survey(location, self.options.rescue_ignored)
    }

    async fn rescue(&self, location: &WorktreeLocation, now: Time) -> Result<Rescued, WorktreeError> {
        let _lock = WorktreeRoot::lock_in(&location.root, &location.session)?;
        match own_worktree::find_ours(location)? {
            Some(worktree) => rescue::rescue(&worktree, &self.options, now),
            None => gone::find_earlier(location),
        }
    }

    async fn clear(
        &self,
        location: &WorktreeLocation,
        probe: &dyn ProcessProbe,
        now: Time,
    ) -> Result<Cleared, WorktreeError> {
        clear::clear(location, probe, &self.options, now).await
    }

    async fn sweep(
        &self,
        root: &Path,
        probe: &dyn ProcessProbe,
        spare: &Spare<'_>,
    ) -> Result<Swept, WorktreeError> {
        sweep::sweep(root, probe, spare).await
    }

    async fn marked(&self, root: &Path, store: &str) -> Result<Vec<Marked>, WorktreeError> {
        marked::list(root, store)
    }

    async fn rescues(&self, repo: &Path) -> Result<RescueList, WorktreeError> {
        rescues::list(repo)
    }

    async fn describe_rescue(
        &self,
        repo: &Path,
        session: &SessionId,
    ) -> Result<RescueDetails, WorktreeError> {
        rescues::describe(repo, session)
    }

    async fn restore(
        &self,
        repo: &Path,
        session: &SessionId,
        into: &Path,
    ) -> Result<RestoredWork, WorktreeError> {
        restore::restore(repo, session, into)
    }

    async fn drop_rescue(
        &self,
        repo: &Path,
        session: &SessionId,
        commit: &str,
    ) -> Result<bool, WorktreeError> {
        rescues::drop_rescue(repo, session, commit)
    }
}
