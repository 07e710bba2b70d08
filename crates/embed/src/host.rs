//! Which machine this is.

use std::fs;

use sexton_core::Host;

/// Where Linux systems keep the installation's identifier.
const MACHINE_ID_FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// This host. Where no identifier can be read, as in many containers, the host name alone decides.
pub fn this_host() -> Host {
    let machine_id = MACHINE_ID_FILES
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .map(|text| text.trim().to_owned())
        .find(|id| !id.is_empty());
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Host::new(machine_id.unwrap_or_else(|| "none".to_owned()), hostname)
}
