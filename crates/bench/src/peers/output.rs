//! A command that writes a lot: the cost of keeping its output.

use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use sexton_workspace::processor_time::{processor_time, processor_time_of_children};

use super::Bench;
use super::answer::{Answer, Figure, bar, cell, line, median, rank, time};
use super::chart::{Chart, Group};
use super::peer::{Peer, RunningPeer, wait_until};
use super::sandbox::Sandbox;
use crate::Result;

const ROUNDS: usize = 3;

/// The time limit for one round.
const LIMIT: Duration = Duration::from_secs(30);

/// A round that takes longer than this is not repeated.
const SLOW: Duration = Duration::from_secs(4);

/// Sixteen times this is one GiB.
const PART: usize = 64 << 20;

/// Writes a file of text, line by line, sixteen times.
const WRITER: &str =
    "for part in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do dd if=\"$1\" bs=64K status=none; done\n";

/// The cost of one round.
struct Cost {
    wall: Duration,
    processor: Duration,
}

pub(super) fn ask(bench: &Bench) -> Result<Answer> {
    let text = "a line of output as an agent writes it, of eighty characters with its line end\n";
    let source = Sandbox::in_memory()?;
    let path = source.write("text", &text.repeat(PART / text.len()))?;
    let path = path.to_str().ok_or("a path that is not text")?;
    // Orphaned processes of a tool become children of this process, so that it sees when they exit and what
    // they used.
    set_child_subreaper(Some(getpid()))?;
    let figures = bench.peers.iter().map(|peer| Ok((peer.name(), measure(&**peer, path)?))).collect();
    set_child_subreaper(None)?;
    let figures: Result<Vec<_>> = figures;
    Ok(answer(&figures?))
}

fn measure(peer: &dyn Peer, text: &str) -> Result<(Figure, Figure)> {
    let mut costs: Vec<Cost> = Vec::new();
    for _ in 0..ROUNDS {
        if costs.iter().any(|cost| cost.wall > SLOW) {
            break;
        }
        let running_peer = peer.open(Sandbox::in_memory()?)?;
        match write(running_peer, text).map_err(|error| format!("{}: {error}", peer.name()))? {
            Some(cost) => costs.push(cost),
            None => {
                let why = format!("gave up after {} s", LIMIT.as_secs());
                return Ok((Err(why.clone()), Err(why)));
            }
        }
    }
    let column = |of: fn(&Cost) -> Duration| Ok(median(costs.iter().map(of).collect()));
    Ok((column(|cost| cost.wall), column(|cost| cost.processor)))
}

/// Runs one round; returns nothing if it took too long.
fn write(mut running_peer: Box<dyn RunningPeer>, text: &str) -> Result<Option<Cost>> {
    let script = running_peer.sandbox().write("writer.sh", WRITER)?;
    let script = script.to_str().ok_or("a path that is not text")?.to_owned();
    let daemons: Vec<i32> = running_peer.sandbox().processes()?.iter().map(|process| process.pid).collect();
    let used_by_daemons = |daemons: &[i32]| daemons.iter().map(|pid| processor_time(*pid)).sum::<Duration>();
    reap();
    let before = processor_time_of_children()? + used_by_daemons(&daemons);
    let began = Instant::now();
    let deadline = began + LIMIT;
    running_peer.start(&["sh", &script, text])?;
    // Polling a tool slows it down, and would be counted as its own time: its processes are watched first.
    let is_over = || {
        reap();
        let writes = |name: &str| matches!(name, "sh" | "dd");
        Ok(running_peer.sandbox().processes()?.iter().all(|process| !writes(&process.name)))
    };
    let in_time = wait_until(deadline, is_over)?;
    let asked = processor_time_of_children()?;
    let in_time = in_time && running_peer.settle(1, deadline)?;
    let wall = began.elapsed();
    let asking = processor_time_of_children()?.saturating_sub(asked);
    // The supervisors of Sexton and the clients of task-spooler exit shortly after the command.
    let only_daemons = || {
        reap();
        Ok(running_peer.sandbox().processes()?.iter().all(|process| daemons.contains(&process.pid)))
    };
    if !in_time || !wait_until(Instant::now() + LIMIT, only_daemons)? {
        return Ok(None);
    }
    let after = processor_time_of_children()? + used_by_daemons(&daemons);
    Ok(Some(Cost { wall, processor: after.saturating_sub(before).saturating_sub(asking) }))
}

/// Reaps exited processes that became children of this one.
fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

fn answer(figures: &[(&'static str, (Figure, Figure))]) -> Answer {
    let column = |of: fn(&(Figure, Figure)) -> &Figure| -> Vec<(&str, Figure)> {
        figures.iter().map(|(name, both)| (*name, of(both).clone())).collect()
    };
    let (wall, processor) = (column(|both| &both.0), column(|both| &both.1));
    let mut lines = vec![line(["tool", "time", "processor time"])];
    for (name, (wall, processor)) in figures {
        lines.push(line([name, &cell(wall, time), &cell(processor, time)]));
    }
    let group = |(name, (wall, processor)): &(&str, (Figure, Figure))| Group {
        name: (*name).to_owned(),
        bars: vec![bar(wall, time), bar(processor, time)],
    };
    Answer {
        slug: "output",
        title: "A command that writes 1 GiB".into(),
        method: format!(
            "Lines of text, written by `dd` in blocks of 64 KiB to the standard output that the tool gives it, with its \
             files in memory; until the tool knows that the command has ended. Processor time is that of the command, \
             the client and the tool's own processes. Sexton keeps the last 64 MiB, supervisor 50 MB and ten older \
             files, tmux the last 2,000 lines of what it draws, pueue, task-spooler and pm2 all of it. Medians of \
             {ROUNDS} rounds, one where a round takes more than {} s.",
            SLOW.as_secs()
        ),
        lines,
        chart: Chart {
            title: "A command that writes 1 GiB".into(),
            note: "time, shorter is better".into(),
            series: vec!["time".into(), "processor time".into()],
            groups: figures.iter().map(group).collect(),
        },
        verdict: format!("{} {}", rank("Time", &wall, time), rank("Processor time", &processor, time)),
        quote: None,
    }
}
