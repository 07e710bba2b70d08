//! Two releases on one store, as in every upgrade: each ends, stops and recovers sessions that the other
//! started, both are killed at random; and the format is raised, but never while a supervisor runs that does
//! not know it.

mod raise;
mod rewrite;
mod story;

use std::path::PathBuf;

use sexton_test_harness::releases::Release;

use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "releases",
    promises: "I6 I8 I2 I10",
    what: "two releases at once: sessions of one ended, stopped and recovered by the other, both killed, a format raised",
    mutants: &["raise_under_old", "forget_unknown"],
    tools: &[("strace", "strace")],
    minutes: 6,
    runs_alone: false,
    run,
};

/// The variable that names the binary of the previous release.
const PREVIOUS: &str = "SEXTON_PREVIOUS";

fn run(trials: &mut Trials) {
    let pairs = pairs(trials);
    for store in ["sqlite", "json"] {
        for (older, newer) in &pairs {
            for by_older in [true, false] {
                let starter = if by_older { older } else { newer };
                let name =
                    format!("{store}, {} and {} in turns, {} first", older.name, newer.name, starter.name);
                trials.trial(&name, || rewrite::in_turns(store, [older, newer], by_older));
            }
            for round in 0..trials.either(3, 30) {
                let steps = trials.either(14, 30);
                let choices: Vec<u64> = (0..steps).map(|_| trials.random(u64::MAX)).collect();
                let name = format!("{store}, {} and {}, round {round}", older.name, newer.name);
                trials.trial(&name, || story::play(store, [older, newer], &choices));
            }
        }
        raise::kill_at_every_call(trials, store);
    }
}

/// Returns pairs of an older and a newer release.
fn pairs(trials: &Trials) -> Vec<(Release, Release)> {
    let mut pairs = vec![(Release::this(), Release::next())];
    match find_previous() {
        Some(program) => {
            let previous = Release::previous(&program);
            pairs.extend([(previous.clone(), Release::this()), (previous, Release::next())]);
        }
        None if trials.is_full() => panic!(
            "a full campaign needs the binary of the previous release: `cargo xtask faults` builds it, or \
             {PREVIOUS} names it"
        ),
        None => eprintln!(
            "   releases, NOT RUN: the pairs with the previous release, whose binary is missing (a full campaign \
             builds it; {PREVIOUS} names one). This release and the next one are tested"
        ),
    }
    pairs
}

fn find_previous() -> Option<PathBuf> {
    let program = PathBuf::from(std::env::var_os(PREVIOUS)?);
    assert!(program.is_file(), "{PREVIOUS} names {}, which is not a file", program.display());
    Some(program)
}
