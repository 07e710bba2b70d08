//! Every scenario there is. Adding one is a file and a line here.

mod bytes;
mod clocks;
mod deeds;
mod disk;
mod ends;
mod errors;
mod identity;
mod kills;
pub(crate) mod ledger;
mod matrix;
mod power;
mod starts;
mod trees;
mod writers;
mod yards;

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
    writers::SCENARIO,
    yards::SCENARIO,
    matrix::SCENARIO,
    clocks::SCENARIO,
    bytes::SCENARIO,
];

/// The scenarios that were asked for, or all.
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

/// Every scenario, for whoever builds mutants and documents.
pub(crate) fn listing() -> Value {
    let scenarios = SCENARIOS.iter().map(|scenario| {
        let tools: Vec<_> = scenario.tools.iter().map(|(program, package)| [program, package]).collect();
        json!({"name": scenario.name, "promises": scenario.promises, "what": scenario.what,
               "mutants": scenario.mutants, "tools": tools})
    });
    scenarios.collect()
}

/// Where this program was called as a part of a scenario: plays it.
pub(crate) fn play_role() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((role, rest)) if role == ledger::ROLE => Some(ledger::play(rest)),
        Some((role, rest)) if role == identity::ROLE => Some(identity::play(rest)),
        _ => None,
    }
}
