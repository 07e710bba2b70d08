//! Who has a working directory inside a directory.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use sexton_core::ProbeError;
use sexton_core::probe::Occupants;

use crate::look::{Glance, Seen, for_each_program, look_at};
use crate::sweep::{LOOK_LIMIT, too_many_forks};
use crate::{PortableProbe, failed};

/// What Linux appends to the name of a directory that was removed.
const DELETED: &[u8] = b" (deleted)";
/// The first process is the machine's, not a user's, and is in nobody's directory.
const INIT: u32 = 1;
/// How long a process may take to end after it gave up its directory.
const ENDING_LIMIT: Duration = Duration::from_millis(100);
const ENDING_PAUSE: Duration = Duration::from_millis(2);

impl PortableProbe {
    pub(crate) fn find_occupants(&self, dir: &Path) -> Result<Occupants, ProbeError> {
        let look = || -> io::Result<Occupants> {
            let yard = resolve(dir)?;
            let mut occupants = Occupants::default();
            let complete = for_each_program(&self.here, Instant::now() + LOOK_LIMIT, |seen| {
                match self.find_place(&seen)? {
                    Place::Known(cwd) if contains(&yard, &cwd) => occupants.processes.push(seen.identity),
                    Place::Unreadable => occupants.unreadable.push(seen.pid()),
                    Place::Known(_) | Place::Nowhere => {}
                }
                Ok(())
            })?;
            if complete { Ok(occupants) } else { Err(too_many_forks()) }
        };
        look().map_err(|error| failed(&format!("looking for processes inside {}", dir.display()), error))
    }

    /// Where a process is. One that is ending has given up its directory already: it is looked at again
    /// for a while before it counts as unreadable.
    fn find_place(&self, seen: &Seen) -> io::Result<Place> {
        if let Some(cwd) = &seen.cwd {
            return Ok(Place::Known(cwd.clone()));
        }
        // Those of other users do not count, or an ordinary user could never clean anything.
        if !seen.is_our_users() || seen.pid() == INIT {
            return Ok(Place::Nowhere);
        }
        let begun = Instant::now();
        while begun.elapsed() < ENDING_LIMIT {
            match look_at(&self.here, seen.pid())? {
                Glance::Alive(again) => match again.cwd {
                    Some(cwd) => return Ok(Place::Known(cwd)),
                    None => thread::sleep(ENDING_PAUSE),
                },
                Glance::Nobody => return Ok(Place::Nowhere),
                Glance::Hidden => return Ok(Place::Unreadable),
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

/// The real path of a directory, also of one that was removed.
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

fn contains(yard: &Path, cwd: &Path) -> bool {
    let stripped = cwd.as_os_str().as_bytes().strip_suffix(DELETED).map(OsStr::from_bytes);
    cwd.starts_with(yard) || stripped.is_some_and(|cwd| Path::new(cwd).starts_with(yard))
}
