//! SIGKILL before every system call that changes something, and again in the run that comes after.

use sexton_field::strace::{kill_family_at, mutating_calls, trace_family};

use super::deeds::{DEEDS, Stage};
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "kills",
    promises: "I4 I6 I7",
    what: "SIGKILL at every change of every deed, and at some change of the run after that",
    mutants: &["no_rescue", "write_in_place"],
    tools: &[("strace", "strace"), ("taskset", "util-linux"), ("git", "git")],
    minutes: 10,
    run,
};

fn run(trials: &mut Trials) {
    for deed in DEEDS {
        for store in deed.stores {
            if trials.is_hopeless() {
                return;
            }
            let stage = Stage::set(deed, store);
            let command = stage.command();
            let calls = mutating_calls(&trace_family(&stage.yard, deed.family, &command));
            stage.require_done();
            trials.announce(&format!("{} on {store}", deed.name), calls.len());
            for call in trials.some_of(&calls, 4) {
                // The run after a kill is another run: the same call, counted, is somewhere else in it.
                let next = match trials.random(2) {
                    0 => call.clone(),
                    _ => calls[usize::try_from(trials.random(calls.len() as u64)).unwrap()].clone(),
                };
                let name = format!(
                    "{} on {store}, {} number {}, then {} number {}",
                    deed.name, call.name, call.nth, next.name, next.nth
                );
                trials.trial(&name, || {
                    stage.reset();
                    let kill = |call| u64::from(kill_family_at(&stage.yard, deed.family, call, &command, ""));
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
