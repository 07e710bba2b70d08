//! Supervisors that have nothing to do: what they hold, and whether they sleep.

use std::fs;
use std::time::Duration;

use super::yard::{Yard, pid_of};
use super::{Bench, row};
use crate::Result;
use crate::bench::table::{Figure, Goal, Row};

const SESSIONS: u32 = 100;
const PAUSE: Duration = Duration::from_secs(10);

/// Half a mebibyte.
const MEMORY_GOAL: Figure = Figure::Kibibytes(512.0);

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let yard = Yard::make(&bench.sexton, bench.directory.path().join("idle"), "")?;
    for _ in 0..SESSIONS {
        yard.start(&["sleep", "600"])?;
    }
    let records = yard.running()?;
    let shims = records.iter().map(|record| pid_of(record, "supervisor")).collect::<Result<Vec<_>>>()?;
    if shims.len() != SESSIONS as usize {
        return Err(format!("{} of {SESSIONS} sessions run", shims.len()).into());
    }
    let memory = sum(&shims, "smaps_rollup", &["Pss"])?;
    let before = sum(&shims, "status", &SWITCHES)?;
    std::thread::sleep(PAUSE);
    let switches = sum(&shims, "status", &SWITCHES)? - before;
    let (none, seconds) = (Figure::Count(0), PAUSE.as_secs());
    Ok(vec![
        row(
            format!("proportional memory of a supervisor, {SESSIONS} running"),
            Figure::Kibibytes(f64::from(memory) / f64::from(SESSIONS)),
            MEMORY_GOAL,
            Goal::Within,
        ),
        row(
            format!("context switches of {SESSIONS} idle supervisors in {seconds} s"),
            Figure::Count(switches),
            none,
            Goal::Within,
        ),
    ])
}

const SWITCHES: [&str; 2] = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"];

/// The sum of some numbers that `/proc/PID/FILE` has under these names, over all processes.
fn sum(processes: &[u64], file: &str, names: &[&str]) -> Result<u32> {
    let mut total = 0;
    for pid in processes {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}"))?;
        for name in names {
            total += find_number(&text, name).ok_or_else(|| format!("/proc/{pid}/{file} has no {name}"))?;
        }
    }
    Ok(total)
}

fn find_number(text: &str, name: &str) -> Option<u32> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_name_counts() {
        let status = "Name:\tx\nnonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t5\nPss: 12 kB\n";
        assert_eq!(SWITCHES.map(|name| find_number(status, name)), [Some(5), Some(7)]);
        assert_eq!(find_number(status, "Pss"), Some(12));
        assert_eq!(find_number(status, "Ps"), None);
    }
}
