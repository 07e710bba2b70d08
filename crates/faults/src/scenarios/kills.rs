//! SIGKILL before every system call that changes something, and again in the next run.

use sexton_test_harness::strace::{kill_family_at, mutating_calls, trace_family};

use super::operations::{OPERATIONS, Stage};
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "kills",
    promises: "I4 I6 I7",
    what: "SIGKILL at every change of every operation, and at some change of the next run",
    mutants: &["no_rescue", "write_in_place"],
    tools: &[("strace", "strace"), ("taskset", "util-linux"), ("git", "git")],
    minutes: 10,
    runs_alone: false,
    run,
};

fn run(trials: &mut Trials) {
    for operation in OPERATIONS {
        for store in operation.stores {
            if trials.has_enough_violations() {
                return;
            }
            let stage = Stage::set(operation, store);
            let command = stage.command();
            let calls = mutating_calls(&trace_family(&stage.test_env, operation.family, &command));
            stage.require_done();
            trials.announce(&format!("{} on {store}", operation.name), calls.len());
            for call in trials.some_of(&calls, 4) {
                // The run after a kill is different: the call with the same number is somewhere else in it.
                let next = match trials.random(2) {
                    0 => call.clone(),
                    _ => calls[usize::try_from(trials.random(calls.len() as u64)).unwrap()].clone(),
                };
                let name = format!(
                    "{} on {store}, {} number {}, then {} number {}",
                    operation.name, call.name, call.nth, next.name, next.nth
                );
                trials.trial(&name, || {
                    stage.reset();
                    let kill = |call| {
                        u64::from(kill_family_at(&stage.test_env, operation.family, call, &command, ""))
                    };
                    let killed = kill(&call);
                    stage.require_readable();
                    let again = kill(&next);
                    stage.do_again();
                    stage.require_done();
                    killed + again
                });
            }
        }
    }
}
