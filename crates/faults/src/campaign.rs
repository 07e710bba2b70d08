//! Trials and their results.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// One attack on a promise.
pub(crate) struct Scenario {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// The promises it attacks.
    pub(crate) promises: &'static str,
    /// What it does, in one sentence.
    pub(crate) what: &'static str,
    /// The deliberate defects that it must detect, one for each thing that it claims to attack.
    pub(crate) mutants: &'static [&'static str],
    /// The programs that it needs, and the Debian package of each.
    pub(crate) tools: &'static [(&'static str, &'static str)],
    /// Roughly how long it takes in a full campaign.
    pub(crate) minutes: u32,
    /// Whether its processes would disturb the sessions of other scenarios.
    pub(crate) runs_alone: bool,
    /// Runs it.
    pub(crate) run: fn(&mut Trials),
}

/// How scenarios are run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// How much of each scenario is run.
    pub(crate) effort: Effort,
    /// The seed of random choices.
    pub(crate) seed: u64,
    /// A scenario stops after this many violations.
    pub(crate) enough: usize,
}

/// How much of a scenario is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Enough to detect most defects, in minutes.
    Quick,
    /// Everything.
    Full,
}

/// The trials of one scenario.
pub(crate) struct Trials {
    /// The scenario's name.
    of: &'static str,
    effort: Effort,
    random: u64,
    trials: u64,
    faults: u64,
    violations: Vec<String>,
    /// It stops after this many violations.
    enough: usize,
    begun: Instant,
    /// When progress was last printed.
    reported: Instant,
}

/// How often a scenario prints its progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(20);

/// More violations of one scenario than this add no information.
pub(crate) const ENOUGH: usize = 5;

thread_local! {
    /// The message of the last panic of a scenario: a trial's violation.
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Trials {
    /// Returns one of two values, depending on the effort.
    pub(crate) fn either<T>(&self, quick: T, full: T) -> T {
        match self.effort {
            Effort::Quick => quick,
            Effort::Full => full,
        }
    }

    /// Returns whether this is a full campaign.
    pub(crate) fn is_full(&self) -> bool {
        self.effort == Effort::Full
    }

    /// Returns at most `quick` of `all`, spread evenly; all of them in a full campaign.
    pub(crate) fn some_of<T: Clone>(&self, all: &[T], quick: usize) -> Vec<T> {
        let stride = self.either(all.len().div_ceil(quick.max(1)).max(1), 1);
        all.iter().step_by(stride).cloned().collect()
    }

    /// Prints what comes next, in a full campaign only, because that takes long.
    pub(crate) fn announce(&self, what: &str, count: usize) {
        if self.effort == Effort::Full {
            let seconds = self.begun.elapsed().as_secs();
            eprintln!("   {}, {seconds} s, next: {what}, {count} points", self.of);
        }
    }

    /// Returns a number below `limit`, by xorshift: the same in every campaign with the same seed.
    pub(crate) fn random(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit.max(1)
    }

    /// Returns whether the scenario has so many violations that it can stop.
    pub(crate) fn has_enough_violations(&self) -> bool {
        self.violations.len() >= self.enough
    }

    fn begin(of: &'static str, Plan { effort, seed, enough }: Plan) -> Trials {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (begun, violations) = (Instant::now(), Vec::new());
        Trials { of, effort, random, trials: 0, faults: 0, violations, enough, begun, reported: begun }
    }

    /// Runs one trial. `body` returns how many faults were really injected, and panics if a promise is
    /// broken. Does nothing if the scenario already has enough violations.
    pub(crate) fn trial(&mut self, name: &str, body: impl FnOnce() -> u64) {
        if self.has_enough_violations() {
            return;
        }
        self.trials += 1;
        if self.reported.elapsed() > PROGRESS_INTERVAL {
            self.reported = Instant::now();
            let (trials, faults, seconds) = (self.trials, self.faults, self.begun.elapsed().as_secs());
            eprintln!("   {}, {seconds} s, {faults} faults in {trials} trials: {name}", self.of);
        }
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(faults) => self.faults += faults,
            Err(_) => self.violated(format!("{name}: {}", LAST_PANIC.take())),
        }
    }

    fn violated(&mut self, violation: String) {
        eprintln!("   {}, violation: {violation}", self.of);
        self.violations.push(violation);
    }
}

/// The result of one scenario.
struct Outcome {
    scenario: &'static Scenario,
    trials: Trials,
    seconds: f64,
}

/// The results of all scenarios.
pub(crate) struct Campaign {
    outcomes: Vec<Outcome>,
}

impl Campaign {
    /// Runs these scenarios, one per processor at a time. Each uses its own test environments, and pins what
    /// it traces to one processor. Those that disturb every process of the machine run alone, at the end.
    pub(crate) fn run(scenarios: &[&'static Scenario], plan: Plan) -> Campaign {
        std::panic::set_hook(Box::new(|info| LAST_PANIC.set(info.to_string().replace('\n', " "))));
        // The longest begin first, so that no processor is idle at the end.
        let mut by_length: Vec<_> = scenarios.iter().copied().enumerate().collect();
        by_length.sort_by_key(|(_, scenario)| std::cmp::Reverse(scenario.minutes));
        let (alone, beside): (Vec<_>, Vec<_>) =
            by_length.into_iter().partition(|(_, scenario)| scenario.runs_alone);
        let waiting = Mutex::new(beside.into_iter());
        let attack_next = || {
            let next = waiting.lock().unwrap().next();
            next.map(|(place, scenario)| (place, attack(scenario, plan)))
        };
        let lanes = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut outcomes: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
            let lane = || std::iter::from_fn(attack_next).collect::<Vec<_>>();
            let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
            lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect()
        });
        outcomes.extend(alone.into_iter().map(|(place, scenario)| (place, attack(scenario, plan))));
        outcomes.sort_by_key(|(place, _)| *place);
        Campaign { outcomes: outcomes.into_iter().map(|(_, outcome)| outcome).collect() }
    }

    /// Returns whether every promise held, and every scenario injected at least one fault.
    pub(crate) fn is_clean(&self) -> bool {
        self.outcomes.iter().all(|one| one.trials.violations.is_empty() && one.trials.faults > 0)
    }

    /// Returns the results as a table.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "\n{:<12} {:>8} {:>8} {:>10} {:>9}  promises\n",
            "scenario", "trials", "faults", "violations", "seconds"
        );
        for Outcome { scenario, trials, seconds } in &self.outcomes {
            let violations = trials.violations.len();
            text.push_str(&format!(
                "{:<12} {:>8} {:>8} {violations:>10} {seconds:>9.1}  {}\n",
                scenario.name, trials.trials, trials.faults, scenario.promises
            ));
        }
        for Outcome { scenario, trials, .. } in &self.outcomes {
            if trials.violations.is_empty() && trials.faults == 0 {
                text.push_str(&format!("{}: no fault was injected, so nothing was tested\n", scenario.name));
            }
            for violation in &trials.violations {
                text.push_str(&format!("{}: {violation}\n", scenario.name));
            }
        }
        text
    }

    /// Returns the results as JSON.
    pub(crate) fn json(&self) -> Value {
        let outcomes = self.outcomes.iter().map(|Outcome { scenario, trials, seconds }| {
            json!({
                "scenario": scenario.name, "promises": scenario.promises, "what": scenario.what,
                "mutants": scenario.mutants, "trials": trials.trials, "faults": trials.faults,
                "violations": trials.violations, "seconds": seconds,
            })
        });
        outcomes.collect()
    }
}

fn attack(scenario: &'static Scenario, plan: Plan) -> Outcome {
    eprintln!("== {}: {}", scenario.name, scenario.what);
    let mut trials = Trials::begin(scenario.name, plan);
    require_tools(scenario, &mut trials);
    if trials.violations.is_empty() && catch_unwind(AssertUnwindSafe(|| (scenario.run)(&mut trials))).is_err()
    {
        trials.violated(LAST_PANIC.take());
    }
    let seconds = trials.begun.elapsed().as_secs_f64();
    Outcome { scenario, trials, seconds }
}

/// A scenario whose tools are missing has failed; it is never skipped.
fn require_tools(scenario: &Scenario, trials: &mut Trials) {
    for (program, package) in scenario.tools {
        let found = std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|directory| directory.join(program).exists())
        });
        if !found {
            trials.violations.push(format!("{program} is missing (on Debian: apt-get install {package})"));
        }
    }
}
