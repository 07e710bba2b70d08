//! Many commands, until the tool reports that the last one has ended.

use std::time::{Duration, Instant};

use super::Bench;
use super::answer::{Answer, Figure, cell, line, median, rank, single, time};
use super::chart::Chart;
use super::peer::Peer;
use super::sandbox::Sandbox;
use crate::Result;

const COMMANDS: usize = 500;
const ROUNDS: usize = 3;

/// The time limit for one round.
const LIMIT: Duration = Duration::from_secs(60);

/// A round that takes longer than this is not repeated.
const SLOW: Duration = Duration::from_secs(10);

pub(super) fn ask(bench: &Bench) -> Result<Answer> {
    let mut times: Vec<(&dyn Peer, Vec<Duration>, Option<String>)> =
        bench.peers.iter().map(|peer| (&**peer, Vec::new(), None)).collect();
    for _ in 0..ROUNDS {
        for (peer, times, gave_up) in &mut times {
            if gave_up.is_some() || times.iter().any(|time| *time > SLOW) {
                continue;
            }
            match run(*peer)? {
                Ok(time) => times.push(time),
                Err(why) => *gave_up = Some(why),
            }
        }
    }
    let figures: Vec<(&str, Figure)> = times
        .into_iter()
        .map(|(peer, times, gave_up)| (peer.name(), gave_up.map_or_else(|| Ok(median(times)), Err)))
        .collect();
    Ok(answer(&figures))
}

/// Runs one round; returns why it was given up if it took too long.
fn run(peer: &dyn Peer) -> Result<std::result::Result<Duration, String>> {
    let mut running_peer = peer.open(Sandbox::on_disk()?)?;
    let began = Instant::now();
    let deadline = began + LIMIT;
    running_peer.start_many(&["true"], COMMANDS, deadline)?;
    if running_peer.settle(COMMANDS, deadline)? {
        return Ok(Ok(began.elapsed()));
    }
    Ok(Err(format!("gave up after {} s with {} ended", LIMIT.as_secs(), running_peer.known()?.ended)))
}

fn answer(figures: &[(&str, Figure)]) -> Answer {
    let each = |seconds: f64| time(seconds / COMMANDS as f64);
    let mut lines = vec![line(["tool", "in all", "each"])];
    lines.extend(figures.iter().map(|(name, figure)| line([name, &cell(figure, time), &cell(figure, each)])));
    let title = format!("{COMMANDS} commands, until all are known to have ended");
    Answer {
        slug: "many",
        method: format!(
            "{COMMANDS} times `true`, from the first start until the tool's own list says that all of them have ended. \
             Sexton, pueue, task-spooler and tmux are called once for each; supervisor gets one section with \
             `numprocs={COMMANDS}` and pm2 files with {COMMANDS} apps, which is their quickest way: no client is \
             executed {COMMANDS} times. Medians of {ROUNDS} rounds, one where a round takes more than {} s.",
            SLOW.as_secs()
        ),
        lines,
        chart: Chart {
            title: title.clone(),
            note: "time, shorter is better".into(),
            series: Vec::new(),
            groups: single(figures, time),
        },
        title,
        verdict: rank("In all", figures, time),
        quote: None,
    }
}
