//! Control groups (v2): a place that holds a session's processes, whatever they do.
//!
//! A group is always worked with through an open directory whose inode is compared with the recorded one,
//! because a path can name another group tomorrow. Sessions' groups are siblings, never nested: ending
//! one must not reach into another.

mod place;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use sexton_core::SessionId;
use sexton_core::probe::{Contained, Limits};
use sexton_core::session;

pub use place::find_base;
#[cfg(fuzzing)]
pub(crate) use place::parse_place;

const CGROUP2_SUPER_MAGIC: i64 = 0x6367_7270;
/// Groups inside of a session's own, made by its command, are not deeper than this.
const MAX_DEPTH: usize = 64;

/// A session's control group, open.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    inode: u64,
    dir: OwnedFd,
}

impl Cgroup {
    /// Makes the group of a session, empty. It is an error where there is one already.
    pub fn create(session: &SessionId) -> io::Result<Cgroup> {
        let path = find_base()?.join(format!("{}{session}", place::PREFIX));
        rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755))?;
        open(&path)?.ok_or_else(|| io::Error::other("a control group vanished while it was made"))
    }

    /// The group that [`create`](Cgroup::create) made for a session; `None` where there is none.
    pub fn find_of(session: &SessionId) -> io::Result<Option<Cgroup>> {
        open(&find_base()?.join(format!("{}{session}", place::PREFIX)))
    }

    /// Opens a recorded group; `None` where it is gone, or another has its path.
    pub fn find(recorded: &session::Cgroup) -> io::Result<Option<Cgroup>> {
        Ok(open(recorded.path.as_path())?.filter(|found| found.inode == recorded.inode))
    }

    /// What a session's record keeps of it.
    pub fn to_record(&self) -> session::Cgroup {
        let extra = serde_json::Map::new();
        session::Cgroup { path: self.path.as_path().into(), inode: self.inode, extra }
    }

    /// Moves a process into the group, with all its threads.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Every process in the group and in those below it.
    pub fn load_processes(&self) -> io::Result<Vec<u32>> {
        let mut processes = Vec::new();
        collect_processes(self.dir.as_fd(), &mut processes, MAX_DEPTH)?;
        Ok(processes)
    }

    /// Ends every process in it at once, also those that are being forked this very moment (Linux 5.14).
    pub fn kill(&self) -> io::Result<()> {
        self.write("cgroup.kill", "1")
    }

    /// Limits the memory of all its processes together.
    pub fn set_memory_max(&self, bytes: u64) -> io::Result<()> {
        self.limit("memory", "memory.max", bytes)
    }

    /// Limits how many processes and threads there are in it.
    pub fn set_pids_max(&self, count: u64) -> io::Result<()> {
        self.limit("pids", "pids.max", count)
    }

    /// Removes the group; `false` where something is still in it.
    pub fn remove(&self) -> io::Result<bool> {
        match remove_below(self.dir.as_fd(), MAX_DEPTH) {
            Ok(()) => {}
            Err(Errno::BUSY) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        if Cgroup::find(&self.to_record())?.is_none() {
            return Ok(true);
        }
        match rustix::fs::unlinkat(CWD, &self.path, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::BUSY) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn limit(&self, controller: &str, file: &str, value: u64) -> io::Result<()> {
        match self.write(file, &value.to_string()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
        // The file appears once the group above hands the controller down.
        let above = rustix::fs::openat(&self.dir, "..", DIRECTORY, Mode::empty())?;
        let handed_down = write_at(above.as_fd(), "cgroup.subtree_control", &format!("+{controller}"));
        handed_down.and_then(|()| self.write(file, &value.to_string())).map_err(|error| {
            let why = format!("the {controller} controller cannot be used in control groups here: {error}");
            io::Error::new(io::ErrorKind::Unsupported, why)
        })
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        write_at(self.dir.as_fd(), file, text)
    }
}

/// Makes the group of a session with its limits, or nothing at all.
pub(crate) fn contain(session: &SessionId, limits: &Limits) -> io::Result<Contained> {
    let group = Cgroup::create(session)?;
    let limited = limits
        .memory_max
        .map_or(Ok(()), |bytes| group.set_memory_max(bytes))
        .and_then(|()| limits.pids_max.map_or(Ok(()), |count| group.set_pids_max(count)));
    match limited {
        Ok(()) => Ok(Contained { cgroup: group.to_record(), directory: group.dir }),
        Err(error) => {
            // Nobody is in it yet.
            let _ = group.remove();
            Err(error)
        }
    }
}

/// For `clone3` with `CLONE_INTO_CGROUP`.
impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn open(path: &Path) -> io::Result<Option<Cgroup>> {
    let dir = match rustix::fs::openat(CWD, path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if rustix::fs::fstatfs(&dir)?.f_type as i64 != CGROUP2_SUPER_MAGIC {
        return Ok(None);
    }
    let inode = rustix::fs::fstat(&dir)?.st_ino;
    Ok(Some(Cgroup { path: path.to_owned(), inode, dir }))
}

fn write_at(dir: BorrowedFd<'_>, file: &str, text: &str) -> io::Result<()> {
    let file = rustix::fs::openat(dir, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    File::from(file).write_all(text.as_bytes())
}

fn collect_processes(dir: BorrowedFd<'_>, processes: &mut Vec<u32>, depth: usize) -> io::Result<()> {
    let mut text = String::new();
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, "cgroup.procs", flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NODEV) => return Ok(()), // removed meanwhile
        Err(errno) => return Err(errno.into()),
    };
    match File::from(file).read_to_string(&mut text) {
        Ok(_) => {}
        // Removed meanwhile; or threaded, and then the group above lists its processes.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NODEV | Errno::OPNOTSUPP)) => {}
        Err(error) => return Err(error),
    }
    // A process outside of our namespace is listed as 0.
    processes.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid != 0));
    if depth == 0 {
        return Ok(());
    }
    for below in open_below(dir)? {
        collect_processes(below.1.as_fd(), processes, depth - 1)?;
    }
    Ok(())
}

fn remove_below(dir: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
    if depth == 0 {
        return Ok(());
    }
    for (name, below) in open_below(dir)? {
        remove_below(below.as_fd(), depth - 1)?;
        match rustix::fs::unlinkat(dir, name.as_c_str(), AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn open_below(dir: BorrowedFd<'_>) -> Result<Vec<(std::ffi::CString, OwnedFd)>, Errno> {
    let mut below = Vec::new();
    let entries = match Dir::read_from(dir) {
        Ok(entries) => entries,
        Err(Errno::NOENT | Errno::NODEV) => return Ok(below),
        Err(errno) => return Err(errno),
    };
    for entry in entries {
        let entry = entry?;
        let is_other = entry.file_name().to_bytes().first() != Some(&b'.');
        if entry.file_type() == FileType::Directory && is_other {
            match rustix::fs::openat(dir, entry.file_name(), DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(fd) => below.push((entry.file_name().to_owned(), fd)),
                Err(Errno::NOENT | Errno::NODEV) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(below)
}
