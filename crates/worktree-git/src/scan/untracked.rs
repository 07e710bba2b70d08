//! Untracked files: which of them are work, and which are ignored.
//!
//! An ignored file is saved if it is small and its directory is not itself ignored, for example a `.env` or a
//! note. What is left out is listed with the reason.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use git2::Repository;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use sexton_core::WorktreeError;

use super::head::Staged;
use super::ignore::Rules;
use super::walk::{PathMode, WalkReport, at, describe_special, list_below};
use super::{Place, walk_failed};
use crate::fault::failed;

/// The largest ignored file that is saved.
const MAX_IGNORED_FILE: u64 = 1 << 20;
/// The limit for all ignored files that are saved.
const MAX_IGNORED_TOTAL: u64 = 16 << 20;

/// The classified untracked files.
#[derive(Debug, Default)]
pub(crate) struct Untracked {
    /// Files and symlinks to save.
    pub(crate) files: Vec<Vec<u8>>,
    /// Directories that are repositories of their own.
    pub(crate) nested: Vec<Vec<u8>>,
    /// Empty directories.
    pub(crate) empty: Vec<Vec<u8>>,
    /// Directories with unusual permission bits.
    pub(crate) directory_modes: Vec<PathMode>,
    /// What is not saved, and why.
    pub(crate) left_out: Vec<(Vec<u8>, String)>,
}

/// Classifies everything that the walk found to be untracked.
pub(crate) fn classify(
    place: &Place<'_>,
    repository: &Repository,
    staged: &Staged,
    report: &WalkReport,
    save_ignored: bool,
) -> Result<Untracked, WorktreeError> {
    let rules = Rules::load(place.root, repository)
        .map_err(|error| failed("reading the ignore rules of", place.workdir, error))?;
    let mut search =
        Search { place, rules, staged, save_ignored, budget: MAX_IGNORED_TOTAL, found: Untracked::default() };
    for path in &report.unknown_files {
        search.file(path)?;
    }
    for path in &report.unknown_directories {
        search.directory(path)?;
    }
    let mut found = search.found;
    found.files.sort_unstable();
    found.nested.sort_unstable();
    found.empty.sort_unstable();
    found.directory_modes.sort_unstable();
    Ok(found)
}

struct Search<'a> {
    place: &'a Place<'a>,
    rules: Rules<'a>,
    staged: &'a Staged,
    save_ignored: bool,
    budget: u64,
    found: Untracked,
}

impl Search<'_> {
    fn root(&self) -> BorrowedFd<'_> {
        self.place.root
    }

    fn is_ignored(&mut self, path: &[u8], is_directory: bool) -> Result<bool, WorktreeError> {
        self.rules.is_ignored(path, is_directory).map_err(|error| {
            failed("applying the ignore rules to", &self.place.workdir.join(OsStr::from_bytes(path)), error)
        })
    }

    fn file(&mut self, path: &[u8]) -> Result<(), WorktreeError> {
        // A file that HEAD has is saved, even if the ignore rules match it now.
        if self.staged.contains_key(path) || !self.is_ignored(path, false)? {
            self.found.files.push(path.to_vec());
            return Ok(());
        }
        match self.why_not_ignored(path)? {
            Some(why) => self.found.left_out.push((path.to_vec(), why)),
            None => self.found.files.push(path.to_vec()),
        }
        Ok(())
    }

    /// Returns why an ignored file is not saved; `None` if it is, and its size is subtracted from the budget.
    fn why_not_ignored(&mut self, path: &[u8]) -> Result<Option<String>, WorktreeError> {
        if !self.save_ignored {
            return Ok(Some("it is ignored, and rescue.ignored is off".to_owned()));
        }
        let stat = rustix::fs::statat(self.root(), OsStr::from_bytes(path), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| walk_failed(self.place, at(path)(errno)))?;
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > MAX_IGNORED_FILE {
            return Ok(Some(format!("it is ignored and larger than {} MiB", MAX_IGNORED_FILE >> 20)));
        }
        let Some(rest) = self.budget.checked_sub(size) else {
            return Ok(Some(format!(
                "it is ignored, and {} MiB of ignored files are saved",
                MAX_IGNORED_TOTAL >> 20
            )));
        };
        self.budget = rest;
        Ok(None)
    }

    fn directory(&mut self, path: &[u8]) -> Result<(), WorktreeError> {
        if self.is_repository(path)? {
            self.found.nested.push(path.to_vec());
            return Ok(());
        }
        let prefix = [path, b"/"].concat();
        if self.is_ignored(path, true)? {
            self.found.left_out.push((path.to_vec(), "the folder is ignored".to_owned()));
            return self.find_repositories(path);
        }
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        let mut special = Vec::new();
        let mode = list_below(self.root(), path, |_, name, kind| {
            let inside = [&prefix, name.to_bytes()].concat();
            match kind {
                FileType::Directory => directories.push(inside),
                FileType::RegularFile | FileType::Symlink => files.push(inside),
                other => special.push((inside, describe_special(other).to_owned())),
            }
            Ok(())
        })
        .map_err(|errno| walk_failed(self.place, at(path)(errno)))?;
        if mode != 0o755 {
            self.found.directory_modes.push((path.to_vec(), mode));
        }
        if files.is_empty() && directories.is_empty() && special.is_empty() {
            self.found.empty.push(path.to_vec());
        }
        self.found.left_out.extend(special);
        files.sort_unstable();
        directories.sort_unstable();
        files.iter().try_for_each(|path| self.file(path))?;
        directories.iter().try_for_each(|path| self.directory(path))
    }

    /// Searches an ignored directory for repositories. Its other content can be recreated; a worktree or a
    /// clone that was created there may contain work.
    fn find_repositories(&mut self, ignored: &[u8]) -> Result<(), WorktreeError> {
        let mut waiting = vec![ignored.to_vec()];
        while let Some(path) = waiting.pop() {
            let (mut folders, mut is_repository) = (Vec::new(), false);
            list_below(self.root(), &path, |_, name, kind| {
                is_repository |= name == c".git";
                if kind == FileType::Directory {
                    folders.push([&path[..], b"/", name.to_bytes()].concat());
                }
                Ok(())
            })
            .map_err(|errno| walk_failed(self.place, at(&path)(errno)))?;
            if is_repository {
                self.found.nested.push(path);
            } else {
                waiting.append(&mut folders);
            }
        }
        Ok(())
    }

    fn is_repository(&self, path: &[u8]) -> Result<bool, WorktreeError> {
        let dot_git = [path, b"/.git"].concat();
        match rustix::fs::statat(self.root(), OsStr::from_bytes(&dot_git), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(walk_failed(self.place, at(&dot_git)(errno))),
        }
    }
}
