//! Which machine a session belongs to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A machine. Two are the same only where both parts are: a cloned image shares its machine id, and
/// host names repeat across fleets. A session of another host is never judged here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The installation's identifier (`/etc/machine-id` on Linux).
    pub machine_id: String,
    /// The name the machine gives itself.
    pub hostname: String,
    /// Fields of a newer version, kept as they are. They tell no machine from another.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Host {
    /// The host of these two names.
    pub fn new(machine_id: impl Into<String>, hostname: impl Into<String>) -> Host {
        Host { machine_id: machine_id.into(), hostname: hostname.into(), extra: Map::new() }
    }

    /// The host of a record that names none, because its store has no place for one. Such a store belongs
    /// to the machine that it lies on, and so do the processes that it tells of.
    pub fn unnamed() -> Host {
        Host::new("", "")
    }

    /// Whether a record says nothing of its host.
    pub fn is_unnamed(&self) -> bool {
        self.is_same(&Host::unnamed())
    }

    /// Whether both are one machine.
    pub fn is_same(&self, other: &Host) -> bool {
        self.machine_id == other.machine_id && self.hostname == other.hostname
    }

    /// Whether a session of this host can be judged on the host `here`.
    pub fn is_here(&self, here: &Host) -> bool {
        self.is_same(here) || self.is_unnamed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_host_or_an_unnamed_one_is_here() {
        let here = Host::new("m", "h");
        assert!(Host::new("m", "h").is_here(&here));
        assert!(Host::unnamed().is_here(&here));
        assert!(!Host::new("m", "other").is_here(&here));
        assert!(!Host::new("", "h").is_here(&here));
    }

    #[test]
    fn what_a_newer_version_says_of_a_host_is_kept_and_makes_it_no_other() {
        let text = r#"{"machine_id":"m","hostname":"h","zone":{"rack":7}}"#;
        let host: Host = serde_json::from_str(text).unwrap();
        assert!(host.is_here(&Host::new("m", "h")));
        assert_eq!(serde_json::to_string(&host).unwrap(), text);
    }
}
