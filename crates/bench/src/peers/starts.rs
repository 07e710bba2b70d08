//! How long it takes to start one command.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::Bench;
use super::answer::{Answer, Figure, bar, line, median, others, rank, time};
use super::chart::{Chart, Group};
use super::peer::RunningPeer;
use crate::Result;

const TURNS: usize = 11;

/// Longer than any start takes.
const LIMIT: Duration = Duration::from_secs(30);

/// How often the command's trace is checked.
const PAUSE: Duration = Duration::from_micros(100);

pub(super) fn ask(bench: &Bench) -> Result<Answer> {
    let mut running_peers = bench.open_all()?;
    let mut times: Vec<(Vec<Duration>, Vec<Duration>)> =
        running_peers.iter().map(|_| Default::default()).collect();
    for turn in 0..=TURNS {
        for ((name, running_peer), (returned, ran)) in running_peers.iter_mut().zip(&mut times) {
            let once = start(running_peer.as_mut()).map_err(|error| format!("{name}: {error}"))?;
            if !running_peer.settle(turn + 1, Instant::now() + LIMIT)? {
                return Err(format!("{name} does not notice that a command has ended").into());
            }
            // The first turn is not timed, so that no figure includes a cold cache.
            if turn > 0 {
                returned.push(once.0);
                ran.push(once.1);
            }
        }
    }
    let names = running_peers.iter().map(|(name, _)| *name);
    let medians = times.into_iter().map(|(returned, ran)| (median(returned), median(ran)));
    Ok(answer(&names.zip(medians).collect::<Vec<_>>()))
}

/// Returns when the client had returned, and when the command had run.
fn start(running_peer: &mut dyn RunningPeer) -> Result<(Duration, Duration)> {
    let trace = running_peer.sandbox().path().join("trace");
    let trace_word = trace.to_str().ok_or("a path that is not text")?.to_owned();
    let mut starter = running_peer.starter(&["touch", &trace_word])?;
    starter.stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let mut client = starter.spawn()?;
    let (mut returned, mut ran) = (None, None);
    while returned.is_none() || ran.is_none() {
        if returned.is_none()
            && let Some(status) = client.try_wait()?
        {
            returned = Some(began.elapsed());
            if !status.success() {
                return Err(format!("a start failed: {status}").into());
            }
        }
        if ran.is_none() && Path::new(&trace).exists() {
            ran = Some(began.elapsed());
        }
        if began.elapsed() > LIMIT {
            // It is our child and not reaped yet, so its pid is not reused.
            let _ = client.kill();
            let _ = client.wait();
            return Err("a command does not start".into());
        }
        std::thread::sleep(PAUSE);
    }
    std::fs::remove_file(trace)?;
    Ok((returned.unwrap_or_default(), ran.unwrap_or_default()))
}

fn answer(figures: &[(&'static str, (f64, f64))]) -> Answer {
    let column = |of: fn(&(f64, f64)) -> f64| -> Vec<(&str, Figure)> {
        figures.iter().map(|(name, both)| (*name, Ok(of(both)))).collect()
    };
    let (returned, ran) = (column(|both| both.0), column(|both| both.1));
    let mut lines = vec![line(["tool", "until the client returns", "until the command has run"])];
    lines.extend(figures.iter().map(|(name, both)| line([name, &time(both.0), &time(both.1)])));
    let group = |((name, returned), (_, ran)): (&(&str, Figure), &(&str, Figure))| Group {
        name: (*name).to_owned(),
        bars: vec![bar(returned, time), bar(ran, time)],
    };
    let own = figures.first().map_or(0.0, |(_, both)| both.0);
    Answer {
        slug: "starts",
        title: "Starting one command".into(),
        method: format!(
            "`touch FILE`, {TURNS} turns: until the client that starts it has returned, and until the file is there. \
             Sexton returns once the record is durable and the command is running; the others wait for no disk. \
             supervisor knows no command that is not configured: a section is written (not timed) and \
             `supervisorctl update` called."
        ),
        lines,
        chart: Chart {
            title: "Starting one command".into(),
            note: "time, shorter is better".into(),
            series: vec!["client has returned".into(), "command has run".into()],
            groups: returned.iter().zip(&ran).map(group).collect(),
        },
        verdict: format!(
            "{} {}",
            rank("Until the client returns", &returned, time),
            rank("Until the command has run", &ran, time)
        ),
        quote: Some(format!("a start returns after {} ({})", time(own), others(&returned, time))),
    }
}
