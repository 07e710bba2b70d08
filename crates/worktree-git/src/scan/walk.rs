//! One pass over the directories that contain tracked files: finds what matches the index, what has to be
//! read, and what is untracked. Several threads, each with one directory at a time.
//!
//! Architecture invariant: every path is opened below the worktree's own descriptor, without following a
//! symlink and without crossing a mount. Nothing here reads a file's content.

use std::ffi::{CStr, OsStr};
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::index::{CachedStat, Entry, GITLINK, Index, cut_time};
use crate::workers::Workers;

/// Fewer entries than this are not worth another thread.
const MIN_PER_THREAD: usize = 128;

/// The state of an index entry's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Seen {
    /// Nothing is there.
    Missing = 0,
    /// It matches the index.
    Same = 1,
    /// Something is there, and only its content can decide.
    Unsure = 2,
}

/// A path and its permission bits.
pub(crate) type PathMode = (Vec<u8>, u32);

/// What the walk found.
#[derive(Debug, Default)]
pub(crate) struct WalkReport {
    /// Files and symlinks that are not in the index.
    pub(crate) unknown_files: Vec<Vec<u8>>,
    /// Directories that contain nothing from the index.
    pub(crate) unknown_directories: Vec<Vec<u8>>,
    /// Directories of submodules.
    pub(crate) submodules: Vec<Vec<u8>>,
    /// Directories with tracked files that contain a repository of their own.
    pub(crate) nested: Vec<Vec<u8>>,
    /// Empty directories.
    pub(crate) empty: Vec<Vec<u8>>,
    /// Special files, which have no content to save, and what they are.
    pub(crate) special: Vec<(Vec<u8>, &'static str)>,
    /// Unchanged files with other permission bits than a checkout gives.
    pub(crate) file_modes: Vec<PathMode>,
    /// Directories with other permission bits than a checkout gives.
    pub(crate) directory_modes: Vec<PathMode>,
}

impl WalkReport {
    fn merge(&mut self, other: WalkReport) {
        self.unknown_files.extend(other.unknown_files);
        self.unknown_directories.extend(other.unknown_directories);
        self.submodules.extend(other.submodules);
        self.nested.extend(other.nested);
        self.empty.extend(other.empty);
        self.special.extend(other.special);
        self.file_modes.extend(other.file_modes);
        self.directory_modes.extend(other.directory_modes);
    }

    /// Sorts everything: threads finish in any order, and a rescue must not depend on it.
    fn sort(&mut self) {
        for paths in [
            &mut self.unknown_files,
            &mut self.unknown_directories,
            &mut self.submodules,
            &mut self.nested,
            &mut self.empty,
        ] {
            paths.sort_unstable();
        }
        self.special.sort_unstable();
        self.file_modes.sort_unstable();
        self.directory_modes.sort_unstable();
    }
}

/// A path that could not be read.
#[derive(Debug)]
pub(crate) struct WalkError {
    pub(crate) path: Vec<u8>,
    pub(crate) source: io::Error,
}

/// Adds a path to an error.
pub(crate) fn at(path: &[u8]) -> impl FnOnce(Errno) -> WalkError + '_ {
    move |errno| WalkError { path: path.to_vec(), source: explain(errno) }
}

fn explain(errno: Errno) -> io::Error {
    match errno {
        Errno::XDEV => io::Error::new(io::ErrorKind::CrossesDevices, "another file system is mounted there"),
        errno => errno.into(),
    }
}

/// Opens a path below `root`, never through a symlink and never across a mount.
pub(crate) fn open_below(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let path = if path.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(path) };
    let stay = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let stay = if sexton_mutant::is("no_mount_check") { stay - ResolveFlags::NO_XDEV } else { stay };
    loop {
        match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), stay)
        {
            // The kernel returns this if a concurrent rename kept it from verifying the path.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
}

/// Lists a directory below `root`, without `.` and `..`, and returns its permission bits.
pub(crate) fn list_below(
    root: BorrowedFd<'_>,
    path: &[u8],
    mut each: impl FnMut(BorrowedFd<'_>, &CStr, FileType) -> rustix::io::Result<()>,
) -> rustix::io::Result<u32> {
    let directory = open_below(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mode = rustix::fs::fstat(&directory)?.st_mode & 0o7777;
    let mut listing = Dir::new(directory)?;
    while let Some(entry) = listing.read() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let directory = listing.fd()?;
        let kind = match entry.file_type() {
            FileType::Unknown => FileType::from_raw_mode(stat_in(directory, name)?.st_mode),
            kind => kind,
        };
        each(directory, name, kind)?;
    }
    Ok(mode)
}

fn stat_in(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<Stat> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Describes a special file.
pub(crate) fn describe_special(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "a named pipe has no content of its own",
        FileType::Socket => "a socket has no content of its own",
        FileType::CharacterDevice | FileType::BlockDevice => "a device has no content of its own",
        _ => "it is neither a file, a directory nor a symlink",
    }
}

/// Returns the part of a `stat` that the index stores.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "git truncates them the same way"
)]
pub(crate) fn cached(stat: &Stat) -> CachedStat {
    CachedStat {
        ctime: cut_time(stat.st_ctime, stat.st_ctime_nsec as i64),
        mtime: cut_time(stat.st_mtime, stat.st_mtime_nsec as i64),
        ino: stat.st_ino as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size as u32,
    }
}

/// Returns whether these are the permission bits that a checkout gives with a usual umask.
pub(crate) fn is_usual(mode: u32) -> bool {
    matches!(mode, 0o644 | 0o755)
}

struct Task {
    /// The directory, with a trailing slash; empty for the top.
    path: Vec<u8>,
    /// Its entries in the index.
    range: Range<usize>,
}

#[derive(Default)]
struct Queue {
    tasks: Vec<Task>,
    busy: usize,
    failed: Option<WalkError>,
}

/// One walk.
pub(crate) struct Walk<'a> {
    root: BorrowedFd<'a>,
    index: &'a Index,
    trust_executable_bit: bool,
    seen: Vec<AtomicU8>,
    queue: Mutex<Queue>,
    more: Condvar,
}

/// Walks the worktree. Returns the state of every entry of the index, and everything else that was found.
pub(crate) fn walk(
    root: BorrowedFd<'_>,
    index: &Index,
    trust_executable_bit: bool,
) -> Result<(Vec<Seen>, WalkReport), WalkError> {
    let top = Task { path: Vec::new(), range: 0..index.entries.len() };
    let walk = Walk {
        root,
        index,
        trust_executable_bit,
        seen: index.entries.iter().map(|_| AtomicU8::new(Seen::Missing as u8)).collect(),
        queue: Mutex::new(Queue { tasks: vec![top], ..Queue::default() }),
        more: Condvar::new(),
    };
    let mut report = WalkReport::default();
    let workers = Workers::reserve(index.entries.len().div_ceil(MIN_PER_THREAD));
    std::thread::scope(|scope| {
        let helpers = workers.spawn(|| walk.work(), scope);
        report.merge(walk.work());
        for helper in helpers {
            report.merge(helper.join().expect("a walker does not panic"));
        }
    });
    report.sort();
    let queue = walk.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = queue.failed {
        return Err(error);
    }
    let seen = walk.seen.into_iter().map(|seen| match seen.into_inner() {
        1 => Seen::Same,
        2 => Seen::Unsure,
        _ => Seen::Missing,
    });
    Ok((seen.collect(), report))
}

impl Walk<'_> {
    fn work(&self) -> WalkReport {
        let mut report = WalkReport::default();
        while let Some(task) = self.next() {
            let outcome = self.visit(&task, &mut report);
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.busy -= 1;
            match outcome {
                Ok(found) => queue.tasks.extend(found),
                Err(error) => {
                    queue.tasks.clear();
                    queue.failed.get_or_insert(error);
                }
            }
            self.more.notify_all();
        }
        report
    }

    fn next(&self) -> Option<Task> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if queue.failed.is_some() {
                return None;
            }
            if let Some(task) = queue.tasks.pop() {
                queue.busy += 1;
                return Some(task);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn visit(&self, task: &Task, report: &mut WalkReport) -> Result<Vec<Task>, WalkError> {
        let mut deeper = Vec::new();
        let mut count = 0;
        let mut last = task.range.start;
        let mut path = task.path.clone();
        let mode = list_below(self.root, &task.path, |directory, name, kind| {
            count += 1;
            if name == c".git" {
                if !task.path.is_empty() {
                    report.nested.push(without_slash(&task.path));
                }
                return Ok(());
            }
            path.truncate(task.path.len());
            path.extend_from_slice(name.to_bytes());
            match kind {
                FileType::Directory => deeper.extend(self.classify_directory(&path, task, report)),
                FileType::RegularFile | FileType::Symlink => {
                    let known = self.index.at_near(last, task.range.clone(), &path);
                    last = known.start;
                    if known.is_empty() {
                        report.unknown_files.push(path.clone());
                    } else {
                        self.compare(known, &stat_in(directory, name)?, &path, report);
                    }
                }
                other => report.special.push((path.clone(), describe_special(other))),
            }
            Ok(())
        })
        .map_err(at(&task.path))?;
        if count == 0 {
            report.empty.push(without_slash(&task.path));
        }
        if mode != 0o755 && !task.path.is_empty() {
            report.directory_modes.push((without_slash(&task.path), mode));
        }
        Ok(deeper)
    }

    /// Classifies a directory: a submodule, a directory with tracked files, or an unknown directory.
    fn classify_directory(&self, path: &[u8], within: &Task, report: &mut WalkReport) -> Option<Task> {
        let exact = self.index.at(within.range.clone(), path);
        if self.index.entries[exact.clone()].iter().any(|entry| entry.mode == GITLINK) {
            exact.for_each(|position| self.mark(position, Seen::Unsure));
            report.submodules.push(path.to_vec());
            return None;
        }
        let mut prefix = path.to_vec();
        prefix.push(b'/');
        let range = self.index.below(within.range.clone(), &prefix);
        if range.is_empty() {
            report.unknown_directories.push(path.to_vec());
            return None;
        }
        Some(Task { path: prefix, range })
    }

    fn compare(&self, known: Range<usize>, stat: &Stat, path: &[u8], report: &mut WalkReport) {
        let entry = &self.index.entries[known.start];
        if known.len() == 1 && entry.stage == 0 && self.is_same(entry, stat) {
            self.mark(known.start, Seen::Same);
            let mode = stat.st_mode & 0o7777;
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && !is_usual(mode) {
                report.file_modes.push((path.to_vec(), mode));
            }
        } else {
            known.for_each(|position| self.mark(position, Seen::Unsure));
        }
    }

    fn mark(&self, position: usize, seen: Seen) {
        self.seen[position].store(seen as u8, Ordering::Relaxed);
    }

    /// Returns whether the file certainly matches the index. Stricter than git, which can be configured to
    /// skip some checks (`core.trustCtime`, `assume-unchanged`); the cost is that some files are read
    /// unnecessarily.
    fn is_same(&self, entry: &Entry, stat: &Stat) -> bool {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => 0o120_000,
            _ if !self.trust_executable_bit => entry.mode,
            _ if stat.st_mode & 0o100 != 0 => 0o100_755,
            _ => 0o100_644,
        };
        // Written at the same time as the index or later: a change could have left the `stat` the same. A
        // program that resets a file's modification time (`cp -p`, `tar`) still changes its ctime. git marks
        // such an entry with a size of 0.
        let racy = entry.stat.mtime.max(entry.stat.ctime) >= self.index.written;
        let doubtful = racy || entry.stat.size == 0 || entry.intent_to_add || entry.skip_worktree;
        kind == entry.mode && entry.stat == cached(stat) && !doubtful
    }
}

/// Returns a directory's path without its trailing slash.
fn without_slash(path: &[u8]) -> Vec<u8> {
    path.strip_suffix(b"/").unwrap_or(path).to_vec()
}
