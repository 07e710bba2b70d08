//! The descriptor limit: raised as far as the system allows, for commands that handle many sessions. Their
//! children get the limit that the user set.

use std::process::Child;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that the user set, if it was raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of this process to the hard one. If that fails, everything works in smaller groups.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if !cfg!(target_os = "linux") || limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if ORIGINAL.get().is_none() && setrlimit(Resource::Nofile, raised).is_ok() {
        let _ = ORIGINAL.set(limit);
    }
}

/// Gives a child that has not started anything yet the limit that the user set.
pub(crate) fn restore_descriptor_limit(child: &Child) -> std::io::Result<()> {
    let Some(original) = ORIGINAL.get() else { return Ok(()) };
    restore(child.id(), original)
}

#[cfg(target_os = "linux")]
fn restore(child: u32, original: &Rlimit) -> std::io::Result<()> {
    let pid = i32::try_from(child).ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::prlimit(pid, Resource::Nofile, *original)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn restore(_: u32, _: &Rlimit) -> std::io::Result<()> {
    Ok(())
}
