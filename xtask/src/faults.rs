//! `cargo xtask faults`: builds the program and the campaign, provides the tools, runs, and writes down what
//! was found.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::Value;

use crate::bench::machine;
use crate::workspace::{cargo, root, target_dir};
use crate::{Result, fuzz, tools};

/// Attack every promise, and count the damage.
#[derive(Args)]
pub(crate) struct FaultsArguments {
    /// The scenarios and fuzz targets to run (`fuzz`: every target); all without one
    scenarios: Vec<String>,
    /// A part of each, enough to notice most defects, in minutes
    #[arg(long)]
    quick: bool,
    /// Give the program each scenario's deliberate defect, and require that it is noticed
    #[arg(long)]
    mutants: bool,
    /// Write the figures into docs/faults.md
    #[arg(long, conflicts_with = "mutants")]
    write: bool,
    /// How long each fuzz target runs [default: 5; with --quick, 1]
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    fuzz_minutes: Option<u64>,
    /// What random choices begin with
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
    // The scenarios wait for disks and processes most of their time: the fuzzers are built and run beside them.
    let (attacked, fuzzed) = std::thread::scope(|scope| {
        let fuzzing =
            scope.spawn(|| fuzz_all(building, &targets, arguments).map_err(|error| error.to_string()));
        (attack(), fuzzing.join())
    });
    attacked.and(report_fuzzing(&fuzzed.map_err(|_| "the fuzzers could not be watched")??, arguments))
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
    command.args(scenarios).arg("--report").arg(&report);
    command.args(["--seed", &arguments.seed.to_string()]);
    if arguments.quick {
        command.arg("--quick");
    }
    let status = command.status()?;
    if arguments.write {
        write_page(&report, arguments)?;
    }
    if status.success() { Ok(()) } else { Err("a promise is broken".into()) }
}

fn run_fuzz_mutants(fuzzers: &fuzz::Fuzzers, targets: &[&'static fuzz::Target]) -> Result {
    let mut survivors = Vec::new();
    for target in targets {
        let noticed = fuzzers.notices_mutant(target)?;
        say_mutant(target.name, target.mutant, noticed);
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
    if fuzz::is_clean(outcomes) { Ok(()) } else { Err("hostile bytes did harm".into()) }
}

fn say_mutant(name: &str, mutant: &str, noticed: bool) {
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

/// Mutants are built apart, so that no other task ever finds a program with a defect.
fn build(mutants: bool) -> Result<Built> {
    let directory = if mutants { target_dir().join("mutants") } else { target_dir() };
    let mut command = cargo(["build", "--bin", "sexton", "--bin", "faults"]);
    command.arg("--target-dir").arg(&directory);
    if mutants {
        command.args(["--package", "sexton", "--package", "sexton-faults"]);
        command.args(["--features", "sexton/mutants,sexton-faults/mutants"]);
    } else {
        // With an example cargo chooses the features that the tests need: what they have built need not be
        // built again.
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

/// Each scenario must notice each of its own mutants.
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
                format!("the scenario {name} has no mutant, so nothing shows that it can fail").into()
            );
        }
        for mutant in mutants {
            let mut command = built.command();
            command.args([name, "--quick", "--until-violation"]).env("SEXTON_MUTANT", &mutant);
            let output = command.output()?;
            let violations = String::from_utf8_lossy(&output.stderr).matches("violation:").count();
            let noticed = !output.status.success() && violations > 0;
            say_mutant(name, &mutant, noticed);
            survivors.extend((!noticed).then_some(format!("{mutant} ({name})")));
        }
    }
    require_none(&survivors)
}

/// The words in an array.
fn names(array: &Value) -> Vec<String> {
    let words = array.as_array().into_iter().flatten().filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

/// The page's figures stand between these lines; the words around them are written by people.
const BEGIN: &str = "<!-- figures begin -->";
const END: &str = "<!-- figures end -->";

fn write_page(report: &Path, arguments: &FaultsArguments) -> Result {
    let outcomes: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(report)?)?;
    let mut table = String::from(
        "| scenario | attacks | what it does | trials | faults | violations | seconds | its mutants |\n\
         |---|---|---|---:|---:|---:|---:|---|\n",
    );
    for one in &outcomes {
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let violations = one["violations"].as_array().map_or(0, Vec::len);
        let mutants: Vec<String> = names(&one["mutants"]).iter().map(|name| format!("`{name}`")).collect();
        table.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {violations} | {:.0} | {} |\n",
            text("scenario"),
            text("promises"),
            text("what"),
            one["trials"],
            one["faults"],
            one["seconds"].as_f64().unwrap_or_default(),
            mutants.join(" "),
        ));
    }
    let effort = if arguments.quick { "quick" } else { "full" };
    let machine = machine::describe(&std::env::temp_dir())?;
    replace_part(BEGIN, END, &format!("{machine} A {effort} campaign, seed {}.\n\n{table}", arguments.seed))
}

/// Puts `figures` between two lines of docs/faults.md.
fn replace_part(begin: &str, end: &str, figures: &str) -> Result {
    let path = root().join("docs/faults.md");
    let page = std::fs::read_to_string(&path)?;
    let (Some(from), Some(to)) = (page.find(begin), page.find(end)) else {
        return Err("docs/faults.md has no place for figures".into());
    };
    let page = format!("{}{begin}\n{figures}{}", &page[..from], &page[to..]);
    Ok(std::fs::write(path, page)?)
}
