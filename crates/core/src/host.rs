//! Which machine a session belongs to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine. Two are the same only where both parts are: a cloned image shares its machine id, and
/// host names repeat across fleets. A session of another host is never judged here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The installation's identifier (`/etc/machine-id` on Linux).
    pub machine_id: String,
    /// The name the machine gives itself.
    pub hostname: String,
}

impl Host {
    /// The host of a record that names none, because its store has no place for one. Such a store belongs
    /// to the machine that it lies on, and so do the processes that it tells of.
    pub fn unnamed() -> Host {
        Host { machine_id: String::new(), hostname: String::new() }
    }

    /// Whether a record says nothing of its host.
    pub fn is_unnamed(&self) -> bool {
        *self == Host::unnamed()
    }

    /// Whether a session of this host can be judged on the host `here`.
    pub fn is_here(&self, here: &Host) -> bool {
        self == here || self.is_unnamed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_host_or_an_unnamed_one_is_here() {
        let host = |id: &str, name: &str| Host { machine_id: id.into(), hostname: name.into() };
        assert!(host("m", "h").is_here(&host("m", "h")));
        assert!(Host::unnamed().is_here(&host("m", "h")));
        assert!(!host("m", "other").is_here(&host("m", "h")));
        assert!(!host("", "h").is_here(&host("m", "h")));
    }
}
