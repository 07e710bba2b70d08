//! Control groups (v2), which contain a session's processes whatever they do.
//!
//! Every operation opens the group's directory for that one call and compares its inode with the recorded
//! one, because the path can later name another group. No descriptor is kept: there can be more sessions than
//! this program may have open files. Sessions' groups are siblings, never nested: killing one must not reach
//! another.

mod place;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use sexton_core::probe::{Contained, Limits};
use sexton_core::session;
use sexton_core::{SessionId, Time};

pub use place::find_base;
#[cfg(fuzzing)]
pub(crate) use place::parse_place;
pub(crate) use place::{PREFIX, find_mount};

const CGROUP2_SUPER_MAGIC: i64 = 0x6367_7270;
/// Maximum depth of the groups that a command creates inside its session's group.
const MAX_DEPTH: usize = 64;

/// A session's control group.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    inode: u64,
}

impl Cgroup {
    /// Creates the empty group of a session; fails if it exists.
    pub fn create(session: &SessionId) -> io::Result<Cgroup> {
        let path = find_base()?.join(format!("{}{session}", place::PREFIX));
        rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755))?;
        Cgroup::open(&path)?
            .ok_or_else(|| io::Error::other("the control group disappeared while it was created"))
    }

    /// Returns the group that [`create`](Cgroup::create) made for a session, or `None` if there is none.
    pub fn find_of(session: &SessionId) -> io::Result<Option<Cgroup>> {
        Cgroup::open(&find_base()?.join(format!("{}{session}", place::PREFIX)))
    }

    /// Opens a recorded group; returns `None` if it is gone or another group has its path.
    pub fn find(recorded: &session::Cgroup) -> io::Result<Option<Cgroup>> {
        if sexton_mutant::is("no_container_search") {
            return Ok(None);
        }
        Ok(Cgroup::open(recorded.path.as_path())?.filter(|found| found.inode == recorded.inode))
    }

    /// Returns whether a recorded group provably holds no process: it is empty, or it was removed, which is
    /// possible only for an empty group.
    pub(crate) fn is_vacated(recorded: &session::Cgroup) -> io::Result<bool> {
        if let Some(group) = Cgroup::find(recorded)? {
            match group.is_populated() {
                Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NODEV)) => {}
                populated => return Ok(!populated?),
            }
        }
        // Where the file system of control groups is not mounted, a missing path proves nothing.
        let path = recorded.path.as_path();
        match path.parent() {
            Some(above) => Ok(Cgroup::open(above)?.is_some() && Cgroup::find(recorded)?.is_none()),
            None => Ok(false),
        }
    }

    /// Opens the group at `path`, whatever its inode; returns `None` if there is none.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Cgroup>> {
        Ok(open(path)?.map(|(inode, _)| Cgroup { path: path.to_owned(), inode }))
    }

    /// Returns what the session's record stores about the group.
    pub fn to_record(&self) -> session::Cgroup {
        let extra = serde_json::Map::new();
        session::Cgroup { path: self.path.as_path().into(), inode: self.inode, extra }
    }

    /// Returns the containment of the session that this group holds.
    pub(crate) fn into_contained(self) -> io::Result<Contained> {
        Ok(Contained { cgroup: self.to_record(), directory: self.require_dir()? })
    }

    /// Moves a process into the group, with all its threads.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Returns every process in the group and in the groups below it.
    pub fn load_processes(&self) -> io::Result<Vec<u32>> {
        let mut processes = Vec::new();
        if let Some(dir) = self.open_dir()? {
            collect_processes(dir.as_fd(), &mut processes, MAX_DEPTH)?;
        }
        Ok(processes)
    }

    /// Returns whether the group or a group below it holds a process.
    fn is_populated(&self) -> io::Result<bool> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut events = String::new();
        let file = rustix::fs::openat(self.require_dir()?, "cgroup.events", flags, Mode::empty())?;
        File::from(file).read_to_string(&mut events)?;
        Ok(!events.lines().any(|line| line == "populated 0"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Kills every process in the group at once, including those being forked at that moment (Linux 5.14).
    pub fn kill(&self) -> io::Result<()> {
        self.write("cgroup.kill", "1")
    }

    /// Limits the total memory of its processes.
    pub fn set_memory_max(&self, bytes: u64) -> io::Result<()> {
        self.limit("memory", "memory.max", bytes)
    }

    /// Limits the number of its processes and threads.
    pub fn set_pids_max(&self, count: u64) -> io::Result<()> {
        self.limit("pids", "pids.max", count)
    }

    /// Removes the group; returns `false` if it is not empty.
    pub fn remove(&self) -> io::Result<bool> {
        let Some(dir) = self.open_dir()? else { return Ok(true) };
        match remove_below(dir.as_fd(), MAX_DEPTH) {
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
        // The file appears once the parent group delegates the controller.
        let above = rustix::fs::openat(self.require_dir()?, "..", DIRECTORY, Mode::empty())?;
        let delegated = write_at(above.as_fd(), "cgroup.subtree_control", &format!("+{controller}"));
        delegated.and_then(|()| self.write(file, &value.to_string())).map_err(|error| {
            let why =
                format!("the {controller} controller is not available for control groups here: {error}");
            io::Error::new(io::ErrorKind::Unsupported, why)
        })
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        write_at(self.require_dir()?.as_fd(), file, text)
    }

    /// Opens its directory; returns `None` if it is gone or another group has its path.
    fn open_dir(&self) -> io::Result<Option<OwnedFd>> {
        Ok(open(&self.path)?.filter(|(inode, _)| *inode == self.inode).map(|(_, dir)| dir))
    }

    fn require_dir(&self) -> io::Result<OwnedFd> {
        self.open_dir()?.ok_or_else(|| Errno::NOENT.into())
    }
}

/// Creates the group of a session with its limits; on an error, leaves no group behind.
pub(crate) fn contain(session: &SessionId, limits: &Limits) -> io::Result<Contained> {
    let group = Cgroup::create(session)?;
    let limited = limits
        .memory_max
        .map_or(Ok(()), |bytes| group.set_memory_max(bytes))
        .and_then(|()| limits.pids_max.map_or(Ok(()), |count| group.set_pids_max(count)));
    match limited {
        Ok(()) => group.into_contained(),
        Err(error) => {
            // It is still empty.
            let _ = group.remove();
            Err(error)
        }
    }
}

/// Returns this user's session groups in `directory` that hold no process and were created before
/// `made_before`.
pub(crate) fn find_empty(directory: &Path, made_before: Time) -> io::Result<Vec<Cgroup>> {
    let mut found = Vec::new();
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(metadata) = entry.metadata() else { continue };
        let made_at = i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec());
        if !metadata.is_dir() || metadata.uid() != own || made_at >= made_before.as_nanoseconds().into() {
            continue;
        }
        let group = Cgroup::open(&entry.path())?;
        found.extend(group.filter(|group| group.is_populated().is_ok_and(|populated| !populated)));
    }
    Ok(found)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens the group at `path` and returns its inode.
fn open(path: &Path) -> io::Result<Option<(u64, OwnedFd)>> {
    let dir = match rustix::fs::openat(CWD, path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if rustix::fs::fstatfs(&dir)?.f_type as i64 != CGROUP2_SUPER_MAGIC {
        return Ok(None);
    }
    let inode = rustix::fs::fstat(&dir)?.st_ino;
    Ok(Some((inode, dir)))
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
        // Removed meanwhile; or threaded, in which case the parent group lists its processes.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NODEV | Errno::OPNOTSUPP)) => {}
        Err(error) => return Err(error),
    }
    // A process outside our pid namespace is listed as 0.
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
