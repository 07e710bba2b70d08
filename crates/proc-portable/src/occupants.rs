//! Finds the processes that have their working directory inside a directory.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use sexton_core::ProbeError;
use sexton_core::probe::Occupants;

use crate::look::{Inspection, Seen, for_each_listing, inspect};
use crate::sweep::{SWEEP_LIMIT, too_many_forks};
use crate::{PortableProbe, failed};

/// Suffix that Linux appends to the path of a removed directory.
const DELETED: &[u8] = b" (deleted)";
/// Init belongs to the system and uses no worktree.
const INIT: u32 = 1;
/// How long a process may take to exit after it gave up its directory.
const EXIT_LIMIT: Duration = Duration::from_millis(100);
const EXIT_PAUSE: Duration = Duration::from_millis(2);

impl PortableProbe {
    pub(crate) fn find_occupants(&self, dir: &Path) -> Result<Occupants, ProbeError> {
        let search = || -> io::Result<Occupants> {
            let directory = resolve(dir)?;
            let mut occupants = Occupants::default();
            let complete = for_each_listing(&self.here, Instant::now() + SWEEP_LIMIT, |listed| {
                for seen in listed {
                    match self.find_place(&seen)? {
                        Place::Known(cwd) if contains(&directory, &cwd) => {
                            occupants.processes.push(seen.identity);
                        }
                        Place::Unreadable => occupants.unreadable.push(seen.pid()),
                        Place::Known(_) | Place::Nowhere => {}
                    }
                }
                Ok(())
            })?;
            if complete { Ok(occupants) } else { Err(too_many_forks()) }
        };
        search().map_err(|error| failed(&format!("searching for processes inside {}", dir.display()), error))
    }

    /// Returns the directory of a process. An exiting process has already given up its directory: it is
    /// checked again for a while before it counts as unreadable.
    fn find_place(&self, seen: &Seen) -> io::Result<Place> {
        if let Some(cwd) = &seen.cwd {
            return Ok(Place::Known(cwd.clone()));
        }
        // Processes of other users do not count, or an ordinary user could never remove a worktree.
        if !seen.is_our_users() || seen.pid() == INIT {
            return Ok(Place::Nowhere);
        }
        let begun = Instant::now();
        while begun.elapsed() < EXIT_LIMIT {
            match inspect(&self.here, seen.pid())? {
                Inspection::Alive(again) => match again.cwd {
                    Some(cwd) => return Ok(Place::Known(cwd)),
                    None => thread::sleep(EXIT_PAUSE),
                },
                Inspection::Absent => return Ok(Place::Nowhere),
                Inspection::Hidden => return Ok(Place::Unreadable),
            }
        }
        Ok(Place::Unreadable)
    }
}

enum Place {
    Known(PathBuf),
    Unreadable,
    Nowhere,
}

/// Returns the real path of a directory, even of a removed one.
fn resolve(dir: &Path) -> io::Result<PathBuf> {
    match dir.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = std::path::absolute(dir)?;
            let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
            Ok(match parent.zip(path.file_name()) {
                Some((parent, name)) => parent.join(name),
                None => path,
            })
        }
        result => result,
    }
}

fn contains(directory: &Path, cwd: &Path) -> bool {
    let stripped = cwd.as_os_str().as_bytes().strip_suffix(DELETED).map(OsStr::from_bytes);
    cwd.starts_with(directory) || stripped.is_some_and(|cwd| Path::new(cwd).starts_with(directory))
}
