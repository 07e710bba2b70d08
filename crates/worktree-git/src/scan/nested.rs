//! Repositories inside the worktree: submodules, and those that somebody cloned or began there. Their
//! objects lie where no rescue reaches. One that holds anything of its own keeps the whole worktree.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Oid, Repository, RepositoryState, StatusOptions};
use sexton_core::WorktreeError;

use super::{Place, cannot_rescue};
use crate::fault::failed;

/// A repository inside the worktree that would lose nothing.
#[derive(Debug)]
pub(crate) struct Expendable {
    /// The commit that is checked out in it.
    pub(crate) head: Option<Oid>,
}

/// Makes sure that the repository at `path` holds nothing that exists nowhere else.
pub(crate) fn require_expendable(place: &Place<'_>, path: &[u8]) -> Result<Expendable, WorktreeError> {
    let directory = place.workdir.join(OsStr::from_bytes(path));
    let shown = String::from_utf8_lossy(path).into_owned();
    let repository = Repository::open(&directory).map_err(|error| {
        cannot_rescue(place, format!("{shown} is a repository that cannot be opened: {}", error.message()))
    })?;
    if let Some(why) = find_own_work(&repository, &[place.workdir, place.admin])
        .map_err(|error| failed("looking into the repository", &directory, error))?
    {
        return Err(cannot_rescue(place, format!("the repository {shown} inside it has {why}")));
    }
    for submodule in repository.submodules().map_err(|error| failed("listing", &directory, error))? {
        let inner = [path, b"/", submodule.path().as_os_str().as_bytes()].concat();
        if place.workdir.join(OsStr::from_bytes(&inner)).join(".git").symlink_metadata().is_ok() {
            require_expendable(place, &inner)?;
        }
    }
    Ok(Expendable { head: find_head(&repository) })
}

/// The submodule that is checked out at `path`; `None` where there is only its empty directory.
pub(crate) fn find_submodule(place: &Place<'_>, path: &[u8]) -> Result<Option<Expendable>, WorktreeError> {
    let directory = place.workdir.join(OsStr::from_bytes(path));
    if directory.join(".git").symlink_metadata().is_ok() {
        return require_expendable(place, path).map(Some);
    }
    let mut listing = fs::read_dir(&directory).map_err(|error| failed("listing", &directory, error))?;
    if listing.next().is_some() {
        let shown = String::from_utf8_lossy(path);
        return Err(cannot_rescue(place, format!("{shown} has files where a submodule belongs")));
    }
    Ok(None)
}

/// Makes sure of the submodules' repositories that lie in the admin directory and would go with it, also of
/// those that are not checked out any more.
pub(crate) fn require_expendable_modules(place: &Place<'_>) -> Result<(), WorktreeError> {
    for directory in find_modules(&place.admin.join("modules"))? {
        let repository = Repository::open_bare(&directory)
            .map_err(|error| failed("opening the submodule repository", &directory, error))?;
        let own = has_own_commits(&repository, true)
            .map_err(|error| failed("looking into the repository", &directory, error))?;
        if own {
            let shown = directory.strip_prefix(place.admin.join("modules")).unwrap_or(&directory).display();
            return Err(cannot_rescue(
                place,
                format!("the submodule {shown} has commits that none of its remotes has"),
            ));
        }
    }
    Ok(())
}

fn find_modules(directory: &Path) -> Result<Vec<PathBuf>, WorktreeError> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    if directory.join("HEAD").is_file() && directory.join("objects").is_dir() {
        let mut found = vec![directory.to_owned()];
        found.extend(find_modules(&directory.join("modules"))?);
        return Ok(found);
    }
    let unreadable = |error| failed("listing", directory, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        found.extend(find_modules(&entry.map_err(unreadable)?.path())?);
    }
    Ok(found)
}

/// What a repository holds that exists nowhere else.
fn find_own_work(repository: &Repository, doomed: &[&Path]) -> Result<Option<&'static str>, git2::Error> {
    let mut options = StatusOptions::new();
    options.include_untracked(true).include_ignored(false).recurse_untracked_dirs(false);
    if repository.workdir().is_some() && !repository.statuses(Some(&mut options))?.is_empty() {
        return Ok(Some("changes that are not committed"));
    }
    if repository.state() != RepositoryState::Clean {
        return Ok(Some("something unfinished, such as a merge or a rebase"));
    }
    // The refs of a repository that lies elsewhere stay; only what this checkout alone points to would go.
    let common = repository.commondir();
    let goes = doomed.iter().filter_map(|path| path.canonicalize().ok()).any(|path| common.starts_with(path));
    if has_own_commits(repository, goes)? {
        return Ok(Some("commits that none of its remotes has"));
    }
    Ok(None)
}

/// Whether it has commits that would be lost: with its refs, those that no remote-tracking ref has; without
/// them, those of its HEAD that no ref has.
fn has_own_commits(repository: &Repository, refs_go: bool) -> Result<bool, git2::Error> {
    let mut walk = repository.revwalk()?;
    if let Some(head) = find_head(repository) {
        walk.push(head)?;
    }
    for reference in repository.references()? {
        let reference = reference?;
        let commit = match reference.peel_to_commit() {
            Ok(commit) => commit.id(),
            // A tag of a file, or a ref to something that is gone: no commit to lose.
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec) => continue,
            Err(error) if error.code() == ErrorCode::Peel => continue,
            Err(error) => return Err(error),
        };
        if !refs_go || reference.is_remote() { walk.hide(commit)? } else { walk.push(commit)? }
    }
    walk.next().transpose().map(|commit| commit.is_some())
}

fn find_head(repository: &Repository) -> Option<Oid> {
    repository.head().ok()?.peel_to_commit().ok().map(|commit| commit.id())
}
