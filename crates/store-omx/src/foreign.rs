//! The lock of oh-my-codex: a directory that its holder creates, with a file `owner` in it.
//!
//! oh-my-codex judges a lock by its age: after ten seconds any process may break it. A lock of Sexton names
//! its process and is broken only if that process is proved to be gone. While Sexton is suspended,
//! oh-my-codex may break its lock; so a writer checks immediately before writing that it still holds the
//! lock.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fstat, mkdirat, openat, renameat, renameat_with, statat,
};
use rustix::io::Errno;

use crate::dir::{Content, Root, read_file, require_dir};
use crate::sidecar::{Sidecar, TEMPORARY, path_of};
use crate::witness::{Owner, Witness};

/// The lock directory.
pub(crate) const NAME: &str = ".lock.ralph-session-resume";
/// The file in it.
const OWNER: &str = "owner";
/// The interval between attempts.
const RETRY: Duration = Duration::from_millis(25);
/// The age at which oh-my-codex considers a lock stale.
pub(crate) const STALE: Duration = Duration::from_secs(10);

/// The lock, held.
#[derive(Debug)]
pub(crate) struct ForeignLock {
    root: PathBuf,
    owner: Owner,
}

/// A lock that another process holds.
struct Found {
    /// The inode of the directory.
    inode: u64,
    holder: Holder,
}

enum Holder {
    Us(Box<Owner>),
    Them { since: SystemTime },
}

impl ForeignLock {
    /// Acquires the lock, trying until `deadline`; `None` if another process still holds it then.
    pub(crate) fn acquire(
        root: &Root,
        sidecar: &Sidecar,
        witness: &Witness,
        deadline: Instant,
    ) -> io::Result<Option<ForeignLock>> {
        let owner = witness.new_owner();
        loop {
            let taken = match find(&root.fd)? {
                None => !make(root, sidecar, &owner)?,
                Some(found) if found.may_be_broken(witness) => {
                    remove_lock(root, sidecar, found.inode)?;
                    !make(root, sidecar, &owner)?
                }
                Some(_) => true,
            };
            if !taken {
                return Ok(Some(ForeignLock { root: root.path.clone(), owner }));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(RETRY.min(left));
        }
    }

    /// Returns whether the lock was not broken.
    pub(crate) fn is_held(&self, root: &Root) -> bool {
        self.find_own(root).is_some()
    }

    fn find_own(&self, root: &Root) -> Option<u64> {
        let found = find(&root.fd).ok().flatten()?;
        matches!(&found.holder, Holder::Us(owner) if **owner == self.owner).then_some(found.inode)
    }

    fn release(&self) -> io::Result<()> {
        let Ok(Some(root)) = Root::find(&self.root) else { return Ok(()) };
        let Ok(sidecar) = Sidecar::open(&root) else { return Ok(()) };
        match self.find_own(&root) {
            Some(inode) => remove_lock(&root, &sidecar, inode),
            None => Ok(()),
        }
    }
}

impl Drop for ForeignLock {
    fn drop(&mut self) {
        // A lock that cannot be released is broken by the next process once this one has exited.
        let _ = self.release();
    }
}

impl Found {
    fn may_be_broken(&self, witness: &Witness) -> bool {
        match &self.holder {
            Holder::Us(owner) => witness.is_gone(&owner.process),
            Holder::Them { since } => since.elapsed().is_ok_and(|age| age > STALE),
        }
    }
}

/// Creates the lock together with its owner, atomically: a lock without an owner would block others until it
/// is stale. Returns whether it was free.
fn make(root: &Root, sidecar: &Sidecar, owner: &Owner) -> io::Result<bool> {
    let name = temporary_name("lock");
    mkdirat(&sidecar.temporary, name.as_str(), Mode::RWXU)?;
    let staged = require_dir(&sidecar.temporary, &name)?;
    write_owner(&staged, owner)?;
    match renameat_with(&sidecar.temporary, name.as_str(), &root.fd, NAME, RenameFlags::NOREPLACE) {
        Ok(()) => return Ok(true),
        Err(Errno::EXIST) => {}
        // The file system does not support this: the owner is written afterwards, as oh-my-codex does.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            discard(root, &name);
            return make_in_two_steps(root, owner);
        }
        Err(error) => {
            discard(root, &name);
            return Err(error.into());
        }
    }
    discard(root, &name);
    Ok(false)
}

fn make_in_two_steps(root: &Root, owner: &Owner) -> io::Result<bool> {
    match mkdirat(&root.fd, NAME, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    require_dir(&root.fd, NAME).and_then(|lock| write_owner(&lock, owner))?;
    Ok(true)
}

fn write_owner(lock: &OwnedFd, owner: &Owner) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(lock, OWNER, flags, Mode::RUSR | Mode::WUSR)?;
    fs::File::from(file).write_all(&serde_json::to_vec(owner)?)
}

/// Returns the holder of the lock; `None` if it is free.
fn find(root: &OwnedFd) -> io::Result<Option<Found>> {
    let lock = match require_dir(root, NAME) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = fstat(&lock)?;
    let holder = match read_file(&lock, OWNER) {
        Content::Text(text) => serde_json::from_slice(&text.bytes).ok().map(Holder::Us),
        Content::Absent(_) | Content::Unreadable(_) => None,
    };
    let seconds = Duration::new(
        u64::try_from(found.st_mtime).unwrap_or_default(),
        u32::try_from(found.st_mtime_nsec).unwrap_or_default(),
    );
    let since = SystemTime::UNIX_EPOCH + seconds;
    Ok(Some(Found { inode: found.st_ino, holder: holder.unwrap_or(Holder::Them { since }) }))
}

/// Removes the lock with `inode`: it is renamed first, so that it is free at once and never without its
/// owner. If it is another lock by then, it is put back.
fn remove_lock(root: &Root, sidecar: &Sidecar, inode: u64) -> io::Result<()> {
    let name = temporary_name("gone");
    match renameat(&root.fd, NAME, &sidecar.temporary, name.as_str()) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let taken = statat(&sidecar.temporary, name.as_str(), AtFlags::SYMLINK_NOFOLLOW)?;
    if taken.st_ino != inode
        && renameat_with(&sidecar.temporary, name.as_str(), &root.fd, NAME, RenameFlags::NOREPLACE).is_ok()
    {
        return Ok(());
    }
    discard(root, &name);
    Ok(())
}

fn discard(root: &Root, name: &str) {
    // Leftovers are removed with the other temporary files.
    let _ = fs::remove_dir_all(path_of(&root.path, TEMPORARY).join(Path::new(name)));
}

/// Returns a name that no other process and no other thread of this process uses.
pub(crate) fn temporary_name(kind: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
