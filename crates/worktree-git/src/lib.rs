//! Worktrees on git: made marked, rescued whole, removed with care.
//!
//! Architecture invariant: nothing is removed that was not first found by `site.rs`, which alone says whose
//! a worktree is; nothing outside the yard is reached, because `yard.rs` holds it open; and a rescue runs no
//! program.

mod absence;
mod blueprint;
mod branch;
mod checkout;
mod claim;
mod clear;
mod create;
mod crew;
mod delete;
mod demolish;
mod entry;
mod every_ref;
mod fault;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gone;
mod inspect;
mod mark;
mod marked;
mod mounts;
mod pack;
mod refs;
mod repository;
mod rescue;
mod rescues;
mod restore;
mod scan;
mod site;
mod sweep;
mod tree;
mod yard;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sexton_core::plugin::{WorktreePlugin, inventory};
use sexton_core::worktree::{
    Cleared, CreatedWorktree, Inspection, Marked, Plot, RescueDetails, RescueList, Rescued, RestoredWork,
    StartPoint, WorktreeOptions,
};
use sexton_core::{ProcessProbe, SessionId, Time, WorktreeCleaner, WorktreeError};

use crate::yard::Yard;

const NAME: &str = "git";

inventory::submit! {
    WorktreePlugin {
        name: NAME,
        summary: "git worktrees: rescued under refs/sexton/rescue before they are removed",
        strength: 100,
        open,
    }
}

/// Opens the cleaner. It works wherever git repositories are.
pub fn open(options: &WorktreeOptions) -> Result<Box<dyn WorktreeCleaner>, WorktreeError> {
    // As git itself: zlib's checksum tells a damaged object, and to hash each one that is read again would be
    // most of the work of a checkout.
    git2::opts::strict_hash_verification(false);
    Ok(Box::new(GitCleaner { options: *options }))
}

/// What looks after git worktrees. It has no state: everything is judged by what is there.
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
        plot: &Plot,
        from: &StartPoint,
        now: Time,
    ) -> Result<CreatedWorktree, WorktreeError> {
        create::create(plot, from, now)
    }

    async fn claim(&self, plot: &Plot, now: Time) -> Result<(), WorktreeError> {
        claim::claim(plot, now)
    }

    async fn inspect(&self, plot: &Plot) -> Result<Inspection, WorktreeError> {
        inspect::inspect(plot, self.options.rescue_ignored)
    }

    async fn survey(&self, plot: &Plot) -> Result<Inspection, WorktreeError> {
        inspect::survey(plot, self.options.rescue_ignored)
    }

    async fn rescue(&self, plot: &Plot, now: Time) -> Result<Rescued, WorktreeError> {
        let _lock = Yard::lock_in(&plot.root, &plot.session)?;
        match site::find_ours(plot)? {
            Some(site) => rescue::rescue(&site, self.options, now),
            None => gone::find_earlier(plot),
        }
    }

    async fn clear(
        &self,
        plot: &Plot,
        probe: &dyn ProcessProbe,
        now: Time,
    ) -> Result<Cleared, WorktreeError> {
        clear::clear(plot, probe, self.options, now).await
    }

    async fn sweep(&self, root: &Path, probe: &dyn ProcessProbe) -> Result<usize, WorktreeError> {
        sweep::sweep(root, probe).await
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
