//! The resource limits that a supervisor inherits from its user's shell and must survive.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Resources that the supervisor may need more of than its command may have: file size (for the store) and
/// CPU time.
const RAISED: [Resource; 2] = [Resource::Fsize, Resource::Cpu];

/// Twice the size of SQLite's WAL index.
const ENOUGH_TO_RECORD: u64 = 64 * 1024;

/// The limits of this process before it raised them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InheritedLimits([Rlimit; RAISED.len()]);

impl InheritedLimits {
    /// Raises every soft limit to its hard one. Raising hard limits needs a privilege and is not tried.
    pub(crate) fn raise() -> InheritedLimits {
        InheritedLimits(RAISED.map(|resource| {
            let inherited = getrlimit(resource);
            // Should not fail; if it does, the limit stays.
            let _ = setrlimit(resource, Rlimit { current: inherited.maximum, ..inherited });
            inherited
        }))
    }

    /// Returns the maximum file size if it is too small to record an end: opening a store needs a few pages,
    /// and an exit file a few hundred bytes.
    pub(crate) fn too_small_to_record(&self) -> Option<u64> {
        self.0[0].maximum.filter(|hard| *hard < ENOUGH_TO_RECORD)
    }

    /// Restores the limits, for the program that this process is about to execute. Allocates nothing.
    pub(crate) fn restore(&self) {
        for (resource, inherited) in RAISED.into_iter().zip(self.0) {
            let _ = setrlimit(resource, inherited);
        }
    }
}
