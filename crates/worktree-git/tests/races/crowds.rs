//! Many threads at once: the work is done once, and none of them gets an error.

use std::sync::Barrier;
use std::thread;

use sexton_core::worktree::{Inspection, Removal};

use crate::Case;
use crate::support::{TestEnv, inspect, sweep, try_create, try_remove, write};

pub const CASES: &[Case] = &[
    ("i7_concurrent_creations_create_one_worktree_once", many_creators),
    ("i7_concurrent_removals_remove_one_worktree_once", many_removers),
    ("i7_concurrent_sweeps_delete_each_worktree_once", many_sweepers),
    ("i7_concurrent_work_on_many_sessions_does_not_interfere", many_sessions),
];

const CROWD: usize = 8;

/// Runs `act` on `CROWD` threads at the same time and returns their results.
fn at_once<T: Send>(act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(CROWD);
    thread::scope(|scope| {
        let (start, act) = (&start, &act);
        let one = |n| {
            scope.spawn(move || {
                start.wait();
                act(n)
            })
        };
        let crowd: Vec<_> = (0..CROWD).map(one).collect();
        crowd.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn many_creators() {
    let env = TestEnv::new();
    let location = env.location("s1");
    let base = env.git(["rev-parse", "HEAD"]);
    for created in at_once(|_| try_create(&location)) {
        assert_eq!(created.unwrap().base, base);
    }
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(env.trash(), [""; 0]);
    env.require_clean(&[&location.path]);
}

fn many_removers() {
    let env = TestEnv::new();
    for round in 0..10 {
        let location = env.create(&format!("s{round}"));
        write(&location.path.join("README.md"), format!("round {round}\n"));
        let outcomes: Vec<Removal> =
            at_once(|_| try_remove(&location)).into_iter().map(Result::unwrap).collect();
        let removed = outcomes.iter().filter(|outcome| **outcome == Removal::Removed).count();
        let gone = outcomes.iter().filter(|outcome| **outcome == Removal::AlreadyGone).count();
        assert_eq!((removed, gone), (1, CROWD - 1), "{outcomes:?}");
        assert_eq!(
            env.git(["show", &format!("refs/sexton/rescue/s{round}:README.md")]),
            format!("round {round}")
        );
    }
    assert_eq!(sweep(&env.root), 10);
    env.require_clean(&[]);
}

fn many_sweepers() {
    let env = TestEnv::new();
    for n in 0..CROWD {
        let location = env.create(&format!("s{n}"));
        for file in 0..200 {
            write(&location.path.join(format!("many/{}/{file}", file % 13)), "");
        }
        assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    }
    let swept: usize = at_once(|_| sweep(&env.root)).into_iter().sum();
    assert_eq!(swept, CROWD);
    assert_eq!(env.trash(), [""; 0]);
}

fn many_sessions() {
    const ROUNDS: usize = 5;
    let env = TestEnv::new();
    at_once(|n| {
        for round in 0..ROUNDS {
            let location = env.location(&format!("s{n}"));
            try_create(&location).unwrap();
            write(&location.path.join("README.md"), format!("{n} {round}\n"));
            assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
            sweep(&env.root);
        }
    });
    sweep(&env.root);
    assert_eq!(env.trash(), [""; 0]);
    env.require_clean(&[]);
    for n in 0..CROWD {
        let saved = env.git(["show", &format!("refs/sexton/rescue/s{n}:README.md")]);
        assert_eq!(saved, format!("{n} {}", ROUNDS - 1));
    }
}
