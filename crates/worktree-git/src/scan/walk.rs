//! One pass over the directories that git tracks something in: what is as the index remembers it, what has
//! to be read, what git does not know. Several threads, one directory at a time each.
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
use crate::crew::Crew;

/// Fewer entries than this are not worth another thread.
const WORTH_A_THREAD: usize = 128;

/// What became of an index entry's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Seen {
    /// Nothing is there.
    Missing = 0,
    /// As the index remembers it.
    Same = 1,
    /// Something is there, and only its content can tell.
    Unsure = 2,
}

/// A path and its permission bits.
pub(crate) type PathMode = (Vec<u8>, u32);

/// What the walk came across.
#[derive(Debug, Default)]
pub(crate) struct Sighting {
    /// Files and symlinks that the index does not know.
    pub(crate) unknown_files: Vec<Vec<u8>>,
    /// Directories without anything that the index knows.
    pub(crate) unknown_directories: Vec<Vec<u8>>,
    /// Directories of submodules.
    pub(crate) submodules: Vec<Vec<u8>>,
    /// Directories, with tracked files in them, that hold a repository of their own.
    pub(crate) nested: Vec<Vec<u8>>,
    /// Directories with nothing in them.
    pub(crate) empty: Vec<Vec<u8>>,
    /// What has no content to save, and what it is.
    pub(crate) special: Vec<(Vec<u8>, &'static str)>,
    /// Unchanged files with other permission bits than a checkout gives.
    pub(crate) file_modes: Vec<PathMode>,
    /// Directories with other permission bits than a checkout gives.
    pub(crate) directory_modes: Vec<PathMode>,
}

impl Sighting {
    fn merge(&mut self, other: Sighting) {
        self.unknown_files.extend(other.unknown_files);
        self.unknown_directories.extend(other.unknown_directories);
        self.submodules.extend(other.submodules);
        self.nested.extend(other.nested);
        self.empty.extend(other.empty);
        self.special.extend(other.special);
        self.file_modes.extend(other.file_modes);
        self.directory_modes.extend(other.directory_modes);
    }

    /// Threads finish in any order; what is recorded must not depend on it.
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

/// A path that could not be looked at.
#[derive(Debug)]
pub(crate) struct WalkError {
    pub(crate) path: Vec<u8>,
    pub(crate) source: io::Error,
}

/// Names a path in an error.
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
            // A rename somewhere meanwhile: the kernel could not be sure, and asks to be asked again.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
}

/// Lists a directory below `root`, without `.` and `..`, and says what its own permission bits are.
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

/// What a thing without content is called.
pub(crate) fn describe_special(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "a named pipe has no content of its own",
        FileType::Socket => "a socket has no content of its own",
        FileType::CharacterDevice | FileType::BlockDevice => "a device has no content of its own",
        _ => "it is neither a file, a directory nor a symlink",
    }
}

/// The part of a `stat` that the index would remember.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "git cuts them the same way")]
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

/// The permission bits that a checkout gives, for a usual umask.
pub(crate) fn is_usual(mode: u32) -> bool {
    matches!(mode, 0o644 | 0o755)
}

struct Task {
    /// The directory, with a slash at its end; empty for the top.
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

/// Walks the worktree. Returns, for every entry of the index, what is at its path, and what else there is.
pub(crate) fn walk(
    root: BorrowedFd<'_>,
    index: &Index,
    trust_executable_bit: bool,
) -> Result<(Vec<Seen>, Sighting), WalkError> {
    let top = Task { path: Vec::new(), range: 0..index.entries.len() };
    let walk = Walk {
        root,
        index,
        trust_executable_bit,
        seen: index.entries.iter().map(|_| AtomicU8::new(Seen::Missing as u8)).collect(),
        queue: Mutex::new(Queue { tasks: vec![top], ..Queue::default() }),
        more: Condvar::new(),
    };
    let mut sighting = Sighting::default();
    let crew = Crew::hire(index.entries.len().div_ceil(WORTH_A_THREAD));
    std::thread::scope(|scope| {
        let helpers = crew.put_to(|| walk.work(), scope);
        sighting.merge(walk.work());
        for helper in helpers {
            sighting.merge(helper.join().expect("a walker does not panic"));
        }
    });
    sighting.sort();
    let queue = walk.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = queue.failed {
        return Err(error);
    }
    let seen = walk.seen.into_iter().map(|seen| match seen.into_inner() {
        1 => Seen::Same,
        2 => Seen::Unsure,
        _ => Seen::Missing,
    });
    Ok((seen.collect(), sighting))
}

impl Walk<'_> {
    fn work(&self) -> Sighting {
        let mut sighting = Sighting::default();
        while let Some(task) = self.next() {
            let outcome = self.visit(&task, &mut sighting);
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
        sighting
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

    fn visit(&self, task: &Task, sighting: &mut Sighting) -> Result<Vec<Task>, WalkError> {
        let mut deeper = Vec::new();
        let mut count = 0;
        let mut last = task.range.start;
        let mut path = task.path.clone();
        let mode = list_below(self.root, &task.path, |directory, name, kind| {
            count += 1;
            if name == c".git" {
                if !task.path.is_empty() {
                    sighting.nested.push(without_slash(&task.path));
                }
                return Ok(());
            }
            path.truncate(task.path.len());
            path.extend_from_slice(name.to_bytes());
            match kind {
                FileType::Directory => deeper.extend(self.sort_directory(&path, task, sighting)),
                FileType::RegularFile | FileType::Symlink => {
                    let known = self.index.at_near(last, task.range.clone(), &path);
                    last = known.start;
                    if known.is_empty() {
                        sighting.unknown_files.push(path.clone());
                    } else {
                        self.compare(known, &stat_in(directory, name)?, &path, sighting);
                    }
                }
                other => sighting.special.push((path.clone(), describe_special(other))),
            }
            Ok(())
        })
        .map_err(at(&task.path))?;
        if count == 0 {
            sighting.empty.push(without_slash(&task.path));
        }
        if mode != 0o755 && !task.path.is_empty() {
            sighting.directory_modes.push((without_slash(&task.path), mode));
        }
        Ok(deeper)
    }

    /// A directory is a submodule, or has something tracked in it, or is unknown.
    fn sort_directory(&self, path: &[u8], within: &Task, sighting: &mut Sighting) -> Option<Task> {
        let exact = self.index.at(within.range.clone(), path);
        if self.index.entries[exact.clone()].iter().any(|entry| entry.mode == GITLINK) {
            exact.for_each(|position| self.mark(position, Seen::Unsure));
            sighting.submodules.push(path.to_vec());
            return None;
        }
        let mut prefix = path.to_vec();
        prefix.push(b'/');
        let range = self.index.below(within.range.clone(), &prefix);
        if range.is_empty() {
            sighting.unknown_directories.push(path.to_vec());
            return None;
        }
        Some(Task { path: prefix, range })
    }

    fn compare(&self, known: Range<usize>, stat: &Stat, path: &[u8], sighting: &mut Sighting) {
        let entry = &self.index.entries[known.start];
        if known.len() == 1 && entry.stage == 0 && self.is_same(entry, stat) {
            self.mark(known.start, Seen::Same);
            let mode = stat.st_mode & 0o7777;
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && !is_usual(mode) {
                sighting.file_modes.push((path.to_vec(), mode));
            }
        } else {
            known.for_each(|position| self.mark(position, Seen::Unsure));
        }
    }

    fn mark(&self, position: usize, seen: Seen) {
        self.seen[position].store(seen as u8, Ordering::Relaxed);
    }

    /// Whether the file is certainly what the index says. Stricter than git, which may be told to leave
    /// out some of it (`core.trustCtime`, `assume-unchanged`): the price is a file read in vain.
    fn is_same(&self, entry: &Entry, stat: &Stat) -> bool {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => 0o120_000,
            _ if !self.trust_executable_bit => entry.mode,
            _ if stat.st_mode & 0o100 != 0 => 0o100_755,
            _ => 0o100_644,
        };
        // Written in the same instant as the index, or after it: a change could have left no mark. Whoever
        // sets a file's time back (`cp -p`, `tar`) leaves the moment in its change time alone. A size of
        // nothing is how git itself marks such an entry.
        let racy = entry.stat.mtime.max(entry.stat.ctime) >= self.index.written;
        let doubtful = racy || entry.stat.size == 0 || entry.intent_to_add || entry.skip_worktree;
        kind == entry.mode && entry.stat == cached(stat) && !doubtful
    }
}

/// A directory's path as people write it.
fn without_slash(path: &[u8]) -> Vec<u8> {
    path.strip_suffix(b"/").unwrap_or(path).to_vec()
}
