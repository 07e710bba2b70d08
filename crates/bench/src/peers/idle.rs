//! The resources that a tool uses while a hundred commands sleep.

use std::time::{Duration, Instant};

use super::Bench;
use super::answer::{Answer, Figure, line, rank, single, time};
use super::chart::Chart;
use super::peer::{RunningPeer, wait_until};
use super::processes::{activity, sum};
use crate::Result;

const COMMANDS: usize = 100;

/// Long enough to see what a tool does twice per minute.
const PAUSE: Duration = Duration::from_secs(30);

/// The time limit for starting them.
const LIMIT: Duration = Duration::from_secs(60);

/// The resources that a tool's own processes use.
struct Burden {
    processes: usize,
    kibibytes: f64,
    switches: f64,
    processor: f64,
}

pub(super) fn ask(bench: &Bench) -> Result<Answer> {
    let mut running_peers = bench.open_all()?;
    for (name, running_peer) in &mut running_peers {
        running_peer.start_many(&["sleep", "600"], COMMANDS, Instant::now() + LIMIT)?;
        let all_run = || Ok(running_peer.sandbox().count("sleep")? == COMMANDS);
        if !wait_until(Instant::now() + LIMIT, all_run)? {
            return Err(
                format!("{name} runs {} of {COMMANDS}", running_peer.sandbox().count("sleep")?).into()
            );
        }
    }
    // Clients and shells that were part of a start have exited by then.
    std::thread::sleep(Duration::from_secs(2));
    let own = running_peers
        .iter()
        .map(|(_, running_peer)| own_processes(running_peer.as_ref()))
        .collect::<Result<Vec<_>>>()?;
    let sample = || own.iter().map(|processes| total(processes)).collect::<Result<Vec<_>>>();
    let before = sample()?;
    std::thread::sleep(PAUSE);
    let after = sample()?;
    let mut burdens = Vec::new();
    for (((name, _), processes), (before, after)) in
        running_peers.iter().zip(&own).zip(before.iter().zip(&after))
    {
        burdens.push((
            *name,
            Burden {
                processes: processes.len(),
                kibibytes: sum(processes, "smaps_rollup", &["Pss"])?.into(),
                switches: (after.0 - before.0).into(),
                processor: after.1.saturating_sub(before.1).as_secs_f64(),
            },
        ));
    }
    Ok(answer(&burdens))
}

/// Returns all processes of a tool except the commands, including shells between it and them.
fn own_processes(running_peer: &dyn RunningPeer) -> Result<Vec<i32>> {
    let others = running_peer.sandbox().processes()?.into_iter().filter(|process| process.name != "sleep");
    Ok(others.map(|process| process.pid).collect())
}

fn total(processes: &[i32]) -> Result<(u32, Duration)> {
    let mut total = (0, Duration::ZERO);
    for pid in processes {
        let (switches, ran) = activity(*pid)?;
        total = (total.0 + switches, total.1 + ran);
    }
    Ok(total)
}

fn memory(kibibytes: f64) -> String {
    format!("{:.1} MiB", kibibytes / 1024.0)
}

fn answer(burdens: &[(&'static str, Burden)]) -> Answer {
    let column = |of: fn(&Burden) -> f64| -> Vec<(&str, Figure)> {
        burdens.iter().map(|(name, burden)| (*name, Ok(of(burden)))).collect()
    };
    let held = column(|burden| burden.kibibytes);
    let switches = column(|burden| burden.switches);
    let count = |value: f64| format!("{value:.0}");
    let seconds = PAUSE.as_secs();
    let mut lines = vec![line([
        "tool",
        "processes of its own",
        "memory",
        &format!("context switches in {seconds} s"),
        &format!("processor time in {seconds} s"),
    ])];
    for (name, burden) in burdens {
        lines.push(line([
            name,
            &burden.processes.to_string(),
            &memory(burden.kibibytes),
            &count(burden.switches),
            &time(burden.processor),
        ]));
    }
    Answer {
        slug: "idle",
        title: format!("{COMMANDS} commands that sleep"),
        method: format!(
            "`sleep 600`, {COMMANDS} times, with every tool at once on the machine. Memory is proportional (what \
             processes share is divided among them) and of everything that is not the command itself: daemons, \
             supervisors, waiting clients, shells in between. Sexton has no daemon and one supervisor per session."
        ),
        lines,
        chart: Chart {
            title: format!("{COMMANDS} commands that sleep"),
            note: "memory of the tool itself, less is better".into(),
            series: Vec::new(),
            groups: single(&held, memory),
        },
        verdict: format!("{} {}", rank("Memory", &held, memory), rank("Context switches", &switches, count)),
        quote: None,
    }
}
