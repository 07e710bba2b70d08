//! Named locks between threads that behave like the kernel's between processes.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use sexton_core::StoreError;
use sexton_core::store::{LockGuard, LockName};

/// The locks of one fake store.
#[derive(Clone, Default)]
pub(super) struct Locks(Arc<Table>);

#[derive(Default)]
struct Table {
    held: Mutex<BTreeSet<LockName>>,
    released: Condvar,
}

impl Locks {
    /// Takes the lock `name`, waiting at most `wait`.
    pub(super) fn acquire(&self, name: &LockName, wait: Duration) -> Result<LockGuard, StoreError> {
        let held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.released.wait_timeout_while(held, wait, |held| held.contains(name));
        let (mut held, _) = waited.unwrap_or_else(PoisonError::into_inner);
        // A timeout of the wait does not mean that the lock is still held.
        if !held.insert(name.clone()) {
            return Err(StoreError::LockTimeout { name: name.as_str().to_owned(), waited: wait });
        }
        Ok(LockGuard::new(Held { name: name.clone(), table: Arc::clone(&self.0) }))
    }
}

/// Releases its lock when it is dropped.
struct Held {
    name: LockName,
    table: Arc<Table>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.table.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
        self.table.released.notify_all();
    }
}
