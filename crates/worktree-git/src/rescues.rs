//! The rescues of a repository: lists, describes and deletes them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use git2::{Commit, Oid, Repository};
use sexton_core::worktree::{
    LeftOut, PathChange, Rescue, RescueDetails, RescueEntry, RescueList, RescuedPath, UnreadableRescue,
};
use sexton_core::{OsText, SessionId, Time, WorktreeError};

use crate::fault::failed;
use crate::repository;
use crate::rescue::manifest::Manifest;
use crate::rescue::publish;
use crate::tree;

/// The prefix of the last line of a rescue's message: the time, more precise than the commit's own.
pub(crate) const MADE_AT: &str = "Made-At: ";

/// A rescue, read from its commit.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The commit.
    pub(crate) commit: Oid,
    /// The worktree's content.
    pub(crate) tree: Oid,
    /// HEAD, or an empty placeholder commit if there was none.
    pub(crate) base: Oid,
    /// The tree of `base`.
    pub(crate) base_tree: Oid,
    /// The tree with index, state and manifest.
    pub(crate) state_tree: Oid,
    /// The commits that the state commit keeps reachable.
    pub(crate) state_parents: Vec<Oid>,
    /// The blob of the index file.
    pub(crate) index: Option<Oid>,
    pub(crate) manifest: Manifest,
    /// When it was made.
    pub(crate) made_at: Time,
}

impl Stored {
    /// Reads a rescue. The error is the reason why it cannot be read.
    pub(crate) fn load(repository: &Repository, oid: Oid) -> Result<Stored, String> {
        let in_git = |error: git2::Error| format!("rescue {oid} cannot be read: {}", error.message());
        let commit = repository.find_commit(oid).map_err(in_git)?;
        let base = commit.parent(0).map_err(in_git)?;
        let state = commit.parent(1).map_err(in_git)?;
        let names = state.tree().map_err(in_git)?;
        let find = |name| names.get_name(name).map(|entry| entry.id());
        let blob =
            find("manifest.json").ok_or_else(|| format!("{oid} has no manifest, so it is not a rescue"))?;
        let manifest = Manifest::parse(repository.find_blob(blob).map_err(in_git)?.content())
            .map_err(|why| format!("rescue {oid} cannot be read: {why}"))?;
        Ok(Stored {
            commit: oid,
            tree: commit.tree_id(),
            base: base.id(),
            base_tree: base.tree_id(),
            state_tree: state.tree_id(),
            state_parents: state.parent_ids().collect(),
            index: find("index"),
            made_at: made_at(&commit),
            manifest,
        })
    }

    /// Returns the rescue in the form of the trait.
    pub(crate) fn shown(&self) -> Rescue {
        Rescue {
            reference: publish::reference_of(&self.manifest.session),
            commit: self.commit.to_string(),
            files: self.manifest.changed,
        }
    }

    fn entry(&self) -> RescueEntry {
        RescueEntry {
            session: self.manifest.session.clone(),
            rescue: self.shown(),
            created_at: self.made_at,
            host: self.manifest.host.clone(),
        }
    }
}

fn made_at(commit: &Commit<'_>) -> Time {
    let message = String::from_utf8_lossy(commit.message_bytes());
    let written = message.lines().rev().find_map(|line| line.strip_prefix(MADE_AT)?.parse().ok());
    written.unwrap_or_else(|| {
        jiff::Timestamp::from_second(commit.time().seconds()).unwrap_or(jiff::Timestamp::UNIX_EPOCH).into()
    })
}

/// Reads the rescue of a session; fails if there is none.
pub(crate) fn require(
    repository: &Repository,
    repo: &Path,
    session: &SessionId,
) -> Result<Stored, WorktreeError> {
    let commit = publish::find(repository, session)
        .map_err(|error| failed("reading the rescues of", repo, error))?
        .ok_or_else(|| WorktreeError::NoRescue { session: session.clone(), repo: repo.to_owned() })?;
    Stored::load(repository, commit).map_err(|why| failed("reading the rescues of", repo, why))
}

/// Returns the rescues of a repository, newest first, and those that cannot be read.
pub(crate) fn list(repo: &Path) -> Result<RescueList, WorktreeError> {
    let repository = repository::open(repo)?;
    let in_git = |error: git2::Error| failed("reading the rescues of", repo, error);
    let mut list = RescueList::default();
    for reference in repository.references_glob("refs/sexton/rescue/*").map_err(in_git)? {
        let reference = reference.map_err(in_git)?;
        let stored = reference
            .peel_to_commit()
            .map_err(|error| error.message().to_owned())
            .and_then(|commit| Stored::load(&repository, commit.id()));
        match stored {
            Ok(stored) => list.entries.push(stored.entry()),
            Err(why) => {
                let reference = String::from_utf8_lossy(reference.name_bytes()).into_owned();
                list.unreadable.push(UnreadableRescue { reference, why });
            }
        }
    }
    list.entries
        .sort_by(|one, other| (other.created_at, &other.session).cmp(&(one.created_at, &one.session)));
    Ok(list)
}

/// Returns one rescue with every path in it.
pub(crate) fn describe(repo: &Path, session: &SessionId) -> Result<RescueDetails, WorktreeError> {
    let repository = repository::open(repo)?;
    let stored = require(&repository, repo, session)?;
    let differences = repository
        .odb()
        .and_then(|odb| tree::differences(&odb, Some(stored.base_tree), Some(stored.tree)))
        .map_err(|error| failed("reading the rescues of", repo, error))?;
    let text = |path: Vec<u8>| OsText::from(OsString::from_vec(path));
    let paths = differences
        .into_iter()
        .map(|(path, before, after)| RescuedPath {
            path: text(path),
            change: match (before, after) {
                (None, _) => PathChange::Added,
                (Some(_), None) => PathChange::Deleted,
                (Some(_), Some(_)) => PathChange::Modified,
            },
        })
        .collect();
    let entry = stored.entry();
    let Manifest { branch, head, left_out, .. } = stored.manifest;
    let short = |branch: OsText| {
        let name = branch.display().to_string();
        name.strip_prefix("refs/heads/").map_or(name.clone(), str::to_owned)
    };
    Ok(RescueDetails {
        entry,
        branch: branch.map(short),
        head,
        paths,
        left_out: left_out.into_iter().map(|left| LeftOut { path: left.path, why: left.why }).collect(),
    })
}

/// Deletes a rescue if it still is `commit`. Returns whether it was deleted.
pub(crate) fn drop_rescue(repo: &Path, session: &SessionId, commit: &str) -> Result<bool, WorktreeError> {
    let repository = repository::open(repo)?;
    let _lock = publish::lock(repository.commondir())?;
    let in_git = |error: git2::Error| failed("dropping a rescue of", repo, error);
    let mut reference = match repository.find_reference(&publish::reference_of(session)) {
        Ok(reference) => reference,
        Err(error) if error.code() == git2::ErrorCode::NotFound => return Ok(false),
        Err(error) => return Err(in_git(error)),
    };
    if reference.target().map(|target| target.to_string()).as_deref() != Some(commit) {
        return Ok(false);
    }
    reference.delete().map_err(in_git)?;
    Ok(true)
}
