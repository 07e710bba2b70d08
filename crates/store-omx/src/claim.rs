//! The writer locks: first the kernel lock of Sexton, then the lock file of oh-my-codex. Everything that
//! changes a file takes [`Held`], which only a claim returns, so that a call without the locks does not
//! compile.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sexton_core::StoreError;
use sexton_core::store::Durability;
use sexton_durable::FileLock;

use crate::dir::{Root, io_error};
use crate::foreign::{self, ForeignLock};
use crate::sidecar::{self, Meta, Sidecar};
use crate::witness::Witness;

/// The kernel lock, which is acquired first. With it, no two Sexton processes wait for the lock file at once,
/// and a lock file of Sexton that is found was left by a process that has exited.
pub(crate) const KERNEL_LOCK: &str = "lock";

/// How long a commit waits for the lock file: longer than oh-my-codex tolerates a stale one.
const COMMIT_WAIT: Duration = Duration::from_secs(15);

/// Both locks, held until it is dropped.
pub(crate) struct Claim {
    root: PathBuf,
    durability: Durability,
    witness: Witness,
    /// The lock file, released first. `None` briefly if another program broke it.
    foreign: Mutex<Option<ForeignLock>>,
    _kernel: FileLock,
}

/// A claim in use by one thread.
pub(crate) struct Held<'c> {
    claim: &'c Claim,
    foreign: MutexGuard<'c, Option<ForeignLock>>,
    /// The state directory.
    pub(crate) root: Root,
    /// Sexton's directory in it.
    pub(crate) sidecar: Sidecar,
    /// What a write must survive.
    pub(crate) durability: Durability,
}

impl Claim {
    /// Acquires both locks for a commit. There is no limit for the kernel lock, since its holder is working.
    pub(crate) fn acquire(root: &Path, durability: Durability) -> Result<Claim, StoreError> {
        sidecar::make_dirs(root)?;
        let path = sidecar::path_of(root, KERNEL_LOCK);
        let kernel = FileLock::acquire(&path).map_err(io_error("cannot lock", &path))?;
        Claim::with(root, durability, kernel, Instant::now() + COMMIT_WAIT)?
            .ok_or_else(|| timeout(COMMIT_WAIT))
    }

    /// Acquires both locks, waiting at most `wait` in total; `None` on timeout.
    pub(crate) fn acquire_within(
        root: &Path,
        durability: Durability,
        wait: Duration,
    ) -> Result<Option<Claim>, StoreError> {
        let deadline = Instant::now() + wait;
        sidecar::make_dirs(root)?;
        let path = sidecar::path_of(root, KERNEL_LOCK);
        match FileLock::acquire_within(&path, wait).map_err(io_error("cannot lock", &path))? {
            Some(kernel) => Claim::with(root, durability, kernel, deadline),
            None => Ok(None),
        }
    }

    fn with(
        path: &Path,
        durability: Durability,
        kernel: FileLock,
        deadline: Instant,
    ) -> Result<Option<Claim>, StoreError> {
        let root = require_root(path)?;
        if let Some(meta) = Meta::find(&root)? {
            meta.require_known(path)?;
        }
        let sidecar = Sidecar::open(&root)?;
        sidecar.sweep(path);
        let witness = Witness::open();
        let foreign = lock_foreign(&root, &sidecar, &witness, deadline)?;
        Ok(foreign.map(|foreign| Claim {
            root: path.to_owned(),
            durability,
            witness,
            foreign: Mutex::new(Some(foreign)),
            _kernel: kernel,
        }))
    }

    /// Enters the claim for one operation.
    pub(crate) fn enter(&self) -> Result<Held<'_>, StoreError> {
        // A panic leaves no inconsistent state: there is a lock, or none.
        let foreign = self.foreign.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let root = require_root(&self.root)?;
        let sidecar = Sidecar::open(&root)?;
        let mut held = Held { claim: self, foreign, root, sidecar, durability: self.durability };
        held.secure()?;
        Ok(held)
    }
}

impl Held<'_> {
    /// Acquires the lock file again if another program broke it meanwhile: this process may have been
    /// suspended for longer than oh-my-codex tolerates.
    pub(crate) fn secure(&mut self) -> Result<(), StoreError> {
        if self.is_secure() {
            return Ok(());
        }
        *self.foreign = None;
        let deadline = Instant::now() + COMMIT_WAIT;
        let again = lock_foreign(&self.root, &self.sidecar, &self.claim.witness, deadline)?;
        *self.foreign = Some(again.ok_or_else(|| timeout(COMMIT_WAIT))?);
        Ok(())
    }

    /// Returns whether this process still holds the lock file.
    pub(crate) fn is_secure(&self) -> bool {
        self.foreign.as_ref().is_some_and(|foreign| foreign.is_held(&self.root))
    }
}

fn lock_foreign(
    root: &Root,
    sidecar: &Sidecar,
    witness: &Witness,
    deadline: Instant,
) -> Result<Option<ForeignLock>, StoreError> {
    let lock = ForeignLock::acquire(root, sidecar, witness, deadline);
    lock.map_err(io_error("cannot lock", &root.path.join(foreign::NAME)))
}

fn require_root(path: &Path) -> Result<Root, StoreError> {
    let gone = || io_error("cannot open", path)(std::io::ErrorKind::NotFound.into());
    Root::find(path)?.ok_or_else(gone)
}

fn timeout(waited: Duration) -> StoreError {
    StoreError::LockTimeout { name: foreign::NAME.to_owned(), waited }
}
