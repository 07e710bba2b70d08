//! Writing the files of a plan, by several threads. Each file is new: nothing is ever opened that was there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use git2::Repository;
use rustix::fs::{AtFlags, Mode, OFlags, Stat};

use super::Blank;
use super::objects::Objects;
use super::plan::{Item, Kind, Plan};
use crate::yard::open_below;

/// How many items a thread takes at once.
const PORTION: usize = 64;
/// More threads than this only wait for each other.
const MAX_THREADS: usize = 8;

/// Writes everything; returns what the kernel says of each item, in the plan's order.
pub(super) fn write(plan: &Plan, blank: &Blank<'_>) -> io::Result<Vec<Stat>> {
    for folder in plan.folders.iter().skip(1) {
        // Its parent was made by the line before, so the path has no symlink in it.
        rustix::fs::mkdirat(blank.dir, OsStr::from_bytes(&folder.path), Mode::from_raw_mode(0o777))?;
    }
    let work = Work {
        plan,
        blank,
        next: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
        written: Mutex::new(Vec::with_capacity(plan.items.len())),
    };
    let available = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let threads = available.min(plan.items.len().div_ceil(2 * PORTION)).max(1);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| work.run())).collect();
        let mine = work.run();
        others
            .into_iter()
            .map(|thread| thread.join().expect("a writer does not panic"))
            .fold(mine, Result::and)
    })?;
    let mut written = work.written.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    written.sort_unstable_by_key(|(index, _)| *index);
    Ok(written.into_iter().map(|(_, stat)| stat).collect())
}

struct Work<'a> {
    plan: &'a Plan,
    blank: &'a Blank<'a>,
    /// The first item that nobody has taken.
    next: AtomicUsize,
    /// Somebody failed, so that the rest is in vain.
    stopped: AtomicBool,
    written: Mutex<Vec<(usize, Stat)>>,
}

impl Work<'_> {
    fn run(&self) -> io::Result<()> {
        let mut written = Vec::new();
        let done = self.take_portions(&mut written);
        if done.is_err() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        self.written.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut written);
        done
    }

    fn take_portions(&self, written: &mut Vec<(usize, Stat)>) -> io::Result<()> {
        // Each thread reads objects on its own: a shared database would make them wait for each other.
        let repo = Repository::open(self.blank.common).map_err(io::Error::other)?;
        let odb = repo.odb().map_err(io::Error::other)?;
        let mut objects = Objects::open(self.blank.common, odb)?;
        let mut open: Option<(usize, OwnedFd)> = None;
        while !self.stopped.load(Ordering::Relaxed) {
            let first = self.next.fetch_add(PORTION, Ordering::Relaxed);
            let items = self.plan.items.iter().enumerate().skip(first).take(PORTION);
            if items.len() == 0 {
                break;
            }
            for (index, item) in items {
                let folder = match open.take() {
                    Some((folder, dir)) if folder == item.folder => dir,
                    _ => self.open_folder(item.folder)?,
                };
                let stat = write_item(item, &folder, &mut objects).map_err(|error| name_it(&error, item))?;
                written.push((index, stat));
                open = Some((item.folder, folder));
            }
        }
        Ok(())
    }

    fn open_folder(&self, folder: usize) -> io::Result<OwnedFd> {
        let path = &self.plan.folders[folder].path;
        if path.is_empty() {
            return self.blank.dir.try_clone_to_owned();
        }
        Ok(open_below(self.blank.dir, OsStr::from_bytes(path))?)
    }
}

fn write_item(item: &Item, folder: &OwnedFd, objects: &mut Objects<'_>) -> io::Result<Stat> {
    let name = OsStr::from_bytes(item.name());
    match item.kind {
        Kind::Gitlink => rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o777))?,
        Kind::Symlink => {
            let target = objects.read(item.oid)?;
            rustix::fs::symlinkat(OsStr::from_bytes(target.bytes()), folder, name)?;
        }
        Kind::File | Kind::Executable => {
            let content = objects.read(item.oid)?;
            let mode = if item.kind == Kind::Executable { 0o777 } else { 0o666 };
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file =
                File::from(rustix::fs::openat(folder.as_fd(), name, flags, Mode::from_raw_mode(mode))?);
            file.write_all(content.bytes())?;
            return Ok(rustix::fs::fstat(&file)?);
        }
    }
    Ok(rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn name_it(error: &io::Error, item: &Item) -> io::Error {
    let path = Path::new(OsStr::from_bytes(&item.path));
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
