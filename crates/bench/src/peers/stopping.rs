//! How long it takes until stopped commands are gone.

use std::time::{Duration, Instant};

use super::Bench;
use super::answer::{Answer, Figure, bar, cell, line, median, rank, time};
use super::chart::{Chart, Group};
use super::peer::{Peer, RunningPeer, wait_until};
use super::sandbox::Sandbox;
use crate::Result;

const TURNS: usize = 5;
const STUBBORN: usize = 50;

/// When the processes that still live are counted.
const LIMIT: Duration = Duration::from_secs(10);

/// Ignored signals stay ignored after `exec`.
const SCRIPT: &str = "trap '' INT TERM\nexec sleep 600\n";

pub(super) fn ask(bench: &Bench) -> Result<Answer> {
    let mut figures = Vec::new();
    for peer in &bench.peers {
        let both = measure(&**peer).map_err(|error| format!("{}: {error}", peer.name()))?;
        figures.push((peer.name(), both));
    }
    Ok(answer(&figures))
}

fn measure(peer: &dyn Peer) -> Result<(Figure, Figure)> {
    let mut running_peer = peer.open(Sandbox::on_disk()?)?;
    let mut times = Vec::new();
    for _ in 0..TURNS {
        let name = running_peer.start(&["sleep", "600"])?;
        wait_for_sleepers(running_peer.as_ref(), 1)?;
        let stop = running_peer.stop(&name);
        match end(running_peer.as_ref(), vec![stop])? {
            Ok(time) => times.push(time),
            Err(why) => return Ok((Err(why), Err("not tried".into()))),
        }
    }
    drop(running_peer);
    let mut running_peer = peer.open(Sandbox::on_disk()?)?;
    let script = running_peer.sandbox().write("stubborn.sh", SCRIPT)?;
    let script = script.to_str().ok_or("a path that is not text")?;
    running_peer.start_many(&["sh", script], STUBBORN, Instant::now() + LIMIT * 6)?;
    wait_for_sleepers(running_peer.as_ref(), STUBBORN)?;
    let stop = running_peer.stop_all();
    let stubborn = end(running_peer.as_ref(), stop)?;
    Ok((Ok(median(times)), stubborn.map(|time| time.as_secs_f64())))
}

/// A shell counts as a sleeper once it has executed `sleep`, with all signals ignored.
fn wait_for_sleepers(running_peer: &dyn RunningPeer, count: usize) -> Result {
    if wait_until(Instant::now() + LIMIT * 6, || Ok(running_peer.sandbox().count("sleep")? == count))? {
        return Ok(());
    }
    Err(format!("{} of {count} commands run", running_peer.sandbox().count("sleep")?).into())
}

/// Returns how long it takes until the clients have returned and no command lives; or how many live after the
/// limit.
fn end(
    running_peer: &dyn RunningPeer,
    stops: Vec<std::process::Command>,
) -> Result<std::result::Result<Duration, String>> {
    let began = Instant::now();
    for mut stop in stops {
        // The client's exit code is ignored: the processes are checked.
        stop.status()?;
    }
    if wait_until(began + LIMIT, || Ok(running_peer.sandbox().count("sleep")? == 0))? {
        return Ok(Ok(began.elapsed()));
    }
    Ok(Err(format!("leaves {} alive after {} s", running_peer.sandbox().count("sleep")?, LIMIT.as_secs())))
}

fn answer(figures: &[(&'static str, (Figure, Figure))]) -> Answer {
    let column = |of: fn(&(Figure, Figure)) -> &Figure| -> Vec<(&str, Figure)> {
        figures.iter().map(|(name, both)| (*name, of(both).clone())).collect()
    };
    let (plain, stubborn) = (column(|both| &both.0), column(|both| &both.1));
    let head = format!("{STUBBORN} that ignore SIGINT and SIGTERM");
    let mut lines = vec![line(["tool", "one `sleep`", &head])];
    for (name, (plain, stubborn)) in figures {
        lines.push(line([name, &cell(plain, time), &cell(stubborn, time)]));
    }
    let group = |(name, (plain, stubborn)): &(&str, (Figure, Figure))| Group {
        name: (*name).to_owned(),
        bars: vec![bar(plain, time), bar(stubborn, time)],
    };
    Answer {
        slug: "stopping",
        title: "Stopping".into(),
        method: format!(
            "Until the client has returned and no process of the commands lives. A grace of one second where it can be \
             set: `sexton stop --grace 1s`, supervisor's `stopwaitsecs`, pm2's `kill_timeout`. The others have none: \
             `pueue kill` sends SIGKILL at once, `tmux kill-session` SIGHUP, `tsp -k` SIGTERM, and none checks \
             afterwards. One `sleep`: the median of {TURNS}; many at once: once."
        ),
        lines,
        chart: Chart {
            title: "Stopping".into(),
            note: "time until nothing lives, shorter is better; the grace is 1 s where there is one".into(),
            series: vec!["one `sleep`".replace('`', ""), format!("{STUBBORN} stubborn")],
            groups: figures.iter().map(group).collect(),
        },
        verdict: format!("{} {}", rank("One `sleep`", &plain, time), rank("Stubborn ones", &stubborn, time)),
        quote: None,
    }
}
