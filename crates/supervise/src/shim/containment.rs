//! Forks the command up to the gate, in the requested containment.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};
use sexton_core::config::Containment;
use sexton_core::containment::{ContainedBy, containments_to_try};
use sexton_core::probe::Limits;
use sexton_core::session::Cgroup;
use sexton_core::{ProcessProbe, SessionId};

use super::gate::Gated;
use crate::plan::Plan;
use crate::platform::leave_session_group;

/// A command that waits at the gate, and its containment.
pub(crate) struct Held {
    pub(crate) gated: Gated,
    pub(crate) by: ContainedBy,
    pub(crate) cgroup: Option<Cgroup>,
}

/// Forks the command with the first containment that works. `fork` forks it up to the gate, into the given
/// control group.
///
/// With `auto`, the next containment is tried if one fails, but the start fails if a requested limit cannot
/// be kept. A failed attempt leaves nothing behind.
pub(crate) fn fork_contained(
    plan: &Plan,
    probe: &dyn ProcessProbe,
    fork: impl Fn(Option<BorrowedFd<'_>>) -> io::Result<Gated>,
) -> io::Result<Held> {
    let limits = Limits { memory_max: plan.memory_max, pids_max: plan.pids_max };
    let is_limited = limits != Limits::default();
    let mut failure = None;
    for by in containments_to_try(plan.containment, || probe.lingers()) {
        // `tree` cannot enforce limits; an explicitly configured `tree` has none.
        if by == ContainedBy::Tree && is_limited && plan.containment == Containment::Auto {
            break;
        }
        let held = match by {
            ContainedBy::Cgroup => fork_into_cgroup(plan, probe, &limits, &fork),
            ContainedBy::Systemd => fork_into_scope(&plan.session, probe, &limits, &fork),
            ContainedBy::Tree => fork(None).map(|gated| Held { gated, by, cgroup: None }),
        };
        match held {
            Ok(held) => return Ok(held),
            // If no containment works, the last error is reported.
            Err(error) => failure = Some(error),
        }
        reap_all();
    }
    Err(failure.unwrap_or_else(|| io::Error::other("no containment was tried")))
}

fn fork_into_cgroup(
    plan: &Plan,
    probe: &dyn ProcessProbe,
    limits: &Limits,
    fork: &impl Fn(Option<BorrowedFd<'_>>) -> io::Result<Gated>,
) -> io::Result<Held> {
    let contained = probe.contain(&plan.session, limits).map_err(io::Error::other)?;
    leave_outer_group(contained.directory.as_fd(), &contained.cgroup, &plan.session);
    match fork(Some(contained.directory.as_fd())) {
        Ok(gated) => Ok(Held { gated, by: ContainedBy::Cgroup, cgroup: Some(contained.cgroup) }),
        Err(error) => {
            probe.release(&contained.cgroup);
            let path = contained.cgroup.path.display();
            Err(io::Error::new(error.kind(), format!("cannot start a process in {path}: {error}")))
        }
    }
}

/// Forks the command first: a scope is created around an existing process.
fn fork_into_scope(
    session: &SessionId,
    probe: &dyn ProcessProbe,
    limits: &Limits,
    fork: &impl Fn(Option<BorrowedFd<'_>>) -> io::Result<Gated>,
) -> io::Result<Held> {
    // On an error the gate closes and the command exits: a slow manager then finds no process to move.
    let gated = fork(None)?;
    let contained = probe.contain_in_scope(session, limits, gated.pid).map_err(io::Error::other)?;
    Ok(Held { gated, by: ContainedBy::Systemd, cgroup: Some(contained.cgroup) })
}

/// Reaps every forked process whose gate is closed.
pub(crate) fn reap_all() {
    while matches!(wait(WaitOptions::empty()), Ok(_) | Err(Errno::INTR)) {}
}

/// Leaves the control group of the session that this process was started in. If that fails, stopping that
/// session also kills this supervisor; its command keeps running, and is recorded.
pub(crate) fn leave_outer_group(directory: BorrowedFd<'_>, cgroup: &Cgroup, session: &SessionId) {
    if let Some(prefix) = prefix_of(cgroup.path.as_path(), session) {
        let _ = leave_session_group(directory, &prefix);
    }
}

/// Returns the name prefix of sessions' groups. In a scope, the name is that of the parent directory.
fn prefix_of(path: &Path, session: &SessionId) -> Option<String> {
    let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
    let in_scope = || Some(name(path.parent()?)?.strip_suffix(".scope")?.to_owned());
    let names = [name(path), in_scope()];
    names.into_iter().flatten().find_map(|name| Some(name.strip_suffix(session.as_str())?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_found_with_and_without_a_scope() {
        let session: SessionId = "abc".parse().unwrap();
        let prefix = |path: &str| prefix_of(Path::new(path), &session);
        assert_eq!(prefix("/sys/fs/cgroup/sexton-abc").as_deref(), Some("sexton-"));
        assert_eq!(
            prefix("/sys/fs/cgroup/sexton.slice/sexton-abc.scope/session").as_deref(),
            Some("sexton-")
        );
        assert_eq!(prefix("/sys/fs/cgroup/of/another"), None);
    }
}
