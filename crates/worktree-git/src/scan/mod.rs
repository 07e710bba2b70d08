//! What a worktree holds that HEAD does not: the question behind both `inspect` and `rescue`.
//!
//! Architecture invariant: nothing here writes, and nothing here runs a program. A doubt is an error or a
//! file read once more; it is never "clean".

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
use crate::pack::PackWriter;
use crate::site::Site;
use crate::tree::{self, DIRECTORY, Item, SYMLINK};
use content::{Candidate, Content, Until};
use head::Staged;
use index::{GITLINK, Index};
use walk::{PathMode, Seen, Sighting, WalkError};

/// Where a worktree is.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// Its top, held open.
    pub(crate) root: BorrowedFd<'a>,
    /// Its path, for people and for repositories inside.
    pub(crate) workdir: &'a Path,
    /// The path that links inside it were written for: its place in the yard, also while it is in the trash.
    pub(crate) home: &'a Path,
    /// Its own git directory.
    pub(crate) admin: &'a Path,
}

impl<'a> Place<'a> {
    /// Where the worktree at a site is; `None` where its directory is gone.
    pub(crate) fn of(site: &'a Site) -> Option<Place<'a>> {
        let workdir = site.workdir.as_ref()?;
        let root = workdir.dir.as_fd();
        Some(Place { root, workdir: &workdir.path, home: &site.plot.path, admin: &site.admin })
    }
}

/// The worktree cannot be rescued as it is, for a reason that a person can do something about.
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
                // Without its commit it is damaged, or cannot be read.
                _ => return Err(error),
            },
            Err(error) => return Err(error),
        };
        Ok(Head { commit, branch })
    }

    /// HEAD's tree.
    pub(crate) fn tree(&self) -> Option<Oid> {
        self.commit.map(|(_, tree)| tree)
    }
}

/// Whether a branch is still to be made.
fn is_unborn(repository: &Repository, branch: &[u8]) -> Result<bool, git2::Error> {
    let found = every_ref::find_one(repository.commondir(), branch);
    let found =
        found.map_err(|error| git2::Error::from_str(&format!("its branch cannot be read: {error}")))?;
    Ok(found.is_none())
}

/// A worktree opened for reading.
pub(crate) struct Subject {
    /// The repository, as seen from the worktree.
    pub(crate) repository: Repository,
    /// What is checked out.
    pub(crate) head: Head,
}

impl Subject {
    /// Opens a worktree by its own git directory, so that what its `.git` file says does not matter.
    pub(crate) fn open(site: &Site) -> Result<Subject, WorktreeError> {
        let open = || -> Result<Subject, git2::Error> {
            let repository = Repository::open(&site.admin)?;
            let head = Head::load(&repository)?;
            Ok(Subject { repository, head })
        };
        open().map_err(|error| failed("opening the worktree's repository at", &site.admin, error))
    }
}

/// What differs, and what has to be read to know.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The index.
    pub(crate) index: Index,
    /// Where the index is not HEAD.
    pub(crate) staged: Staged,
    /// What only its content can tell about.
    pub(crate) candidates: Vec<Candidate>,
    /// Paths that HEAD has and the worktree has not, or that are submodules at another commit.
    pub(crate) known: Vec<(Vec<u8>, Option<Item>)>,
    /// Directories with nothing in them.
    pub(crate) empty: Vec<Vec<u8>>,
    /// Unchanged files with unusual permission bits.
    pub(crate) file_modes: Vec<PathMode>,
    /// Directories with unusual permission bits.
    pub(crate) directory_modes: Vec<PathMode>,
    /// What is not saved, and why.
    pub(crate) left_out: Vec<(Vec<u8>, String)>,
    /// Whether a merge, a rebase or the like was under way.
    pub(crate) unfinished: bool,
}

/// Looks at a worktree. One whose creation was cut off (`complete` is false) is clean where a file is
/// missing: no command ever ran in it.
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
    let (seen, sighting) =
        walk::walk(place.root, &index, trust_executable_bit).map_err(|error| walk_failed(place, error))?;
    let staged = head::find_staged(&odb, &index, subject.head.tree()).map_err(in_git)?;
    let untracked = untracked::sort_out(place, repository, &staged, &sighting, save_ignored)?;

    let mut findings = Findings {
        candidates: Vec::new(),
        known: Vec::new(),
        empty: [sighting.empty.clone(), untracked.empty].concat(),
        file_modes: sighting.file_modes.clone(),
        directory_modes: [sighting.directory_modes.clone(), untracked.directory_modes].concat(),
        left_out: untracked.left_out,
        unfinished: is_unfinished(place.admin)?,
        index,
        staged,
    };
    findings.judge_tracked(&seen, &sighting, trust_executable_bit);
    if !sexton_mutant::is("no_untracked") {
        findings.add_untracked(place, untracked.files)?;
    }
    findings.judge_repositories(place, &sighting, &untracked.nested, save_ignored)?;
    findings.left_out.extend(sighting.special.into_iter().map(|(path, why)| (path, why.to_owned())));
    findings.empty.sort_unstable();
    findings.left_out.sort_unstable();
    findings.directory_modes.sort_unstable();
    findings.candidates.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    if let Some(path) = findings.candidates.iter().find(|candidate| !can_be_in_a_tree(&candidate.path)) {
        let shown = String::from_utf8_lossy(&path.path).into_owned();
        return Err(cannot_rescue(place, format!("git cannot hold a file named {shown}")));
    }
    Ok(findings)
}

/// The index; for a worktree that was never finished and has none yet, what HEAD would give.
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
    /// What HEAD has at an entry's path.
    fn head_of(&self, position: usize) -> Option<Item> {
        let entry = &self.index.entries[position];
        match self.staged.get(self.index.path(entry)) {
            Some(head) => *head,
            None => Some(Item { mode: entry.mode, oid: entry.oid }),
        }
    }

    fn judge_tracked(&mut self, seen: &[Seen], sighting: &Sighting, trust_executable_bit: bool) {
        for (position, seen) in seen.iter().enumerate() {
            let entry = &self.index.entries[position];
            let path = self.index.path(entry);
            // Nearly all of them: nothing is copied for those.
            if *seen == Seen::Same && !self.staged.contains_key(path) {
                continue;
            }
            // In a conflict one path has several entries; the first speaks for it.
            if position > 0 && self.index.path(&self.index.entries[position - 1]) == path {
                continue;
            }
            let (path, head) = (path.to_vec(), self.head_of(position));
            let of_a_file = !matches!(entry.mode, SYMLINK | GITLINK);
            let mode = (!trust_executable_bit && of_a_file).then_some(entry.mode);
            match seen {
                // Its repository is judged apart. A file or a symlink in the place of one is a file.
                _ if entry.mode == GITLINK && sighting.submodules.binary_search(&path).is_ok() => {}
                Seen::Same | Seen::Unsure => self.candidates.push(Candidate { path, head, mode }),
                Seen::Missing if entry.skip_worktree => {}
                Seen::Missing if head.is_some() => self.known.push((path, None)),
                Seen::Missing => {}
            }
        }
    }

    /// Adds what git does not know, and what only HEAD knows: it may still lie on disk, in a folder that
    /// is ignored by now.
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
        sighting: &Sighting,
        untracked: &[Vec<u8>],
        save_ignored: bool,
    ) -> Result<(), WorktreeError> {
        if sexton_mutant::is("no_nested_check") {
            return Ok(());
        }
        nested::require_expendable_modules(place)?;
        for path in &sighting.submodules {
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
        for path in sighting.nested.iter().chain(untracked) {
            nested::require_expendable(place, path, save_ignored)?;
            let why = "it is a repository of its own, with nothing that its remotes do not have";
            self.left_out.push((path.clone(), why.to_owned()));
        }
        Ok(())
    }

    /// Whether somebody set permission bits: a file that is otherwise as HEAD has it has neither the usual
    /// ones nor those that a umask gives to most files here.
    pub(crate) fn has_set_modes(&self, contents: &[Option<Content>]) -> bool {
        let read = self.candidates.iter().zip(contents).filter_map(|(candidate, content)| {
            let content = content.filter(|content| Some(content.item) == candidate.head)?;
            content.permissions.filter(|mode| !walk::is_usual(*mode))
        });
        let unusual: Vec<u32> = self.file_modes.iter().map(|(_, mode)| *mode).chain(read).collect();
        let mut counts = HashMap::<u32, usize>::new();
        for mode in &unusual {
            // An executable file shows the same umask: what may read it may run it.
            *counts.entry(mode & 0o666).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let masked = most.filter(|(_, count)| count * 2 > self.index.entries.len()).map(|(mode, _)| mode);
        unusual
            .iter()
            .any(|mode| Some(mode & 0o666) != masked || ![0, (mode & 0o444) >> 2].contains(&(mode & !0o666)))
    }

    /// The blobs that only the index names: staged, in conflict, announced, or resolved from.
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

    /// Whether there is something to save that needs no reading.
    pub(crate) fn is_changed(&self) -> bool {
        let new = |candidate: &Candidate| candidate.head.is_none();
        !self.staged.is_empty()
            || !self.known.is_empty()
            || !self.empty.is_empty()
            || self.unfinished
            || self.candidates.iter().any(new)
    }

    /// Whether anything is not as HEAD has it. Reads no further than to the first thing that is not.
    fn has_changes(&self, place: &Place<'_>) -> Result<bool, WorktreeError> {
        if self.is_changed() {
            return Ok(true);
        }
        let nowhere = Mutex::new(PackWriter::rehearsal());
        let contents = content::read_all(place.root, &self.candidates, &nowhere, Until::FirstChange)
            .map_err(|error| walk_failed(place, error))?;
        let differs = |(candidate, content): (&Candidate, &Option<Content>)| {
            content.map(|content| content.item) != candidate.head
        };
        Ok(self.candidates.iter().zip(&contents).any(differs) || self.has_set_modes(&contents))
    }

    /// Leaves out what a creation that was cut off had only begun to write: a file that is a beginning of
    /// HEAD's, and a directory whose files were still to come.
    pub(crate) fn forgive_beginnings(&mut self, place: &Place<'_>, odb: &Odb<'_>) -> io::Result<()> {
        self.empty.clear();
        let mut kept = Vec::new();
        for candidate in std::mem::take(&mut self.candidates) {
            if !is_beginning(place, odb, &candidate)? {
                kept.push(candidate);
            }
        }
        self.candidates = kept;
        Ok(())
    }
}

fn is_beginning(place: &Place<'_>, odb: &Odb<'_>, candidate: &Candidate) -> io::Result<bool> {
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

/// What the admin directory alone still knows of a worktree whose directory is gone: what was staged, as if
/// the files had been like that.
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
            // In conflict, or announced only: the index says which, and no content could be chosen here.
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
    progress::is_unfinished(admin).map_err(|error| failed("looking into", admin, error))
}

/// Whether a rescue would have anything to save besides commits. Stops at the first thing that it finds.
pub(crate) fn is_dirty(site: &Site, save_ignored: bool) -> Result<bool, WorktreeError> {
    let Some(place) = Place::of(site) else { return Ok(false) };
    let subject = Subject::open(site)?;
    let mut findings = scan(&place, &subject, site.complete, save_ignored)?;
    if !site.complete {
        let odb = subject.repository.odb().map_err(|error| failed("reading", &site.common, error))?;
        findings.forgive_beginnings(&place, &odb).map_err(|error| failed("reading", place.workdir, error))?;
    }
    findings.has_changes(&place)
}

/// Whether git accepts every name of a path in a tree. What some other system would take for `.git` it
/// does not.
fn can_be_in_a_tree(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|name| {
        let end = name.iter().position(|byte| matches!(byte, b':' | b'\\')).unwrap_or(name.len());
        let plain = name[..end].trim_ascii_end();
        let plain = plain.strip_suffix(b".").unwrap_or(plain);
        !plain.eq_ignore_ascii_case(b".git") && !plain.eq_ignore_ascii_case(b"git~1")
    })
}
