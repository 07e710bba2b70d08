//! Transient scopes of a service manager (systemd): a control group for an ordinary user without a delegated
//! one.
//!
//! ```text
//! sexton.slice/sexton-ID.scope/session      the command and everything it starts; named in the record
//!                             /supervisor   its supervisor, which therefore also survives a logout
//! ```
//!
//! The manager creates the scope and moves two processes into it: the command, which has not executed
//! anything yet, and its supervisor. Below the scope we manage the groups (`Delegate=yes`). The manager
//! removes all of it when both groups are empty, so a start that is killed half-way leaves nothing behind.

mod linger;
mod manager;
mod message;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use sexton_core::probe::{Contained, Limits};
use sexton_core::{SessionId, Time};

use crate::cgroup::{self, Cgroup, PREFIX, find_mount};
use manager::{Manager, Property};

pub(crate) use linger::lingers;

/// Holds the scopes of all sessions, so that the user can limit them together.
const SLICE: &str = "sexton.slice";
const SUFFIX: &str = ".scope";

/// Group of the command, named in the session's record.
const SESSION: &str = "session";
/// Group of the supervisor.
const SUPERVISOR: &str = "supervisor";

/// How long the command has to exit when the manager itself stops the scope, for example at shutdown.
const STOP_TIMEOUT_US: u64 = 30_000_000;

/// The manager's own scope, a sibling of its units.
const OWN_SCOPE: &str = "init.scope";

fn unavailable(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Checks that a manager answers. Creates nothing.
pub(crate) fn check() -> io::Result<()> {
    Manager::connect()?.authenticate()
}

/// Puts `command` and this process into a new scope, each into its own group.
pub(crate) fn contain(session: &SessionId, limits: &Limits, command: u32) -> io::Result<Contained> {
    let name = name_of(session);
    let supervisor = std::process::id();
    let mut manager = Manager::connect()?;
    manager.authenticate()?;
    let description = format!("Sexton session {session}");
    let pids =
        if sexton_mutant::is("scope_without_command") { vec![supervisor] } else { vec![supervisor, command] };
    let mut properties = vec![
        Property::Text("Description", &description),
        Property::Text("Slice", SLICE),
        Property::Text("CollectMode", "inactive-or-failed"),
        Property::Flag("Delegate", true),
        Property::Number("TimeoutStopUSec", STOP_TIMEOUT_US),
        Property::Pids("PIDs", &pids),
    ];
    properties.extend(limits.memory_max.map(|bytes| Property::Number("MemoryMax", bytes)));
    // The supervisor counts too.
    let tasks = limits.pids_max.map(|count| count.saturating_add(1));
    properties.extend(tasks.map(|count| Property::Number("TasksMax", count)));
    manager.start_unit(&name, &properties)?;
    let scope = require_inside(&name, "self")?;
    require_limits(&scope, limits)?;
    let group = make_group(&scope, SESSION)?;
    if !sexton_mutant::is("scope_without_command") {
        require_inside(&name, &command.to_string())?;
        group.add(command)?;
    }
    make_group(&scope, SUPERVISOR)?.add(supervisor)?;
    group.into_contained()
}

/// Returns the group of a session in the scope that [`contain`] created, if there is one.
pub(crate) fn find_of(session: &SessionId) -> io::Result<Option<Cgroup>> {
    let slice = find_slice(&Manager::connect()?)?;
    Cgroup::open(&slice.join(name_of(session)).join(SESSION))
}

/// Stops scopes that hold no process and were created before `made_before`. A manager does not notice that a
/// scope is empty if its processes were killed while they were moved into it.
pub(crate) fn release_empty(made_before: Time) -> io::Result<()> {
    let mut manager = Manager::connect()?;
    let empty = cgroup::find_empty(&find_slice(&manager)?, made_before)?;
    if empty.is_empty() {
        return Ok(());
    }
    manager.authenticate()?;
    for scope in empty {
        // The kernel removes no group that holds a process, so stopping the unit cannot kill one.
        let name = scope.path().file_name().and_then(OsStr::to_str).map(str::to_owned);
        if let Some(name) = name.filter(|_| scope.remove().unwrap_or(false)) {
            // The unit may be gone with its group.
            let _ = manager.stop_unit(&name);
        }
    }
    Ok(())
}

/// Returns the directory that holds the scopes of all sessions.
fn find_slice(manager: &Manager) -> io::Result<PathBuf> {
    let (mount, of_manager) = find_mount(&fs::read_to_string(format!("/proc/{}/cgroup", manager.pid))?)?;
    let units = mount.join(of_manager);
    let units = match units.file_name() {
        Some(own) if own == OWN_SCOPE => units.parent().unwrap_or(&units),
        _ => &units,
    };
    Ok(units.join(SLICE))
}

fn name_of(session: &SessionId) -> String {
    format!("{PREFIX}{session}{SUFFIX}")
}

/// Requires that, according to the kernel, a process is in the scope; returns the scope's path.
fn require_inside(name: &str, process: &str) -> io::Result<PathBuf> {
    let (mount, inside) = find_mount(&fs::read_to_string(format!("/proc/{process}/cgroup"))?)?;
    if inside.file_name() != Some(OsStr::new(name)) {
        let place = inside.display();
        return Err(unavailable(format!(
            "the service manager started {name}, but process {process} is in /{place}"
        )));
    }
    Ok(mount.join(inside))
}

/// Requires that the limits are in force. A manager silently ignores a limit whose controller it lacks.
fn require_limits(scope: &Path, limits: &Limits) -> io::Result<()> {
    let wanted = [("memory", limits.memory_max), ("pids", limits.pids_max)];
    for (controller, _) in wanted.into_iter().filter(|(_, limit)| limit.is_some()) {
        let limit = fs::read_to_string(scope.join(format!("{controller}.max")));
        if limit.is_ok_and(|limit| limit.trim() != "max") {
            continue;
        }
        return Err(unavailable(format!("the service manager cannot use the {controller} controller here")));
    }
    Ok(())
}

fn make_group(scope: &Path, name: &str) -> io::Result<Cgroup> {
    let path = scope.join(name);
    match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => {
            return Err(io::Error::new(
                io::Error::from(errno).kind(),
                format!("cannot create the control group {}: {errno}", path.display()),
            ));
        }
    }
    Cgroup::open(&path)?
        .ok_or_else(|| unavailable(format!("{} disappeared while it was created", path.display())))
}
