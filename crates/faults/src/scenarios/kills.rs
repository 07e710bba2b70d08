//! SIGKILL before every system call that changes something, and again in the run that comes after.

use sexton_field::strace::{kill_at, mutating_calls, trace};

use super::deeds::{DEEDS, Stage};
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "kills",
    promises: "I4 I6 I7",
    what: "SIGKILL at every change, and at every change of the run after that",
    mutant: "no_rescue",
    tools: &[("strace", "strace"), ("taskset", "util-linux"), ("git", "git")],
    run,
};

fn run(trials: &mut Trials) {
    for deed in DEEDS {
        for store in deed.stores {
            let stage = Stage::set(deed, store);
            let command = stage.command();
            let calls = mutating_calls(&trace(&stage.yard, &command));
            stage.require_done();
            for call in trials.some_of(&calls, 6) {
                if trials.is_hopeless() {
                    return;
                }
                let name = format!("{} on {store}, {} number {}", deed.name, call.name, call.nth);
                trials.trial(&name, || {
                    stage.reset();
                    let killed = u64::from(kill_at(&stage.yard, &call, &command));
                    let again = u64::from(kill_at(&stage.yard, &call, &command));
                    stage.do_again();
                    stage.require_done();
                    killed + again
                });
            }
        }
    }
}
