//! This program as another process: it does one thing to one plot, and says what came of it.

use std::path::PathBuf;
use std::process::Command;

use sexton_core::probe::Occupants;
use sexton_core::worktree::Plot;

use crate::support::{Stub, cleaner, remove_with, try_create, try_remove};

const ROLE: &str = "SEXTON_TEST_ROLE";
const PLOT: [&str; 5] =
    ["SEXTON_TEST_STORE", "SEXTON_TEST_SESSION", "SEXTON_TEST_REPO", "SEXTON_TEST_ROOT", "SEXTON_TEST_PATH"];
/// What is mounted, and where, by a role that mounts.
pub const SOURCE: &str = "SEXTON_TEST_SOURCE";
pub const TARGET: &str = "SEXTON_TEST_TARGET";

/// What a process can be for.
#[derive(Clone, Copy)]
pub enum Role {
    /// Makes the worktree.
    Create,
    /// Rescues it, removes it and sweeps.
    Remove,
    /// Rescues and removes it.
    RemoveOnly,
    /// Sweeps.
    Sweep,
    /// Sweeps, and mounts something in the trash after the sweep looked for mounts.
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

/// The command that plays `role` on `plot`.
pub fn command(role: Role, plot: &Plot) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let values = [plot.store.as_ref(), plot.session.as_str().as_ref(), plot.repo.as_os_str()];
    let values = values.into_iter().chain([plot.root.as_os_str(), plot.path.as_os_str()]);
    command.env(ROLE, role.name()).envs(PLOT.into_iter().zip(values));
    command
}

/// Plays the role that this process was started for; says whether there was one.
pub fn play_assigned() -> bool {
    let Ok(name) = std::env::var(ROLE) else { return false };
    let [store, session, repo, root, path] = PLOT.map(|name| PathBuf::from(std::env::var_os(name).unwrap()));
    let text = |value: &PathBuf| value.to_str().unwrap().to_owned();
    let plot = Plot { store: text(&store), session: text(&session).parse().unwrap(), repo, root, path };
    let role = Role::ALL.iter().find(|(_, known)| *known == name).unwrap().0;
    println!("{}", play(role, &plot));
    true
}

fn play(role: Role, plot: &Plot) -> String {
    let sweep = |probe| format!("{:?}", pollster::block_on(cleaner().sweep(&plot.root, &probe)));
    match role {
        Role::Create => format!("{:?}", try_create(plot)),
        Role::RemoveOnly => format!("{:?}", try_remove(plot)),
        Role::Remove => format!("{:?} {}", remove_with(plot, &Stub::nobody()), sweep(Stub::nobody())),
        Role::Sweep => sweep(Stub::nobody()),
        Role::SweepUnderAMount => sweep(Stub::watching(|_| {
            let [source, target] = [SOURCE, TARGET].map(|name| std::env::var_os(name).unwrap());
            let mounted = Command::new("mount").arg("--bind").arg(source).arg(target).status().unwrap();
            assert!(mounted.success());
            Occupants::default()
        })),
    }
}
