//! Deletes directory trees with several threads, through descriptors only.
//!
//! Architecture invariant: a directory is entered only by `openat2`, one name below a directory that is held
//! open, never through a symlink and never across a mount. Files that a concurrent sweep deletes are no
//! error. What cannot be deleted stays, and everything around it is deleted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags};
use rustix::io::Errno;

use crate::workers::Workers;
use crate::worktree_root::{fd_path, open_below, unowned_name};

/// The buffer size for listing a directory.
const LISTING: usize = 32 << 10;
/// Deeper directories are first moved to the top: every level above holds an open descriptor.
const MAX_DEPTH: usize = 64;

/// The result of deleting directories.
pub(crate) struct Deleted {
    /// How many were deleted.
    pub(crate) gone: usize,
    /// What is left of the others, by their name in the directory above.
    pub(crate) left: BTreeMap<OsString, Undeleted>,
}

/// What is left of one directory.
pub(crate) struct Undeleted {
    /// The first path in it that could not be deleted, and why. It does not depend on the order of the
    /// threads.
    first: (PathBuf, String),
    count: usize,
}

impl fmt::Display for Undeleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, error) = &self.first;
        write!(f, "cannot delete {}: {error}", path.display())?;
        if self.count > 1 { write!(f, " (and {} more)", self.count - 1) } else { Ok(()) }
    }
}

/// Deletes the directories `names` in `top` and everything in them.
pub(crate) fn delete(top: BorrowedFd<'_>, path: &Path, names: &[OsString]) -> Deleted {
    let roots = names.iter().map(|name| Arc::new(Node::root(name.clone()))).collect();
    let work = Work {
        top,
        path,
        queue: Mutex::new(Queue { waiting: roots, busy: 0, left: BTreeMap::new() }),
        changed: Condvar::new(),
        gone: AtomicUsize::new(0),
    };
    let workers = Workers::reserve(usize::MAX);
    std::thread::scope(|scope| {
        workers.spawn(|| work.run(), scope);
        work.run();
    });
    let queue = work.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    Deleted { gone: work.gone.into_inner(), left: queue.left }
}

/// A directory to delete.
struct Node {
    /// `None` for a directory at the top.
    parent: Option<Arc<Node>>,
    name: OsString,
    /// Whether the caller requested it, and it is not a part of a requested one.
    requested: bool,
    depth: usize,
    /// Open while anything is left in it.
    dir: OnceLock<OwnedFd>,
    /// How many directories are left in it, plus one while it is being read.
    left: AtomicUsize,
    /// Whether something in it could not be deleted, so that it stays.
    stays: AtomicBool,
}

impl Node {
    fn root(name: OsString) -> Node {
        Node { requested: true, ..Node::part(name) }
    }

    /// A part that was moved to the top.
    fn part(name: OsString) -> Node {
        let (dir, left, stays) = (OnceLock::new(), AtomicUsize::new(1), AtomicBool::new(false));
        Node { parent: None, name, requested: false, depth: 0, dir, left, stays }
    }

    fn child(parent: &Arc<Node>, name: OsString) -> Node {
        Node { parent: Some(Arc::clone(parent)), depth: parent.depth + 1, ..Node::part(name) }
    }
}

struct Queue {
    waiting: Vec<Arc<Node>>,
    /// The number of threads that are working and may add nodes to `waiting`.
    busy: usize,
    /// What could not be deleted, by the top-level name that contains it.
    left: BTreeMap<OsString, Undeleted>,
}

struct Work<'a> {
    top: BorrowedFd<'a>,
    path: &'a Path,
    queue: Mutex<Queue>,
    changed: Condvar,
    gone: AtomicUsize,
}

impl Work<'_> {
    fn run(&self) {
        while let Some(node) = self.next() {
            if let Err(error) = self.empty(&node) {
                self.fail(&node, None, &error);
            }
            self.release(&node);
            self.queue().busy -= 1;
            self.changed.notify_all();
        }
    }

    /// Returns the next directory; `None` if none is left and no thread can find another.
    fn next(&self) -> Option<Arc<Node>> {
        let mut queue = self.queue();
        loop {
            // Last in, first out: going deep first keeps few directories open.
            if let Some(node) = queue.waiting.pop() {
                queue.busy += 1;
                return Some(node);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Deletes everything in a directory except its subdirectories, which are queued.
    fn empty(&self, node: &Arc<Node>) -> io::Result<()> {
        let parent = self.parent_of(node);
        let dir = match open_writable(parent, &node.name) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(()),
            // Not a directory after all.
            Err(Errno::NOTDIR | Errno::LOOP) => return unlink(parent, &node.name),
            Err(error) => return Err(error.into()),
        };
        let dir = node.dir.get_or_init(|| dir);
        let mut folders = Vec::new();
        let mut listing = Vec::with_capacity(LISTING);
        let mut entries = RawDir::new(dir, listing.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // A concurrent sweep has deleted the directory itself.
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let is_folder = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => is_directory(dir.as_fd(), name)?,
                _ => false,
            };
            if is_folder {
                folders.push(name.to_owned());
            } else {
                match unlink(dir.as_fd(), name) {
                    Ok(()) => {}
                    Err(error) => self.fail(node, Some(name), &error),
                }
            }
        }
        self.enqueue(node, dir.as_fd(), folders)
    }

    fn enqueue(&self, node: &Arc<Node>, dir: BorrowedFd<'_>, folders: Vec<OsString>) -> io::Result<()> {
        let mut found = Vec::with_capacity(folders.len());
        for name in folders {
            if node.depth < MAX_DEPTH {
                node.left.fetch_add(1, Ordering::Relaxed);
                found.push(Arc::new(Node::child(node, name)));
                continue;
            }
            let at_top = unowned_name();
            match rustix::fs::renameat_with(dir, &name, self.top, &at_top, RenameFlags::NOREPLACE) {
                Ok(()) => found.push(Arc::new(Node::part(at_top))),
                Err(Errno::NOENT) => {}
                Err(error) => self.fail(node, Some(&name), &error.into()),
            }
        }
        self.queue().waiting.append(&mut found);
        self.changed.notify_all();
        Ok(())
    }

    /// Counts down what is left in a directory, and deletes the directory when nothing is.
    fn release(&self, node: &Arc<Node>) {
        let mut node = node;
        while node.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            if !node.stays.load(Ordering::Acquire) {
                match rustix::fs::unlinkat(self.parent_of(node), &node.name, AtFlags::REMOVEDIR) {
                    Ok(()) if node.requested => {
                        self.gone.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => self.fail(node, None, &error.into()),
                }
            }
            match &node.parent {
                Some(parent) => node = parent,
                None => break,
            }
        }
    }

    fn parent_of<'a>(&'a self, node: &'a Node) -> BorrowedFd<'a> {
        // A directory is found by reading its parent, so its parent is open.
        node.parent.as_ref().and_then(|parent| parent.dir.get()).map_or(self.top, AsFd::as_fd)
    }

    /// Records that a directory, or `name` in it, could not be deleted. Every directory above it then stays.
    fn fail(&self, node: &Node, name: Option<&OsStr>, error: &io::Error) {
        let mut names: Vec<&OsStr> = name.into_iter().collect();
        let mut above = Some(node);
        while let Some(node) = above {
            names.push(&node.name);
            node.stays.store(true, Ordering::Release);
            above = node.parent.as_deref();
        }
        let top = names.last().copied().unwrap_or_default().to_owned();
        let path = names.into_iter().rev().fold(self.path.to_owned(), |path, name| path.join(name));
        let failure = (path, error.to_string());
        match self.queue().left.entry(top) {
            Entry::Vacant(vacant) => drop(vacant.insert(Undeleted { first: failure, count: 1 })),
            Entry::Occupied(mut occupied) => {
                let left = occupied.get_mut();
                left.count += 1;
                if failure < left.first {
                    left.first = failure;
                }
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unlink(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_directory(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory and makes it writable if necessary. Some programs create read-only directories, whose
/// entries only root could delete.
fn open_writable(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let opened = open_below(parent, name);
    let dir = match opened {
        Err(Errno::ACCESS) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let closed = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            rustix::fs::chmod(fd_path(closed.as_fd()), Mode::RWXU)?;
            open_below(parent, name)?
        }
        outcome => outcome?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&dir)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        rustix::fs::fchmod(&dir, Mode::RWXU)?;
    }
    Ok(dir)
}
