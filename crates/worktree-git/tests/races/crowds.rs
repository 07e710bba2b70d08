//! Many at once: the work is done once, and nobody sees an error for it.

use std::sync::Barrier;
use std::thread;

use sexton_core::worktree::{Inspection, Removal};

use crate::Case;
use crate::support::{Ground, inspect, sweep, try_create, try_remove, write};

pub const CASES: &[Case] = &[
    ("i7_many_creators_of_one_worktree_make_it_once", many_creators),
    ("i7_many_removers_of_one_worktree_remove_it_once", many_removers),
    ("i7_many_sweepers_delete_each_worktree_once", many_sweepers),
    ("i7_creators_removers_and_sweepers_of_many_sessions_do_not_disturb_each_other", everybody),
];

const CROWD: usize = 8;

/// Lets `CROWD` threads do `act` at the same moment; what each of them got.
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
    let ground = Ground::new();
    let plot = ground.plot("s1");
    let base = ground.git(["rev-parse", "HEAD"]);
    for created in at_once(|_| try_create(&plot)) {
        assert_eq!(created.unwrap().base, base);
    }
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(ground.trash(), [""; 0]);
    ground.require_clean(&[&plot.path]);
}

fn many_removers() {
    let ground = Ground::new();
    for round in 0..10 {
        let plot = ground.create(&format!("s{round}"));
        write(&plot.path.join("README.md"), format!("round {round}\n"));
        let outcomes: Vec<Removal> = at_once(|_| try_remove(&plot)).into_iter().map(Result::unwrap).collect();
        let removed = outcomes.iter().filter(|outcome| **outcome == Removal::Removed).count();
        let gone = outcomes.iter().filter(|outcome| **outcome == Removal::AlreadyGone).count();
        assert_eq!((removed, gone), (1, CROWD - 1), "{outcomes:?}");
        assert_eq!(
            ground.git(["show", &format!("refs/sexton/rescue/s{round}:README.md")]),
            format!("round {round}")
        );
    }
    assert_eq!(sweep(&ground.root), 10);
    ground.require_clean(&[]);
}

fn many_sweepers() {
    let ground = Ground::new();
    for n in 0..CROWD {
        let plot = ground.create(&format!("s{n}"));
        for file in 0..200 {
            write(&plot.path.join(format!("many/{}/{file}", file % 13)), "");
        }
        assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    }
    let swept: usize = at_once(|_| sweep(&ground.root)).into_iter().sum();
    assert_eq!(swept, CROWD);
    assert_eq!(ground.trash(), [""; 0]);
}

fn everybody() {
    const ROUNDS: usize = 5;
    let ground = Ground::new();
    at_once(|n| {
        for round in 0..ROUNDS {
            let plot = ground.plot(&format!("s{n}"));
            try_create(&plot).unwrap();
            write(&plot.path.join("README.md"), format!("{n} {round}\n"));
            assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
            sweep(&ground.root);
        }
    });
    sweep(&ground.root);
    assert_eq!(ground.trash(), [""; 0]);
    ground.require_clean(&[]);
    for n in 0..CROWD {
        let saved = ground.git(["show", &format!("refs/sexton/rescue/s{n}:README.md")]);
        assert_eq!(saved, format!("{n} {}", ROUNDS - 1));
    }
}
