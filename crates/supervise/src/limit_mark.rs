//! Sets the limit mark of a command that waits at the gate.

use sexton_core::membership::choose_limit_mark;

/// Gives a waiting child a unique file lock limit and returns it. Returns `None` if that fails: then the
/// members are found by other evidence.
#[cfg(target_os = "linux")]
pub(crate) fn set_limit_mark(child: u32) -> Option<u64> {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let mut random = [0; 8];
    getrandom::fill(&mut random).ok()?;
    let inherited = rustix::process::getrlimit(Resource::Locks).maximum;
    let mark = choose_limit_mark(inherited, u64::from_ne_bytes(random))?;
    let child = Pid::from_raw(i32::try_from(child).ok()?)?;
    let limit = Rlimit { current: Some(mark), maximum: Some(mark) };
    prlimit(Some(child), Resource::Locks, limit).ok()?;
    Some(mark)
}

/// Returns `None`: other systems have no such limit.
#[cfg(not(target_os = "linux"))]
pub(crate) fn set_limit_mark(child: u32) -> Option<u64> {
    let _ = child;
    None
}
