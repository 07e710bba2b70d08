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
