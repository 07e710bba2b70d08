//! This program as another process: performs one action on one worktree location and prints the result.

use std::path::PathBuf;
use std::process::Command;

use sexton_core::probe::Occupants;
use sexton_core::worktree::WorktreeLocation;

use crate::support::{Stub, cleaner, remove_with, try_create, try_remove};

const ROLE: &str = "SEXTON_TEST_ROLE";
const LOCATION: [&str; 5] =
    ["SEXTON_TEST_STORE", "SEXTON_TEST_SESSION", "SEXTON_TEST_REPO", "SEXTON_TEST_ROOT", "SEXTON_TEST_PATH"];
/// What a role mounts, and where.
pub const SOURCE: &str = "SEXTON_TEST_SOURCE";
pub const TARGET: &str = "SEXTON_TEST_TARGET";

/// What a process does.
#[derive(Clone, Copy)]
pub enum Role {
    /// Creates the worktree.
    Create,
    /// Rescues it, removes it and sweeps.
    Remove,
    /// Rescues and removes it.
    RemoveOnly,
    /// Sweeps.
    Sweep,
    /// Sweeps, and mounts something in the trash after the sweep checked for mounts.
    SweepUnderAMount,
}

impl Role {
    const ALL: [(Role, &'static str); 5] = [
        (Role::Create, "create"),
        (Role::Remove, "remove"),
        (Role::RemoveOnly, "remove only"),
        (Role::Sweep, "sweep"),
        (Role::SweepUnderAMount, "sweep under a mount"),
    ];

    fn name(self) -> &'static str {
        Role::ALL.iter().find(|(role, _)| *role as u8 == self as u8).unwrap().1
    }
}

/// Returns the command that runs `role` on `location`.
pub fn command(role: Role, location: &WorktreeLocation) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let values = [location.store.as_ref(), location.session.as_str().as_ref(), location.repo.as_os_str()];
    let values = values.into_iter().chain([location.root.as_os_str(), location.path.as_os_str()]);
    command.env(ROLE, role.name()).envs(LOCATION.into_iter().zip(values));
    command
}

/// Runs the role that this process was started for; returns whether there was one.
pub fn run_assigned() -> bool {
    let Ok(name) = std::env::var(ROLE) else { return false };
    let [store, session, repo, root, path] =
        LOCATION.map(|name| PathBuf::from(std::env::var_os(name).unwrap()));
    let text = |value: &PathBuf| value.to_str().unwrap().to_owned();
    let location =
        WorktreeLocation { store: text(&store), session: text(&session).parse().unwrap(), repo, root, path };
    let role = Role::ALL.iter().find(|(_, known)| *known == name).unwrap().0;
    println!("{}", run_role(role, &location));
    true
}

fn run_role(role: Role, location: &WorktreeLocation) -> String {
    let sweep =
        |probe| format!("{:?}", pollster::block_on(cleaner().sweep(&location.root, &probe, &|_| false)));
    match role {
        Role::Create => format!("{:?}", try_create(location)),
        Role::RemoveOnly => format!("{:?}", try_remove(location)),
        Role::Remove => format!("{:?} {}", remove_with(location, &Stub::empty()), sweep(Stub::empty())),
        Role::Sweep => sweep(Stub::empty()),
        Role::SweepUnderAMount => sweep(Stub::watching(|_| {
            let [source, target] = [SOURCE, TARGET].map(|name| std::env::var_os(name).unwrap());
            let mounted = Command::new("mount").arg("--bind").arg(source).arg(target).status().unwrap();
            assert!(mounted.success());
            Occupants::default()
        })),
    }
}
