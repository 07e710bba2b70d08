//! Writes the files of a plan with several threads. Every file is new: no existing file is ever opened.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};

use super::Blank;
use super::index_file::StatData;
use super::objects::Objects;
use super::packs::Packs;
use super::plan::{Item, Kind, Plan};
use crate::workers::Workers;
use crate::worktree_root::open_below;

/// How many items a thread takes at once, at most.
const PORTION: usize = 256;
/// Fewer items than this are not worth another thread.
const MIN_PER_THREAD: usize = 128;

/// Writes everything; returns the `stat` data of each item, in the plan's order.
pub(super) fn write(plan: &Plan, blank: &Blank<'_>) -> io::Result<Vec<StatData>> {
    for folder in plan.folders.iter().skip(1) {
        // Its parent was created earlier in this loop, so the path contains no symlink.
        rustix::fs::mkdirat(blank.dir, OsStr::from_bytes(&folder.path), Mode::from_raw_mode(0o777))?;
    }
    let packs = Packs::open(&blank.common.join("objects"))?;
    let work = Work {
        plan,
        blank,
        packs: &packs,
        portions: portions(plan),
        next: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
        written: Mutex::new(Vec::new()),
    };
    let workers = Workers::reserve(plan.items.len().div_ceil(MIN_PER_THREAD));
    std::thread::scope(|scope| {
        let others = workers.spawn(|| work.run(), scope);
        let mine = work.run();
        others
            .into_iter()
            .map(|thread| thread.join().expect("a writer does not panic"))
            .fold(mine, Result::and)
    })?;
    let mut written = work.written.into_inner().unwrap_or_else(PoisonError::into_inner);
    written.sort_unstable_by_key(|(portion, _)| *portion);
    Ok(written.into_iter().flat_map(|(_, stats)| stats).collect())
}

/// Splits the items into portions of one directory each: the kernel lets only one thread at a time create a
/// file in a directory.
fn portions(plan: &Plan) -> Vec<Range<usize>> {
    let mut portions: Vec<Range<usize>> = Vec::new();
    for (index, item) in plan.items.iter().enumerate() {
        match portions.last_mut() {
            Some(last) if plan.items[last.start].folder == item.folder && last.len() < PORTION => {
                last.end = index + 1;
            }
            _ => portions.push(index..index + 1),
        }
    }
    portions
}

struct Work<'a> {
    plan: &'a Plan,
    blank: &'a Blank<'a>,
    packs: &'a Packs,
    portions: Vec<Range<usize>>,
    /// The first portion that no thread has taken.
    next: AtomicUsize,
    /// Set when a thread failed, so that the others stop.
    stopped: AtomicBool,
    /// The `stat` data of the items of each portion.
    written: Mutex<Vec<(usize, Vec<StatData>)>>,
}

impl Work<'_> {
    fn run(&self) -> io::Result<()> {
        let mut written = Vec::new();
        let done = self.take_portions(&mut written);
        if done.is_err() {
            self.stopped.store(true, Ordering::Relaxed);
        }
        self.written.lock().unwrap_or_else(PoisonError::into_inner).append(&mut written);
        done
    }

    fn take_portions(&self, written: &mut Vec<(usize, Vec<StatData>)>) -> io::Result<()> {
        let mut objects = Objects::open(self.blank.common, self.packs)?;
        while !self.stopped.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(portion) = self.portions.get(number) else { break };
            let items = &self.plan.items[portion.clone()];
            let folder = self.open_folder(items[0].folder)?;
            let mut stats = Vec::with_capacity(items.len());
            for item in items {
                let stat =
                    write_item(item, &folder, &mut objects).map_err(|error| with_path(&error, item))?;
                stats.push(StatData::of(&stat));
            }
            written.push((number, stats));
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

fn with_path(error: &io::Error, item: &Item) -> io::Error {
    let path = Path::new(OsStr::from_bytes(&item.path));
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
