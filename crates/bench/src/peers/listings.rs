//! How long a listing takes that contains many finished commands.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use super::Bench;
use super::answer::{Answer, Figure, bar, cell, line, median, rank, time};
use super::chart::{Chart, Group};
use super::peer::{Peer, RunningPeer, succeeds_before};
use super::sandbox::Sandbox;
use crate::Result;

const SIZES: [usize; 3] = [100, 1_000, 10_000];

/// The time limit for filling a tool, for each size.
const LIMIT: Duration = Duration::from_secs(20);

/// The time limit for one listing.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often a listing is timed; fewer times if that takes longer than `ENOUGH`.
const TURNS: usize = 7;
const ENOUGH: Duration = Duration::from_secs(4);

pub(super) fn ask(bench: &Bench) -> Result<Answer> {
    let mut figures = Vec::new();
    for peer in &bench.peers {
        figures.push((peer.name(), measure(&**peer).map_err(|error| format!("{}: {error}", peer.name()))?));
    }
    Ok(answer(&figures))
}

fn measure(peer: &dyn Peer) -> Result<[Figure; 3]> {
    let mut figures = SIZES.map(|_| Err("not tried".to_owned()));
    for (size, figure) in SIZES.iter().zip(&mut figures) {
        let mut running_peer = peer.open(Sandbox::on_disk()?)?;
        let listed = running_peer.fill(*size, Instant::now() + LIMIT)?;
        *figure = if listed == *size {
            list(running_peer.as_ref())?
        } else {
            Err(format!("gave up after {} s, at {listed}", LIMIT.as_secs()))
        };
        if figure.is_err() {
            break;
        }
    }
    Ok(figures)
}

/// Returns the time of one listing, from before its client is started until it is reaped.
fn list(running_peer: &dyn RunningPeer) -> Result<Figure> {
    let mut times = Vec::new();
    let began = Instant::now();
    // The first listing is not timed, so that no figure includes a cold cache, and it must print something.
    for turn in 0..=TURNS {
        let mut command = running_peer.listing();
        let output = running_peer.sandbox().path().join("listing");
        if turn == 0 {
            command.stdout(File::create(&output)?);
        }
        let started = Instant::now();
        // Some tools report with their exit code that not everything runs; that is not a failure.
        succeeds_before(started + PATIENCE, &mut command)?;
        let took = started.elapsed();
        if took > PATIENCE {
            return Ok(Err(format!("no answer in {} s", PATIENCE.as_secs())));
        }
        if turn > 0 {
            times.push(took);
        } else if fs::metadata(output)?.len() == 0 {
            return Err("a listing is empty".into());
        }
        if turn > 1 && began.elapsed() > ENOUGH {
            break;
        }
    }
    Ok(Ok(median(times)))
}

fn answer(figures: &[(&'static str, [Figure; 3])]) -> Answer {
    let sizes = ["100 finished", "1,000 finished", "10,000 finished"];
    let mut lines = vec![line(["tool", sizes[0], sizes[1], sizes[2]])];
    for (name, row) in figures {
        lines
            .push([vec![(*name).to_owned()], row.iter().map(|figure| cell(figure, time)).collect()].concat());
    }
    let group = |(name, row): &(&str, [Figure; 3])| Group {
        name: (*name).to_owned(),
        bars: row.iter().map(|figure| bar(figure, time)).collect(),
    };
    let at = |size: usize| -> Vec<(&str, Figure)> {
        figures.iter().map(|(name, row)| (*name, row[size].clone())).collect()
    };
    Answer {
        slug: "listings",
        title: "Listing what has ended".into(),
        method: format!(
            "The listing for people with everything in it: `sexton ps --all`, `pueue status`, `tsp`, `tmux list-panes -a` \
             (with `remain-on-exit`), `supervisorctl status`, `pm2 list`. Sexton and pueue are filled through their \
             state; the others run `true` as often, for at most {} s at each size. supervisor lists what is \
             configured, which here was not started. `sexton ps` without `--all` shows what runs and does not grow \
             with what has ended (see Records below).",
            LIMIT.as_secs()
        ),
        lines,
        chart: Chart {
            title: "Listing what has ended".into(),
            note: "time, shorter is better".into(),
            series: sizes.iter().map(|size| (*size).to_owned()).collect(),
            groups: figures.iter().map(group).collect(),
        },
        verdict: format!("{} {}", rank("With 1,000", &at(1), time), rank("With 10,000", &at(2), time)),
        quote: None,
    }
}
