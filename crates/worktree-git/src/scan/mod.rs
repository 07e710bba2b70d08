//! Finds what a worktree contains that HEAD does not. `inspect` and `rescue` both use it.
//!
//! Architecture invariant: nothing here writes, and nothing here runs a program. Uncertainty causes an error
//! or another read; it never means "clean".

pub(crate) mod commits;
pub(crate) mod content;
mod ewah;
#[cfg(fuzzing)]
pub mod fuzzing;
mod head;
mod ignore;
pub(crate) mod index;
mod nested;
mod progress;
mod untracked;
mod walk;
mod wildmatch;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use git2::{ErrorCode, Odb, Oid, Repository};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use sexton_core::WorktreeError;

pub(crate) use walk::open_below;

use crate::every_ref;
use crate::fault::failed;
use crate::own_worktree::OwnWorktree;
use crate::pack::PackWriter;
use crate::tree::{self, DIRECTORY, Item, SYMLINK};
use content::{Candidate, Content, Until};
use head::Staged;
use index::{GITLINK, Index};
use walk::{PathMode, Seen, WalkError, WalkReport};

/// The paths of a worktree.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// Its top directory, held open.
    pub(crate) root: BorrowedFd<'a>,
    /// Its path, for messages and for repositories inside.
    pub(crate) workdir: &'a Path,
    /// The path that links inside it were written for: its path in the worktree root, also while it is in the
    /// trash.
    pub(crate) home: &'a Path,
    /// Its own git directory.
    pub(crate) admin: &'a Path,
}

impl<'a> Place<'a> {
    /// Returns the paths of a worktree; `None` if its directory is missing.
    pub(crate) fn of(worktree: &'a OwnWorktree) -> Option<Place<'a>> {
        let workdir = worktree.workdir.as_ref()?;
        let root = workdir.dir.as_fd();
        Some(Place { root, workdir: &workdir.path, home: &worktree.location.path, admin: &worktree.admin })
    }
}

/// Returns the error for a worktree that cannot be rescued as it is, for a reason that the user can resolve.
pub(crate) fn cannot_rescue(place: &Place<'_>, why: impl Into<String>) -> WorktreeError {
    WorktreeError::CannotRescue { path: place.workdir.to_owned(), why: why.into() }
}

pub(crate) fn walk_failed(place: &Place<'_>, error: WalkError) -> WorktreeError {
    failed("reading", &place.workdir.join(OsStr::from_bytes(&error.path)), error.source)
}

/// What is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The commit and its tree; `None` for a branch without a commit.
    pub(crate) commit: Option<(Oid, Oid)>,
    /// The branch's full name; `None` for a detached HEAD.
    pub(crate) branch: Option<Vec<u8>>,
}

impl Head {
    /// Reads HEAD of the worktree that `repository` was opened as.
    pub(crate) fn load(repository: &Repository) -> Result<Head, git2::Error> {
        let head = repository.find_reference("HEAD")?;
        let branch = head.symbolic_target_bytes().map(<[u8]>::to_vec);
        let commit = match head.peel_to_commit() {
            Ok(commit) => Some((commit.id(), commit.tree_id())),
            Err(error) if error.code() == ErrorCode::NotFound => match &branch {
                Some(branch) if is_unborn(repository, branch)? => None,
                // Its commit is missing: the branch is damaged or cannot be read.
                _ => return Err(error),
            },
            Err(error) => return Err(error),
        };
        Ok(Head { commit, branch })
    }

    /// Returns HEAD's tree.
    pub(crate) fn tree(&self) -> Option<Oid> {
        self.commit.map(|(_, tree)| tree)
    }
}

/// Returns whether a branch does not exist yet.
fn is_unborn(repository: &Repository, branch: &[u8]) -> Result<bool, git2::Error> {
    let found = every_ref::find_one(repository.commondir(), branch);
    let found = found.map_err(|error| git2::Error::from_str(&format!("cannot read its branch: {error}")))?;
    Ok(found.is_none())
}

/// A worktree opened for reading.
pub(crate) struct Subject {
    /// The repository, opened from the worktree.
    pub(crate) repository: Repository,
    /// What is checked out.
    pub(crate) head: Head,
}

impl Subject {
    /// Opens a worktree by its git directory, so that the content of its `.git` file does not matter.
    pub(crate) fn open(worktree: &OwnWorktree) -> Result<Subject, WorktreeError> {
        let open = || -> Result<Subject, git2::Error> {
            let repository = Repository::open(&worktree.admin)?;
            let head = Head::load(&repository)?;
            Ok(Subject { repository, head })
        };
        open().map_err(|error| failed("opening the worktree's repository at", &worktree.admin, error))
    }
}

/// What differs, and what has to be read to decide.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) index: Index,
    /// Where the index differs from HEAD.
    pub(crate) staged: Staged,
    /// Paths for which only the content can decide.
    pub(crate) candidates: Vec<Candidate>,
    /// Paths that HEAD has and the worktree does not have, and submodules at another commit.
    pub(crate) known: Vec<(Vec<u8>, Option<Item>)>,
    /// Empty directories.
    pub(crate) empty: Vec<Vec<u8>>,
    /// Unchanged files with unusual permission bits.
    pub(crate) file_modes: Vec<PathMode>,
    /// Directories with unusual permission bits.
    pub(crate) directory_modes: Vec<PathMode>,
    /// What is not saved, and why.
    pub(crate) left_out: Vec<(Vec<u8>, String)>,
    /// Whether a merge, a rebase or a similar operation is unfinished.
    pub(crate) unfinished: bool,
}

/// Scans a worktree. If its creation was interrupted (`complete` is false), a missing file is not a change:
/// no command ever ran in it.
pub(crate) fn scan(
    place: &Place<'_>,
    subject: &Subject,
    complete: bool,
    save_ignored: bool,
) -> Result<Findings, WorktreeError> {
    let repository = &subject.repository;
    let in_git = |error: git2::Error| failed("reading the repository of", place.workdir, error);
    let odb = repository.odb().map_err(in_git)?;
    let mut index = load_index(place, &odb, &subject.head, complete)?;
    head::expand_sparse_directories(&odb, &mut index).map_err(in_git)?;
    if !complete {
        index.entries.iter_mut().for_each(|entry| entry.skip_worktree = true);
    }
    let trust_executable_bit =
        repository.config().and_then(|config| config.get_bool("core.filemode")).unwrap_or(true);
    let (seen, report) =
        walk::walk(place.root, &index, trust_executable_bit).map_err(|error| walk_failed(place, error))?;
    let staged = head::find_staged(&odb, &index, subject.head.tree()).map_err(in_git)?;
    let untracked = untracked::classify(place, repository, &staged, &report, save_ignored)?;

    let mut findings = Findings {
        candidates: Vec::new(),
        known: Vec::new(),
        empty: [report.empty.clone(), untracked.empty].concat(),
        file_modes: report.file_modes.clone(),
        directory_modes: [report.directory_modes.clone(), untracked.directory_modes].concat(),
        left_out: untracked.left_out,
        unfinished: is_unfinished(place.admin)?,
        index,
        staged,
    };
    findings.judge_tracked(&seen, &report, trust_executable_bit);
    if !sexton_mutant::is("no_untracked") {
        findings.add_untracked(place, untracked.files)?;
    }
    findings.judge_repositories(place, &report, &untracked.nested, save_ignored)?;
    findings.left_out.extend(report.special.into_iter().map(|(path, why)| (path, why.to_owned())));
    findings.empty.sort_unstable();
    findings.left_out.sort_unstable();
    findings.directory_modes.sort_unstable();
    findings.candidates.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    if let Some(path) = findings.candidates.iter().find(|candidate| !can_be_in_a_tree(&candidate.path)) {
        let shown = String::from_utf8_lossy(&path.path).into_owned();
        return Err(cannot_rescue(place, format!("git cannot store a file named {shown}")));
    }
    Ok(findings)
}

/// Reads the index; for an incomplete worktree without an index, builds it from HEAD.
fn load_index(place: &Place<'_>, odb: &Odb<'_>, head: &Head, complete: bool) -> Result<Index, WorktreeError> {
    let mut index = Index::load(place.admin)
        .map_err(|error| failed("reading the index of", &place.admin.join("index"), error))?;
    if let (false, None, Some(tree)) = (complete, &index.raw, head.tree()) {
        tree::for_each_leaf(odb, tree, b"", &mut |path, item| index.push_skipped(&path, item.oid, item.mode))
            .map_err(|error| failed("reading the repository of", place.workdir, error))?;
        index.sort();
    }
    Ok(index)
}

impl Findings {
    /// Returns what HEAD has at an entry's path.
    fn head_of(&self, position: usize) -> Option<Item> {
        let entry = &self.index.entries[position];
        match self.staged.get(self.index.path(entry)) {
            Some(head) => *head,
            None => Some(Item { mode: entry.mode, oid: entry.oid }),
        }
    }

    fn judge_tracked(&mut self, seen: &[Seen], report: &WalkReport, trust_executable_bit: bool) {
        for (position, seen) in seen.iter().enumerate() {
            let entry = &self.index.entries[position];
            let path = self.index.path(entry);
            // The common case, so nothing is copied for it.
            if *seen == Seen::Same && !self.staged.contains_key(path) {
                continue;
            }
            // In a conflict, one path has several entries; only the first is used.
            if position > 0 && self.index.path(&self.index.entries[position - 1]) == path {
                continue;
            }
            let (path, head) = (path.to_vec(), self.head_of(position));
            let of_a_file = !matches!(entry.mode, SYMLINK | GITLINK);
            let mode = (!trust_executable_bit && of_a_file).then_some(entry.mode);
            match seen {
                // Its repository is checked separately. A file or a symlink in its place is treated as a
                // file.
                _ if entry.mode == GITLINK && report.submodules.binary_search(&path).is_ok() => {}
                Seen::Same | Seen::Unsure => self.candidates.push(Candidate { path, head, mode }),
                Seen::Missing if entry.skip_worktree => {}
                Seen::Missing if head.is_some() => self.known.push((path, None)),
                Seen::Missing => {}
            }
        }
    }

    /// Adds untracked files, and files that only HEAD has: they may still be on disk, in a directory that is
    /// ignored by now.
    fn add_untracked(&mut self, place: &Place<'_>, files: Vec<Vec<u8>>) -> Result<(), WorktreeError> {
        let of_head: Vec<(Vec<u8>, Item)> = self
            .staged
            .iter()
            .filter(|(path, _)| self.index.at(0..self.index.entries.len(), path).is_empty())
            .filter_map(|(path, head)| head.map(|head| (path.clone(), head)))
            .collect();
        let mut untracked: HashMap<Vec<u8>, Option<Item>> =
            files.into_iter().map(|path| (path, None)).collect();
        for (path, head) in of_head {
            match rustix::fs::statat(place.root, OsStr::from_bytes(&path), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if stat.st_mode & 0o170_000 != DIRECTORY => {
                    untracked.insert(path, Some(head));
                }
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => self.known.push((path, None)),
                Err(errno) => return Err(walk_failed(place, walk::at(&path)(errno))),
            }
        }
        let new = untracked.into_iter().map(|(path, head)| Candidate { path, head, mode: None });
        self.candidates.extend(new);
        Ok(())
    }

    fn judge_repositories(
        &mut self,
        place: &Place<'_>,
        report: &WalkReport,
        untracked: &[Vec<u8>],
        save_ignored: bool,
    ) -> Result<(), WorktreeError> {
        if sexton_mutant::is("no_nested_check") {
            return Ok(());
        }
        nested::require_expendable_modules(place)?;
        for path in &report.submodules {
            let position = self.index.at(0..self.index.entries.len(), path).start;
            let head = self.head_of(position);
            let index = Item { mode: GITLINK, oid: self.index.entries[position].oid };
            let item = match nested::find_submodule(place, path, save_ignored)? {
                Some(inside) => Item { oid: inside.head.unwrap_or(index.oid), ..index },
                None => index,
            };
            if head != Some(item) {
                self.known.push((path.clone(), Some(item)));
            }
        }
        for path in report.nested.iter().chain(untracked) {
            nested::require_expendable(place, path, save_ignored)?;
            let why = "it is a repository of its own, with nothing that its remotes do not have";
            self.left_out.push((path.clone(), why.to_owned()));
        }
        Ok(())
    }

    /// Returns whether permission bits were set on purpose: a file whose content is HEAD's has neither the
    /// usual bits nor those that a umask gives to most files here.
    pub(crate) fn has_set_modes(&self, contents: &[Option<Content>]) -> bool {
        let read = self.candidates.iter().zip(contents).filter_map(|(candidate, content)| {
            let content = content.filter(|content| Some(content.item) == candidate.head)?;
            content.permissions.filter(|mode| !walk::is_usual(*mode))
        });
        let unusual: Vec<u32> = self.file_modes.iter().map(|(_, mode)| *mode).chain(read).collect();
        let mut counts = HashMap::<u32, usize>::new();
        for mode in &unusual {
            // An executable file shows the same umask in its read bits.
            *counts.entry(mode & 0o666).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let masked = most.filter(|(_, count)| count * 2 > self.index.entries.len()).map(|(mode, _)| mode);
        unusual
            .iter()
            .any(|mode| Some(mode & 0o666) != masked || ![0, (mode & 0o444) >> 2].contains(&(mode & !0o666)))
    }

    /// Returns the blobs that only the index names: staged, in conflict, intended to add, or recorded for
    /// resolve-undo.
    pub(crate) fn staged_objects(&self) -> BTreeSet<Oid> {
        let whole = 0..self.index.entries.len();
        let entries =
            self.staged.keys().flat_map(|path| &self.index.entries[self.index.at(whole.clone(), path)]);
        entries
            .filter(|entry| entry.mode != GITLINK)
            .map(|entry| entry.oid)
            .chain(self.index.resolve_undo.iter().copied())
            .collect()
    }

    /// Returns whether there is something to save that needs no reading.
    pub(crate) fn is_changed(&self) -> bool {
        let new = |candidate: &Candidate| candidate.head.is_none();
        !self.staged.is_empty()
            || !self.known.is_empty()
            || !self.empty.is_empty()
            || self.unfinished
            || self.candidates.iter().any(new)
    }

    /// Returns whether anything differs from HEAD. Stops reading at the first difference.
    fn has_changes(&self, place: &Place<'_>) -> Result<bool, WorktreeError> {
        if self.is_changed() {
            return Ok(true);
        }
        let nowhere = Mutex::new(PackWriter::dry_run());
        let contents = content::read_all(place.root, &self.candidates, &nowhere, Until::FirstChange)
            .map_err(|error| walk_failed(place, error))?;
        let differs = |(candidate, content): (&Candidate, &Option<Content>)| {
            content.map(|content| content.item) != candidate.head
        };
        Ok(self.candidates.iter().zip(&contents).any(differs) || self.has_set_modes(&contents))
    }

    /// Leaves out what an interrupted creation had only partly written: a file whose content is a prefix of
    /// HEAD's, and a directory that is still empty.
    pub(crate) fn drop_partial_writes(&mut self, place: &Place<'_>, odb: &Odb<'_>) -> io::Result<()> {
        self.empty.clear();
        let mut kept = Vec::new();
        for candidate in std::mem::take(&mut self.candidates) {
            if !is_partial_write(place, odb, &candidate)? {
                kept.push(candidate);
            }
        }
        self.candidates = kept;
        Ok(())
    }
}

fn is_partial_write(place: &Place<'_>, odb: &Odb<'_>, candidate: &Candidate) -> io::Result<bool> {
    let Some(head) = candidate.head.filter(|head| head.mode & 0o170_000 == 0o100_000) else {
        return Ok(false);
    };
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let mut file = match open_below(place.root, &candidate.path, flags) {
        Ok(file) => std::fs::File::from(file),
        Err(Errno::LOOP) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    };
    let whole = odb.read(head.oid).map_err(io::Error::other)?;
    if !file.metadata()?.is_file() || file.metadata()?.len() > whole.len() as u64 {
        return Ok(false);
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(whole.data().starts_with(&bytes))
}

/// Scans a worktree whose directory is missing, from its admin directory only: the staged content is used as
/// the content of the files.
pub(crate) fn scan_without_directory(admin: &Path, subject: &Subject) -> Result<Findings, WorktreeError> {
    let in_git = |error: git2::Error| failed("reading the repository of", admin, error);
    let odb = subject.repository.odb().map_err(in_git)?;
    let mut index =
        Index::load(admin).map_err(|error| failed("reading the index of", &admin.join("index"), error))?;
    head::expand_sparse_directories(&odb, &mut index).map_err(in_git)?;
    let staged = match &index.raw {
        Some(_) => head::find_staged(&odb, &index, subject.head.tree()).map_err(in_git)?,
        None => Staged::new(),
    };
    let known = staged.keys().filter_map(|path| {
        let entries = &index.entries[index.at(0..index.entries.len(), path)];
        match entries {
            [] => Some((path.clone(), None)),
            [entry] if entry.stage == 0 && !entry.intent_to_add => {
                Some((path.clone(), Some(Item { mode: entry.mode, oid: entry.oid })))
            }
            // In conflict, or intended to add: the index records it, but no content can be chosen.
            _ => None,
        }
    });
    Ok(Findings {
        known: known.collect(),
        candidates: Vec::new(),
        empty: Vec::new(),
        file_modes: Vec::new(),
        directory_modes: Vec::new(),
        left_out: Vec::new(),
        unfinished: is_unfinished(admin)?,
        index,
        staged,
    })
}

fn is_unfinished(admin: &Path) -> Result<bool, WorktreeError> {
    progress::is_unfinished(admin).map_err(|error| failed("reading", admin, error))
}

/// Returns whether a rescue would have anything to save besides commits. Stops at the first finding.
pub(crate) fn is_dirty(worktree: &OwnWorktree, save_ignored: bool) -> Result<bool, WorktreeError> {
    let Some(place) = Place::of(worktree) else { return Ok(false) };
    let subject = Subject::open(worktree)?;
    let mut findings = scan(&place, &subject, worktree.complete, save_ignored)?;
    if !worktree.complete {
        let odb = subject.repository.odb().map_err(|error| failed("reading", &worktree.common, error))?;
        findings
            .drop_partial_writes(&place, &odb)
            .map_err(|error| failed("reading", place.workdir, error))?;
    }
    findings.has_changes(&place)
}

/// Returns whether git accepts every name of a path in a tree. It rejects names that another system would
/// treat as `.git`.
fn can_be_in_a_tree(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|name| {
        let end = name.iter().position(|byte| matches!(byte, b':' | b'\\')).unwrap_or(name.len());
        let plain = name[..end].trim_ascii_end();
        let plain = plain.strip_suffix(b".").unwrap_or(plain);
        !plain.eq_ignore_ascii_case(b".git") && !plain.eq_ignore_ascii_case(b"git~1")
    })
}
