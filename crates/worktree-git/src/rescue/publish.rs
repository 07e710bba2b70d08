//! The ref that holds a rescue: written durably, by git's own rules for a loose ref, so that a `git
//! pack-refs` or `git gc` at the same moment cannot lose it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use git2::{Oid, Repository};
use sexton_core::{SessionId, WorktreeError};
use sexton_durable::{FileLock, sync_all, sync_parent};

use crate::every_ref;
use crate::fault::failed;

/// How long another git process may hold the ref.
const PATIENCE: Duration = Duration::from_secs(10);

/// The full name of a session's rescue.
pub(crate) fn reference_of(session: &SessionId) -> String {
    format!("refs/sexton/rescue/{session}")
}

/// Takes the lock under which a repository's rescues change, and branches of sessions go.
pub(crate) fn lock(common: &Path) -> Result<FileLock, WorktreeError> {
    let path = common.join("sexton-rescues.lock");
    FileLock::acquire(&path).map_err(|error| failed("locking", &path, error))
}

/// The commit that a session's rescue is; `None` where there is none.
pub(crate) fn find(repository: &Repository, session: &SessionId) -> Result<Option<Oid>, git2::Error> {
    match repository.find_reference(&reference_of(session)) {
        Ok(reference) => Ok(Some(reference.peel_to_commit()?.id())),
        Err(error) if error.code() == git2::ErrorCode::NotFound => {
            // Taken for none, an earlier rescue would be replaced.
            match every_ref::find_one(repository.commondir(), reference_of(session).as_bytes()) {
                Ok(None) => Ok(None),
                Ok(Some(_)) => Err(error),
                Err(error) => Err(git2::Error::from_str(&format!("its rescue cannot be read: {error}"))),
            }
        }
        Err(error) => Err(error),
    }
}

/// Points a session's rescue at `commit`, durably. Whoever holds the lock may.
pub(crate) fn point(common: &Path, session: &SessionId, commit: Oid, _lock: &FileLock) -> io::Result<()> {
    let path = common.join(reference_of(session));
    let held = hold(&path, commit)?;
    fs::rename(&held.lock, &path)?;
    sync_parent(&path)
}

/// A ref that nobody else changes.
struct Held {
    lock: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Gone already where it became the ref.
        let _ = fs::remove_file(&self.lock);
    }
}

/// Makes git's lock file, with the new value in it. It appears whole, so that one with a value in it is
/// known to be what a killed rescue left: nobody else sets these refs, and ours are serialised.
fn hold(path: &Path, commit: Oid) -> io::Result<Held> {
    let directory = path.parent().expect("a ref lies in a directory");
    let name = path.file_name().expect("a ref has a name").to_string_lossy().into_owned();
    let lock = directory.join(format!("{name}.lock"));
    let begun = Instant::now();
    loop {
        // git removes directories of refs that it finds empty.
        create_shared_dir(directory)?;
        // Files that begin with a dot are no refs.
        let fresh = directory.join(format!(".{name}.new"));
        match write_synced(&fresh, commit) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && begun.elapsed() < PATIENCE => continue,
            written => written?,
        }
        let linked = fs::hard_link(&fresh, &lock);
        let _ = fs::remove_file(&fresh);
        match linked {
            Ok(()) => return Ok(Held { lock }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        if is_ours(&lock) {
            let _ = fs::remove_file(&lock);
        } else if begun.elapsed() > PATIENCE {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("another git process holds {}", lock.display()),
            ));
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn write_synced(path: &Path, commit: Oid) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::create_new(path)?;
    writeln!(file, "{commit}")?;
    sync_all(&file)
}

fn is_ours(lock: &Path) -> bool {
    fs::read(lock).is_ok_and(|content| content.len() == 41)
}

/// Makes the directories of a ref as git would, and durable.
fn create_shared_dir(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(directory)?;
    missing.into_iter().rev().try_for_each(sync_parent)
}
