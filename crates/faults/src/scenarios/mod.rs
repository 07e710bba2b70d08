//! All scenarios. To add one, add a file and a line here.

mod bytes;
mod clients;
mod clocks;
mod containment;
mod crowd;
mod disk;
mod ends;
mod errors;
mod hosts;
mod identity;
mod kills;
pub(crate) mod ledger;
mod limits;
mod matrix;
mod neighbours;
mod operations;
mod power;
mod releases;
mod starts;
mod supervisors;
mod trees;
mod trust;
mod worktrees;
mod writers;

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::campaign::Scenario;

static SCENARIOS: &[Scenario] = &[
    kills::SCENARIO,
    starts::SCENARIO,
    ends::SCENARIO,
    errors::SCENARIO,
    power::SCENARIO,
    disk::SCENARIO,
    identity::SCENARIO,
    trees::SCENARIO,
    limits::SCENARIO,
    supervisors::SCENARIO,
    neighbours::SCENARIO,
    writers::SCENARIO,
    worktrees::SCENARIO,
    matrix::SCENARIO,
    clocks::SCENARIO,
    containment::SCENARIO,
    bytes::SCENARIO,
    releases::SCENARIO,
    hosts::SCENARIO,
    crowd::SCENARIO,
    trust::SCENARIO,
    clients::SCENARIO,
];

/// Returns the named scenarios, or all.
pub(crate) fn choose(names: &[String]) -> Result<Vec<&'static Scenario>, String> {
    if names.is_empty() {
        return Ok(SCENARIOS.iter().collect());
    }
    let find = |name: &String| {
        let known = || SCENARIOS.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
        let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
        found.ok_or_else(|| format!("there is no scenario `{name}` (there are: {})", known()))
    };
    names.iter().map(find).collect()
}

/// Returns every scenario as JSON, for `cargo xtask faults`, which builds mutants and documents.
pub(crate) fn listing() -> Value {
    let scenarios = SCENARIOS.iter().map(|scenario| {
        let tools: Vec<_> = scenario.tools.iter().map(|(program, package)| [program, package]).collect();
        json!({"name": scenario.name, "promises": scenario.promises, "what": scenario.what,
               "mutants": scenario.mutants, "tools": tools})
    });
    scenarios.collect()
}

/// Runs a role if this program was started as a part of a scenario.
pub(crate) fn play_role() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((role, rest)) if role == ledger::ROLE => Some(ledger::play(rest)),
        Some((role, rest)) if role == identity::ROLE => Some(identity::play(rest)),
        _ => None,
    }
}
