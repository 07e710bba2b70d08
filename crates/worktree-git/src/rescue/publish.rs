//! The ref of a rescue. It is written durably and by git's own rules for a loose ref, so that a concurrent
//! `git pack-refs` or `git gc` cannot lose it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use git2::{Oid, Repository};
use sexton_core::{SessionId, WorktreeError};
use sexton_durable::{FileLock, SMALL_FILE, read_regular, sync_all, sync_parent};

use crate::every_ref;
use crate::fault::failed;

/// How long to wait for another git process that holds the ref.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the full name of the ref of a session's rescue.
pub(crate) fn reference_of(session: &SessionId) -> String {
    format!("refs/sexton/rescue/{session}")
}

/// Takes the lock that is required to change a repository's rescues and to delete branches of sessions.
pub(crate) fn lock(common: &Path) -> Result<FileLock, WorktreeError> {
    let path = common.join("sexton-rescues.lock");
    FileLock::acquire(&path).map_err(|error| failed("locking", &path, error))
}

/// Returns the commit of a session's rescue; `None` if there is none.
pub(crate) fn find(repository: &Repository, session: &SessionId) -> Result<Option<Oid>, git2::Error> {
    match repository.find_reference(&reference_of(session)) {
        Ok(reference) => Ok(Some(reference.peel_to_commit()?.id())),
        Err(error) if error.code() == git2::ErrorCode::NotFound => {
            // If an unreadable ref were treated as absent, an earlier rescue would be replaced.
            match every_ref::find_one(repository.commondir(), reference_of(session).as_bytes()) {
                Ok(None) => Ok(None),
                Ok(Some(_)) => Err(error),
                Err(error) => Err(git2::Error::from_str(&format!("cannot read its rescue: {error}"))),
            }
        }
        Err(error) => Err(error),
    }
}

/// Points a session's rescue at `commit`, durably. The caller must hold the lock.
pub(crate) fn point(common: &Path, session: &SessionId, commit: Oid, _lock: &FileLock) -> io::Result<()> {
    let path = common.join(reference_of(session));
    let held = hold(&path, commit)?;
    fs::rename(&held.lock, &path)?;
    sync_parent(&path)
}

/// A ref that is locked against other processes.
struct Held {
    lock: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Already gone if it was renamed to the ref.
        let _ = fs::remove_file(&self.lock);
    }
}

/// Creates git's lock file with the new value in it. The lock file appears with its complete content, so a
/// lock file that contains a value was left by a killed rescue: no other program sets these refs, and
/// Sexton's rescues run one at a time.
fn hold(path: &Path, commit: Oid) -> io::Result<Held> {
    let directory = path.parent().expect("a ref is in a directory");
    let name = path.file_name().expect("a ref has a name").to_string_lossy().into_owned();
    let lock = directory.join(format!("{name}.lock"));
    let begun = Instant::now();
    loop {
        // git deletes directories of refs when they are empty.
        create_shared_dir(directory)?;
        // A file whose name starts with a dot is not a ref.
        let fresh = directory.join(format!(".{name}.new"));
        match write_synced(&fresh, commit) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && begun.elapsed() < LOCK_TIMEOUT => {
                continue;
            }
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
        } else if begun.elapsed() > LOCK_TIMEOUT {
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
    read_regular(lock, SMALL_FILE).is_ok_and(|content| content.len() == 41)
}

/// Creates the directories of a ref as git does, durably.
fn create_shared_dir(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(directory)?;
    missing.into_iter().rev().try_for_each(sync_parent)
}
