//! Who has a working directory inside a directory.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sexton_core::ProbeError;
use sexton_core::probe::Occupants;

use crate::look::{Glance, Seen, for_each_program, look_at};
use crate::sweep::{LOOK_LIMIT, too_many_forks};
use crate::{PortableProbe, failed};

/// What Linux appends to the name of a directory that was removed.
const DELETED: &[u8] = b" (deleted)";
/// The first process is the machine's, not a user's, and is in nobody's directory.
const INIT: u32 = 1;

impl PortableProbe {
    pub(crate) fn find_occupants(&self, dir: &Path) -> Result<Occupants, ProbeError> {
        let look = || -> io::Result<Occupants> {
            let yard = resolve(dir)?;
            let mut occupants = Occupants::default();
            let complete = for_each_program(&self.here, Instant::now() + LOOK_LIMIT, |seen| {
                match self.find_cwd(&seen)? {
                    Some(cwd) if contains(&yard, &cwd) => occupants.processes.push(seen.identity),
                    None if seen.is_our_users() && seen.pid() != INIT && self.is_there(&seen)? => {
                        occupants.unreadable.push(seen.pid());
                    }
                    _ => {}
                }
                Ok(())
            })?;
            if complete { Ok(occupants) } else { Err(too_many_forks()) }
        };
        look().map_err(|error| failed(&format!("looking for processes inside {}", dir.display()), error))
    }

    /// The working directory; one that is on its way out has none any more, so a second look decides.
    fn find_cwd(&self, seen: &Seen) -> io::Result<Option<PathBuf>> {
        if seen.cwd.is_some() {
            return Ok(seen.cwd.clone());
        }
        Ok(match look_at(&self.here, seen.pid())? {
            Glance::Alive(again) => again.cwd,
            Glance::Nobody | Glance::Hidden => None,
        })
    }

    fn is_there(&self, seen: &Seen) -> io::Result<bool> {
        Ok(!matches!(look_at(&self.here, seen.pid())?, Glance::Nobody))
    }
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
