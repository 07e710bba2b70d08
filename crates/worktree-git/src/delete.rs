//! Deleting directory trees, by several threads at once and through descriptors alone.
//!
//! Architecture invariant: a directory is entered only by `openat2`, one name below one that is held open,
//! never through a symlink and never across a mount. What another sweeper deletes at the same time is no
//! error.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags};
use rustix::io::Errno;
use sexton_core::WorktreeError;

use crate::crew::Crew;
use crate::fault::failed;
use crate::yard::{anchor, nobodys_name, open_below};

/// How much of a directory is listed at once.
const LISTING: usize = 32 << 10;
/// What lies deeper is moved to the top first: every level above holds a descriptor.
const MAX_DEPTH: usize = 64;

/// Deletes the directories `names` in `top`, and whatever is in them. Returns how many are gone.
pub(crate) fn delete(top: BorrowedFd<'_>, path: &Path, names: &[OsString]) -> Result<usize, WorktreeError> {
    let roots = names.iter().map(|name| Arc::new(Node::root(name.clone()))).collect();
    let work = Work {
        top,
        path,
        queue: Mutex::new(Queue { waiting: roots, busy: 0, failure: None }),
        news: Condvar::new(),
        gone: AtomicUsize::new(0),
    };
    let crew = Crew::hire(usize::MAX);
    std::thread::scope(|scope| {
        crew.put_to(|| work.run(), scope);
        work.run();
    });
    let queue = work.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    match queue.failure {
        None => Ok(work.gone.into_inner()),
        Some((path, error)) => Err(failed("deleting", &path, error)),
    }
}

/// A directory that is to be deleted.
struct Node {
    /// `None` for one that lies at the top.
    parent: Option<Arc<Node>>,
    name: OsString,
    /// Whether it is one of those that were to be deleted, and not a part of one.
    asked_for: bool,
    depth: usize,
    /// Open while anything is left in it.
    dir: OnceLock<OwnedFd>,
    /// How many directories are left in it, and one more while it is being read.
    left: AtomicUsize,
}

impl Node {
    fn root(name: OsString) -> Node {
        Node { asked_for: true, ..Node::part(name) }
    }

    /// A part of something that was moved to the top.
    fn part(name: OsString) -> Node {
        let (dir, left) = (OnceLock::new(), AtomicUsize::new(1));
        Node { parent: None, name, asked_for: false, depth: 0, dir, left }
    }

    fn child(parent: &Arc<Node>, name: OsString) -> Node {
        Node { parent: Some(Arc::clone(parent)), depth: parent.depth + 1, ..Node::part(name) }
    }
}

struct Queue {
    waiting: Vec<Arc<Node>>,
    /// How many threads are at work, and may add to what waits.
    busy: usize,
    /// The first thing that could not be deleted.
    failure: Option<(PathBuf, io::Error)>,
}

struct Work<'a> {
    top: BorrowedFd<'a>,
    path: &'a Path,
    queue: Mutex<Queue>,
    news: Condvar,
    gone: AtomicUsize,
}

impl Work<'_> {
    fn run(&self) {
        while let Some(node) = self.next() {
            if let Err(error) = self.empty(&node) {
                self.fail(&node, error);
            }
            self.leave(&node);
            self.queue().busy -= 1;
            self.news.notify_all();
        }
    }

    /// The next directory; `None` where none is left and nobody can find another.
    fn next(&self) -> Option<Arc<Node>> {
        let mut queue = self.queue();
        loop {
            // The last one first: going deep before going wide keeps few directories open.
            if let Some(node) = queue.waiting.pop() {
                queue.busy += 1;
                return Some(node);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self.news.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Deletes what is in a directory, but for the directories, which wait for their turn.
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
                // Another sweeper has deleted the directory itself.
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
                unlink(dir.as_fd(), name)?;
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
            let at_top = nobodys_name();
            match rustix::fs::renameat_with(dir, &name, self.top, &at_top, RenameFlags::NOREPLACE) {
                Ok(()) => found.push(Arc::new(Node::part(at_top))),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.queue().waiting.append(&mut found);
        self.news.notify_all();
        Ok(())
    }

    /// One thing less is left in a directory. Where that was the last, the directory goes too.
    fn leave(&self, node: &Arc<Node>) {
        let mut node = node;
        while node.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            match rustix::fs::unlinkat(self.parent_of(node), &node.name, AtFlags::REMOVEDIR) {
                Ok(()) if node.asked_for => {
                    self.gone.fetch_add(1, Ordering::Relaxed);
                }
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => self.fail(node, error.into()),
            }
            match &node.parent {
                Some(parent) => node = parent,
                None => break,
            }
        }
    }

    fn parent_of<'a>(&'a self, node: &'a Node) -> BorrowedFd<'a> {
        // A directory is found by reading its parent, which is open then.
        node.parent.as_ref().and_then(|parent| parent.dir.get()).map_or(self.top, AsFd::as_fd)
    }

    fn fail(&self, node: &Node, error: io::Error) {
        let mut names = vec![&node.name];
        let mut above = node.parent.as_deref();
        while let Some(node) = above {
            names.push(&node.name);
            above = node.parent.as_deref();
        }
        let path = names.into_iter().rev().fold(self.path.to_owned(), |path, name| path.join(name));
        self.queue().failure.get_or_insert((path, error));
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

/// Opens a directory whose entries can be deleted. Some programs make theirs read-only, and nothing in
/// them could be deleted by anybody but root.
fn open_writable(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let opened = open_below(parent, name);
    let dir = match opened {
        Err(Errno::ACCESS) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let closed = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            rustix::fs::chmod(anchor(closed.as_fd()), Mode::RWXU)?;
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
