//! Repositories inside the worktree: submodules, and repositories cloned or created there. A rescue does not
//! include their objects, so one that contains work of its own keeps the whole worktree.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use rustix::fs::OFlags;
use sexton_core::WorktreeError;
use sexton_durable::{LARGE_FILE, find, read_regular};

use super::walk::{at, open_below};
use super::{Head, Place, Subject, cannot_rescue, scan, walk_failed};
use crate::absence;
use crate::entry;
use crate::every_ref::{self, Target};
use crate::fault::failed;
use crate::own_worktree::{self, DotGit};

/// A repository inside the worktree that can be deleted without loss.
#[derive(Debug)]
pub(crate) struct Expendable {
    /// The commit that is checked out in it.
    pub(crate) head: Option<Oid>,
}

/// Fails if the repository at `path` contains anything that exists nowhere else. Its files are checked like
/// those of the worktree: libgit2 would skip the files that git is configured to overlook.
pub(crate) fn require_expendable(
    place: &Place<'_>,
    path: &[u8],
    save_ignored: bool,
) -> Result<Expendable, WorktreeError> {
    let shown = String::from_utf8_lossy(path).into_owned();
    let has = |what: &str| cannot_rescue(place, format!("the repository {shown} inside it has {what}"));
    let root = open_below(place.root, path, OFlags::RDONLY | OFlags::DIRECTORY)
        .map_err(|errno| walk_failed(place, at(path)(errno)))?;
    let subject = open(place, path, root.as_fd()).map_err(|why| {
        cannot_rescue(place, format!("{shown} is a repository that cannot be opened: {why}"))
    })?;
    let below = OsStr::from_bytes(path);
    let inside = Place {
        root: root.as_fd(),
        workdir: &place.workdir.join(below),
        home: &place.home.join(below),
        admin: subject.repository.path(),
    };
    let mut findings = scan(&inside, &subject, true, save_ignored).map_err(|error| match error {
        WorktreeError::CannotRescue { why, .. } => cannot_rescue(place, format!("in {shown}: {why}")),
        other => other,
    })?;
    // Neither an empty directory nor permission bits alone justify keeping a whole worktree.
    findings.empty.clear();
    findings.file_modes.clear();
    if findings.has_changes(&inside)? {
        return Err(has("changes that are not committed"));
    }
    let repository = &subject.repository;
    // The refs of a repository that is stored elsewhere stay; only what this checkout alone points to would
    // be lost.
    let real = |path: &Path| path.canonicalize().map_err(|error| failed("resolving", path, error));
    let common = real(repository.commondir())?;
    let goes = common.starts_with(real(place.workdir)?) || common.starts_with(real(place.admin)?);
    let unreadable = |error| failed("reading the repository", inside.workdir, error);
    if has_own_commits(repository, goes).map_err(unreadable)? {
        return Err(has("commits that none of its remotes has"));
    }
    Ok(Expendable { head: subject.head.commit.map(|(commit, _)| commit) })
}

/// Opens the repository whose files are in `root`. A `.git` file with a relative path was written for the
/// worktree's path in the worktree root, and not for the trash.
fn open(place: &Place<'_>, path: &[u8], root: BorrowedFd<'_>) -> Result<Subject, String> {
    let below = OsStr::from_bytes(path);
    let git_dir = match own_worktree::load_dot_git(root).map_err(|error| error.to_string())? {
        DotGit::Directory => place.workdir.join(below).join(".git"),
        DotGit::File(link) => {
            let named = entry::named_by(&link, &place.home.join(below));
            let named = named.ok_or("its .git file does not name one")?;
            named.strip_prefix(place.home).map_or(named.clone(), |inside| place.workdir.join(inside))
        }
        DotGit::Missing => return Err("its .git is neither a file nor a directory".to_owned()),
    };
    // Opened as bare: the location of its files is known here, and its configuration may be wrong.
    let repository = Repository::open_bare(git_dir).map_err(|error| error.message().to_owned())?;
    let head = Head::load(&repository).map_err(|error| error.message().to_owned())?;
    Ok(Subject { repository, head })
}

/// Checks the submodule that is checked out at `path`; `None` if there is only its empty directory.
pub(crate) fn find_submodule(
    place: &Place<'_>,
    path: &[u8],
    save_ignored: bool,
) -> Result<Option<Expendable>, WorktreeError> {
    let directory = place.workdir.join(OsStr::from_bytes(path));
    let dot_git = find(directory.join(".git").symlink_metadata());
    if dot_git.map_err(|error| failed("reading", &directory, error))?.is_some() {
        return require_expendable(place, path, save_ignored).map(Some);
    }
    let mut listing = fs::read_dir(&directory).map_err(|error| failed("listing", &directory, error))?;
    if listing.next().is_some() {
        let shown = String::from_utf8_lossy(path);
        return Err(cannot_rescue(place, format!("{shown} has files where a submodule belongs")));
    }
    Ok(None)
}

/// Checks the repositories of submodules in the admin directory, which would be deleted with it, including
/// those that are no longer checked out.
pub(crate) fn require_expendable_modules(place: &Place<'_>) -> Result<(), WorktreeError> {
    for directory in find_modules(&place.admin.join("modules"))? {
        let repository = Repository::open_bare(&directory)
            .map_err(|error| failed("opening the submodule repository", &directory, error))?;
        let own = has_own_commits(&repository, true)
            .map_err(|error| failed("reading the repository", &directory, error))?;
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
    let unreadable = |error| failed("reading", directory, error);
    let kind_of = |path: &Path| Ok(find(path.metadata()).map_err(unreadable)?.map(|found| found.file_type()));
    if !kind_of(directory)?.is_some_and(|kind| kind.is_dir()) {
        return Ok(Vec::new());
    }
    let head = kind_of(&directory.join("HEAD"))?;
    let objects = kind_of(&directory.join("objects"))?;
    if head.is_some_and(|kind| kind.is_file()) && objects.is_some_and(|kind| kind.is_dir()) {
        let mut found = vec![directory.to_owned()];
        found.extend(find_modules(&directory.join("modules"))?);
        return Ok(found);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        found.extend(find_modules(&entry.map_err(unreadable)?.path())?);
    }
    Ok(found)
}

/// Returns whether it has commits that would be lost. If its refs are deleted with it (`refs_go`), these are
/// the commits that no remote has; otherwise, the commits of its HEAD that no ref has.
fn has_own_commits(repository: &Repository, refs_go: bool) -> Result<bool, git2::Error> {
    let unreadable = |error: io::Error| git2::Error::from_str(&format!("it cannot be read: {error}"));
    let mut walk = repository.revwalk()?;
    // A HEAD that is on a branch is covered by the refs.
    if let Some(Target::Object(head)) = every_ref::find_one(repository.path(), b"HEAD").map_err(unreadable)?
        && let Some(commit) = absence::find_commit(repository, head)?
    {
        walk.push(commit)?;
    }
    for (name, target) in every_ref::list(repository.commondir(), &["refs"]).map_err(unreadable)? {
        let target = match target {
            Target::Object(oid) => oid,
            Target::Name(_) => continue,
            Target::Broken => return Err(git2::Error::from_str("one of its refs is damaged")),
        };
        let Some(commit) = absence::find_commit(repository, target)? else { continue };
        let is_remote = name.starts_with(b"refs/remotes/");
        if !refs_go || is_remote { walk.hide(commit)? } else { walk.push(commit)? }
    }
    for commit in find_received(repository) {
        walk.hide(commit)?;
    }
    walk.next().transpose().map(|commit| commit.is_some())
}

/// Returns commits that came from a remote, although possibly no remote-tracking ref has them: those of a
/// clone of a single tag, and of a submodule that was fetched by commit id.
fn find_received(repository: &Repository) -> Vec<Oid> {
    let mut received = Vec::new();
    for entry in repository.reflog("HEAD").iter().flat_map(git2::Reflog::iter) {
        if entry.message_bytes().is_some_and(|message| message.starts_with(b"clone: from ")) {
            received.push(entry.id_new());
        }
    }
    let fetched = read_regular(&repository.path().join("FETCH_HEAD"), LARGE_FILE).unwrap_or_default();
    let fetched = String::from_utf8_lossy(&fetched);
    received.extend(fetched.lines().filter_map(|line| Oid::from_str(line.split('\t').next()?).ok()));
    received.retain(|oid| repository.find_commit(*oid).is_ok());
    received
}
