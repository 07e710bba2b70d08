//! Every scenario there is. Adding one is a file and a line here.

mod deeds;
mod errors;
mod kills;

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::campaign::Scenario;

static SCENARIOS: &[Scenario] = &[kills::SCENARIO, errors::SCENARIO];

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
               "mutant": scenario.mutant, "tools": tools})
    });
    scenarios.collect()
}

/// Where this program was called as a part of a scenario: plays it.
pub(crate) fn play_role() -> Option<ExitCode> {
    None
}
