//! The identity of this machine, according to the state directory of a service.

use sexton_core::{Host, Incarnation, ProcessProbe};
use sexton_supervise::{find_host_leniently, require_host};

use crate::error::ServiceError;
use crate::service::Service;
use crate::state_dir::require_state_dir;

impl Service {
    /// Returns this machine, without an identifier if the state directory has no readable one. Sessions of
    /// the current boot are recognised even then.
    pub fn host(&self) -> Host {
        find_host_leniently(self.state_dir())
    }

    /// Returns this machine for a new record. Creates the identifier if there is none; an unreadable one is
    /// an error.
    pub fn require_host(&self) -> Result<Host, ServiceError> {
        require_state_dir(self.state_dir())?;
        require_host(self.state_dir()).map_err(ServiceError::HostId)
    }

    /// Returns this machine in its current boot, according to `probe`.
    pub async fn here(&self, probe: &dyn ProcessProbe) -> Result<Incarnation, ServiceError> {
        Ok(Incarnation::new(self.host(), &probe.identify(std::process::id()).await?))
    }
}
