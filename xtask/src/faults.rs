//! `cargo xtask faults`: builds the program and the campaign, provides the tools, runs the campaign, and
//! writes its results.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::Value;
use sexton_workspace::{cargo, machine, root, target_dir, tools};

use crate::{Result, fuzz, previous};

/// Attack every promise and count violations.
#[derive(Args)]
pub(crate) struct FaultsArguments {
    /// The scenarios and fuzz targets to run (`fuzz`: every target) [default: all]
    scenarios: Vec<String>,
    /// Run a part of each, enough to detect most defects, in minutes
    #[arg(long)]
    quick: bool,
    /// Run each scenario with its deliberate defects, and require that it detects them
    #[arg(long)]
    mutants: bool,
    /// Write the figures into docs/faults.md
    #[arg(long, conflicts_with = "mutants")]
    write: bool,
    /// How long each fuzz target runs [default: 5; with --quick, 1]
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    fuzz_minutes: Option<u64>,
    /// Seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The campaign and the program it attacks.
struct Built {
    campaign: PathBuf,
    program: PathBuf,
}

/// Runs the campaign, or its mutants.
pub(crate) fn run(arguments: &FaultsArguments) -> Result {
    let (targets, scenarios) = fuzz::choose(&arguments.scenarios);
    let with_scenarios = arguments.scenarios.is_empty() || !scenarios.is_empty();
    let attack = || if with_scenarios { run_scenarios(&scenarios, arguments) } else { Ok(()) };
    if targets.is_empty() {
        return attack();
    }
    let building = fuzz::Build::begin()?;
    if arguments.mutants {
        return attack().and(run_fuzz_mutants(&building.finish()?, &targets));
    }
    // The scenarios wait for disks and processes most of the time: the fuzzers are built and run beside them.
    let (attacked, fuzzed) = std::thread::scope(|scope| {
        let fuzzing =
            scope.spawn(|| fuzz_all(building, &targets, arguments).map_err(|error| error.to_string()));
        (attack(), fuzzing.join())
    });
    attacked.and(report_fuzzing(&fuzzed.map_err(|_| "the thread of the fuzzers panicked")??, arguments))
}

fn run_scenarios(scenarios: &[String], arguments: &FaultsArguments) -> Result {
    let built = build(arguments.mutants)?;
    let listing = list(&built)?;
    provide_tools(&listing)?;
    if arguments.mutants {
        return run_mutants(&built, &listing, scenarios);
    }
    let report = target_dir().join("faults.json");
    let mut command = built.command();
    if scenarios.is_empty() || scenarios.iter().any(|name| name == "releases") {
        let previous = if arguments.quick { previous::find()? } else { Some(previous::require()?) };
        command.envs(previous.map(|program| (previous::VARIABLE, program)));
    }
    command.args(scenarios).arg("--report").arg(&report);
    command.args(["--seed", &arguments.seed.to_string()]);
    if arguments.quick {
        command.arg("--quick");
    }
    let status = command.status()?;
    if arguments.write {
        let order: Vec<String> =
            listing.iter().filter_map(|one| Some(one["name"].as_str()?.to_owned())).collect();
        write_page(&report, arguments, &order)?;
    }
    if status.success() { Ok(()) } else { Err("a promise is broken".into()) }
}

fn run_fuzz_mutants(fuzzers: &fuzz::Fuzzers, targets: &[&'static fuzz::Target]) -> Result {
    let mut survivors = Vec::new();
    for target in targets {
        let noticed = fuzzers.notices_mutant(target)?;
        print_mutant(target.name, target.mutant, noticed);
        survivors.extend((!noticed).then(|| target.mutant.to_owned()));
    }
    require_none(&survivors)
}

fn fuzz_all(
    building: fuzz::Build,
    targets: &[&'static fuzz::Target],
    arguments: &FaultsArguments,
) -> Result<Vec<fuzz::Outcome>> {
    building.finish()?.run(targets, 60 * fuzz_minutes(arguments), arguments.seed)
}

/// How long each target runs.
fn fuzz_minutes(arguments: &FaultsArguments) -> u64 {
    arguments.fuzz_minutes.unwrap_or(if arguments.quick { 1 } else { 5 })
}

fn report_fuzzing(outcomes: &[fuzz::Outcome], arguments: &FaultsArguments) -> Result {
    print!("{}", fuzz::table(outcomes));
    if arguments.write {
        let (machine, minutes) = (machine::describe(&std::env::temp_dir())?, fuzz_minutes(arguments));
        let figures = format!("{machine} {minutes} minutes each.\n\n{}", fuzz::page(outcomes));
        replace_part("<!-- fuzzing begin -->", "<!-- fuzzing end -->", &figures)?;
    }
    if fuzz::is_clean(outcomes) { Ok(()) } else { Err("a fuzz target failed".into()) }
}

fn print_mutant(name: &str, mutant: &str, noticed: bool) {
    println!("{name:<12} {mutant:<20} {}", if noticed { "noticed" } else { "SURVIVED" });
}

fn require_none(survivors: &[String]) -> Result {
    if survivors.is_empty() {
        return Ok(());
    }
    Err(format!("the campaign did not notice: {}", survivors.join(", ")).into())
}

impl Built {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.campaign);
        command.env("SEXTON_TEST_BINARY", &self.program).stdin(Stdio::null());
        command
    }
}

/// Mutants are built in a separate directory, so that no other task ever finds a program with a defect.
fn build(mutants: bool) -> Result<Built> {
    let directory = if mutants { target_dir().join("mutants") } else { target_dir() };
    let mut command = cargo(["build", "--bin", "sexton", "--bin", "faults"]);
    command.arg("--target-dir").arg(&directory);
    if mutants {
        command.args(["--package", "sexton", "--package", "sexton-faults"]);
        command.args(["--features", "sexton/mutants,sexton-faults/mutants"]);
    } else {
        // With an example cargo selects the features that the tests need, so that what the tests have built
        // is reused.
        command.args(["--workspace", "--example", "generate"]);
    }
    if !command.status()?.success() {
        return Err("the campaign cannot be built".into());
    }
    let debug = directory.join("debug");
    Ok(Built { campaign: debug.join("faults"), program: debug.join("sexton") })
}

fn list(built: &Built) -> Result<Vec<Value>> {
    let output = built.command().arg("--list").output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn provide_tools(listing: &[Value]) -> Result {
    let named = listing.iter().flat_map(|scenario| scenario["tools"].as_array().into_iter().flatten());
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut wanted: Vec<(String, String)> = named.map(|tool| (word(&tool[0]), word(&tool[1]))).collect();
    wanted.sort();
    wanted.dedup();
    tools::require(&wanted.iter().map(|(program, package)| (&**program, &**package)).collect::<Vec<_>>())
}

/// Requires that each scenario detects each of its own mutants.
fn run_mutants(built: &Built, listing: &[Value], scenarios: &[String]) -> Result {
    let mut survivors = Vec::new();
    for scenario in listing {
        let name = scenario["name"].as_str().ok_or("a scenario without a name")?;
        if !scenarios.is_empty() && !scenarios.iter().any(|wanted| wanted == name) {
            continue;
        }
        let mutants = names(&scenario["mutants"]);
        if mutants.is_empty() {
            return Err(
                format!("the scenario {name} has no mutant, so it is not shown that it can fail").into()
            );
        }
        for mutant in mutants {
            let mut command = built.command();
            command.args([name, "--quick", "--until-violation"]).env("SEXTON_MUTANT", &mutant);
            let output = command.output()?;
            let violations = String::from_utf8_lossy(&output.stderr).matches("violation:").count();
            let noticed = !output.status.success() && violations > 0;
            print_mutant(name, &mutant, noticed);
            survivors.extend((!noticed).then_some(format!("{mutant} ({name})")));
        }
    }
    require_none(&survivors)
}

/// Returns the words in an array.
fn names(array: &Value) -> Vec<String> {
    let words = array.as_array().into_iter().flatten().filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

/// The figures are between these lines of the page; the text around them is written by hand.
const BEGIN: &str = "<!-- figures begin -->";
const END: &str = "<!-- figures end -->";

/// Writes the rows of the scenarios that ran; the others keep theirs, each with the date of its run.
fn write_page(report: &Path, arguments: &FaultsArguments, order: &[String]) -> Result {
    let outcomes: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(report)?)?;
    let effort = if arguments.quick { "quick" } else { "full" };
    let day = machine::today()?;
    let rows = outcomes.iter().map(|one| {
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let violations = one["violations"].as_array().map_or(0, Vec::len);
        let mutants: Vec<String> = names(&one["mutants"]).iter().map(|name| format!("`{name}`")).collect();
        let row = format!(
            "| `{}` | {} | {} | {} | {} | {violations} | {:.0} | {day}, {effort} | {} |",
            text("scenario"),
            text("promises"),
            text("what"),
            one["trials"],
            one["faults"],
            one["seconds"].as_f64().unwrap_or_default(),
            mutants.join(" "),
        );
        (text("scenario"), row)
    });
    let page = std::fs::read_to_string(root().join("docs/faults.md"))?;
    let table = merge_rows(&page, &rows.collect::<Vec<_>>(), order);
    let machine = machine::describe(&std::env::temp_dir())?;
    replace_part(BEGIN, END, &format!("{machine} The newest rows; seed {}.\n\n{table}", arguments.seed))
}

/// Returns the table of `page` with `new` rows in place of the old ones of the same scenario, in this order.
/// A scenario that is not in `order` no longer exists, and its row is removed.
fn merge_rows(page: &str, new: &[(String, String)], order: &[String]) -> String {
    let mut table = String::from(
        "| scenario | attacks | what it does | trials | faults | violations | seconds | run | its mutants |\n\
         |---|---|---|---:|---:|---:|---:|---|---|\n",
    );
    for name in order {
        let fresh = new.iter().find(|(scenario, _)| scenario == name).map(|(_, row)| row.as_str());
        let begin = format!("| `{name}` |");
        if let Some(row) = fresh.or_else(|| page.lines().find(|line| line.starts_with(&begin))) {
            table.push_str(row);
            table.push('\n');
        }
    }
    table
}

/// Writes `figures` between two lines of docs/faults.md.
fn replace_part(begin: &str, end: &str, figures: &str) -> Result {
    let path = root().join("docs/faults.md");
    let page = std::fs::read_to_string(&path)?;
    let (Some(from), Some(to)) = (page.find(begin), page.find(end)) else {
        return Err("docs/faults.md has no place for figures".into());
    };
    let page = format!("{}{begin}\n{figures}{}", &page[..from], &page[to..]);
    Ok(std::fs::write(path, page)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_campaign_replaces_only_its_own_rows() {
        let page = "text\n| `kills` | I4 | old |\n| `gone` | I1 | old |\n| `power` | I6 | old |\n";
        let new = [("power".to_owned(), "| `power` | I6 | new |".to_owned())];
        let order = ["power", "kills", "later"].map(str::to_owned);
        let table = merge_rows(page, &new, &order);
        let rows: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(rows, ["| `power` | I6 | new |", "| `kills` | I4 | old |"]);
    }
}
