//! Sixteen writers at once, killed and stopped at random, and what they said compared with what is there.

use rustix::process::Signal;

use super::ledger::{Ledger, prepare, shared_turns, url_in};
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "writers",
    promises: "I6",
    what: "16 writers, killed and stopped at random, their history checked against a model",
    mutants: &["no_lock", "no_revision_check"],
    tools: &[],
    run,
};

const WRITERS: usize = 16;

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        for round in 0..trials.either(2, 20) {
            if trials.is_hopeless() {
                return;
            }
            let choices: Vec<u64> = (0..trials.either(24, 64)).map(|_| trials.random(u64::MAX)).collect();
            trials.trial(&format!("{store}, round {round}"), || attack(store, &choices));
        }
    }
}

fn attack(store: &str, choices: &[u64]) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let url = url_in(directory.path(), store);
    let neighbours = prepare(&url);
    let mut working: Vec<Ledger> = (0..WRITERS).map(|_| Ledger::start(&url, true)).collect();
    let mut ended = Vec::new();
    for choice in choices {
        let victim = usize::try_from(*choice).unwrap_or(0) % WRITERS;
        let enough = working[victim].committed() + usize::try_from(choice >> 32).unwrap() % 4;
        working[victim].listen_until(enough);
        if choice % 5 == 0 {
            // Perhaps it holds the lock: then everybody waits, and nobody breaks it.
            working[victim].signal(Signal::STOP);
            let other = (victim + 1) % WRITERS;
            working[other].listen_for_a_moment();
            working[victim].signal(Signal::CONT);
        } else {
            let mut killed = std::mem::replace(&mut working[victim], Ledger::start(&url, true));
            killed.kill();
            ended.push(killed);
        }
    }
    for mut ledger in working {
        ledger.listen_until(1);
        ledger.kill();
        ended.push(ledger);
    }
    for ledger in &ended {
        assert_eq!(ledger.failure, None, "trouble reached a writer");
    }
    Ledger::require_kept(&ended, &neighbours, &url);
    let (begun, acknowledged) =
        ended.iter().fold((0, 0), |sum, one| (sum.0 + one.turns.0, sum.1 + one.turns.1));
    let found = shared_turns(&url);
    assert!(
        (acknowledged..=begun).contains(&found),
        "{found} changes of one record, {acknowledged} acknowledged of {begun}"
    );
    choices.len() as u64
}
