//! What happens to commands whose supervising process is killed.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use super::Bench;
use super::answer::{Answer, bar, line, others};
use super::chart::{Chart, Group};
use super::peer::{Known, RunningPeer, wait_until};
use super::sandbox::Sandbox;
use crate::Result;

const COMMANDS: usize = 5;

/// Exits while it is not watched, with a code that does not occur by accident.
const LEAVER: &str = "sleep 3\nexit 7\n";
const CODE: i64 = 7;

/// Longer than it takes to start them.
const LIMIT: Duration = Duration::from_secs(30);

/// What was observed.
struct Observation {
    name: &'static str,
    killed: &'static str,
    /// How many of the commands run after a while without their guardian.
    alone: usize,
    then: &'static str,
    /// How many of the commands run after the guardian was started again.
    alive: usize,
    /// How many commands were started a second time.
    copies: usize,
    known: Known,
    /// How many the tool reports as running, without the one that exits by itself if it was started again.
    watched: usize,
    /// The exit code of the one that exited meanwhile.
    code: Option<i64>,
}

pub(super) fn ask(bench: &Bench) -> Result<Answer> {
    let mut observations = Vec::new();
    for peer in &bench.peers {
        let name = peer.name();
        let killed = if name == "sexton" { "all supervisors" } else { "its daemon" };
        let running_peer = peer.open(Sandbox::on_disk()?)?;
        observations.push(
            play(name, killed, running_peer, kill_guardians).map_err(|error| format!("{name}: {error}"))?,
        );
    }
    observations.insert(1, play_owner(bench)?);
    Ok(answer(&observations))
}

/// Kills the processes that watch the commands, and waits until they are gone: if one were missed, the tool
/// would look like one that needs none.
fn kill_guardians(running_peer: &dyn RunningPeer) -> Result {
    let guardians = running_peer.guardians()?;
    if guardians.is_empty() {
        return Err("no process watches the commands".into());
    }
    for guardian in &guardians {
        running_peer.sandbox().kill(guardian)?;
    }
    let is_gone = || {
        let left = running_peer.sandbox().processes()?;
        Ok(guardians.iter().all(|guardian| left.iter().all(|process| process.pid != guardian.pid)))
    };
    if wait_until(Instant::now() + LIMIT, is_gone)? { Ok(()) } else { Err("a guardian does not end".into()) }
}

/// Sexton again: its sessions have an owner process, and that is killed.
fn play_owner(bench: &Bench) -> Result<Observation> {
    let mut owner = Command::new("sleep").arg("600").spawn()?;
    let mut running_sexton = bench.sexton.open_sexton(Sandbox::on_disk()?)?;
    running_sexton.own_by(owner.id());
    let observation =
        play("sexton", "the process that owns them", Box::new(running_sexton), |_| Ok(owner.kill()?));
    // It is our child and not reaped before this, so its pid is not reused.
    let _ = owner.kill();
    let _ = owner.wait();
    observation
}

fn sleepers(running_peer: &dyn RunningPeer) -> Result<BTreeSet<i32>> {
    let found = running_peer.sandbox().processes()?.into_iter().filter(|process| process.role.is_none());
    Ok(found.filter(|process| process.name == "sleep").map(|process| process.pid).collect())
}

fn play(
    name: &'static str,
    killed: &'static str,
    mut running_peer: Box<dyn RunningPeer>,
    kill: impl FnOnce(&dyn RunningPeer) -> Result,
) -> Result<Observation> {
    running_peer.start_many(&["sleep", "600"], COMMANDS, Instant::now() + LIMIT)?;
    if !wait_until(Instant::now() + LIMIT, || Ok(sleepers(running_peer.as_ref())?.len() == COMMANDS))? {
        return Err("not every command runs".into());
    }
    let before = sleepers(running_peer.as_ref())?;
    let script = running_peer.sandbox().write("leaver.sh", &format!("export BENCH_ROLE=leaver\n{LEAVER}"))?;
    let leaver = running_peer.start(&["sh", script.to_str().ok_or("a path that is not text")?])?;
    let leaves = |running_peer: &dyn RunningPeer| -> Result<bool> {
        Ok(running_peer
            .sandbox()
            .processes()?
            .iter()
            .any(|process| process.role.as_deref() == Some("leaver")))
    };
    wait_until(Instant::now() + LIMIT, || leaves(running_peer.as_ref()))?;
    running_peer.prepare_return()?;
    kill(running_peer.as_ref())?;
    // Wait until the one that exits by itself has exited, and a tool has had time to notice it.
    wait_until(Instant::now() + LIMIT, || Ok(!leaves(running_peer.as_ref())?))?;
    std::thread::sleep(Duration::from_secs(2));
    let of_before = |running_peer: &dyn RunningPeer| {
        Ok::<_, Box<dyn std::error::Error>>(before.intersection(&sleepers(running_peer)?).count())
    };
    let alone = of_before(running_peer.as_ref())?;
    running_peer.come_back()?;
    std::thread::sleep(Duration::from_secs(1));
    let alive = of_before(running_peer.as_ref())?;
    let copies = sleepers(running_peer.as_ref())?.difference(&before).count();
    let again = usize::from(leaves(running_peer.as_ref())?);
    let (known, code) = (running_peer.known()?, running_peer.exit_code(&leaver).unwrap_or_default());
    let (watched, then) = (known.running.saturating_sub(again), running_peer.return_words());
    Ok(Observation { name, killed, alone, then, alive, copies, known, watched, code })
}

/// Describes the state of the commands afterwards.
fn words(observation: &Observation) -> String {
    let Observation { alone, alive, copies, known, watched, .. } = observation;
    let first = match alone {
        0 => "they ended with it".to_owned(),
        _ if *alone == COMMANDS => "all ran on".to_owned(),
        some => format!("{some} of {COMMANDS} ran on"),
    };
    let then = match (alive, copies, watched) {
        (0, 0, 0) => "nothing runs".to_owned(),
        (0, copies, _) if *copies > 0 => format!("{copies} new ones were started in their place"),
        (alive, 0, running) if running >= alive => format!("{alive} run and are known to"),
        (alive, 0, 0) => format!("**{alive} run and it knows of none that does**"),
        (alive, 0, running) => format!("{alive} run, {running} are known to"),
        (alive, copies, _) => {
            format!("**{alive} still run, and {copies} were started a second time beside them**")
        }
    };
    let records = match known.running + known.ended {
        0 => "every record is gone".to_owned(),
        all => format!("{all} of {} records", COMMANDS + 1),
    };
    format!("{first}; then {then}; {records}")
}

fn outcome(observation: &Observation) -> String {
    let is_forgotten = observation.known.running + observation.known.ended == 0;
    match observation.code {
        Some(CODE) => "exit code 7, right".into(),
        Some(code) => format!("exit code {code}, wrong"),
        None if is_forgotten => "forgotten".into(),
        None if observation.alone == 0 => "ended with the others, and is recorded so".into(),
        None => "not known".into(),
    }
}

fn answer(observations: &[Observation]) -> Answer {
    let mut lines = vec![line([
        "tool",
        "`kill -9` of",
        "its user then calls",
        "what was seen",
        "the one that ended meanwhile",
    ])];
    for observation in observations {
        lines.push(line([
            observation.name,
            observation.killed,
            observation.then,
            &words(observation),
            &outcome(observation),
        ]));
    }
    let count = |value: f64| format!("{value:.0}");
    let group = |observation: &Observation| {
        let unknown = (observation.alive + observation.copies).saturating_sub(observation.watched);
        let name = if observation.killed.contains("owns") { "sexton (owner)" } else { observation.name };
        let beside = if observation.alive > 0 { observation.copies } else { 0 };
        let bars = [unknown, beside].map(|number| bar(&Ok(number as f64), count));
        Group { name: name.to_owned(), bars: bars.to_vec() }
    };
    let groups: Vec<Group> = observations.iter().map(group).collect();
    let is_bad = |group: &&Group| group.bars.iter().any(|bar| bar.value > Some(0.0));
    let bad: Vec<&str> = groups.iter().filter(is_bad).map(|group| group.name.as_str()).collect();
    let good: Vec<&str> =
        groups.iter().filter(|group| !is_bad(group)).map(|group| group.name.as_str()).collect();
    let list = |names: &[&str]| if names.is_empty() { "no tool".to_owned() } else { names.join(", ") };
    let codes: Vec<&str> = observations
        .iter()
        .filter(|observation| observation.code == Some(CODE))
        .map(|observation| observation.name)
        .collect();
    let verdict = format!(
        "Commands that run unknown to their tool, or that run twice: {}. None: {}. The exit code of the one that \
         ended meanwhile is known to: {}.",
        list(&bad),
        list(&good),
        list(&codes)
    );
    Answer {
        slug: "crashes",
        title: "When the guardian is killed".into(),
        method: format!(
            "{COMMANDS} times `sleep 600`, and one command that exits with code 7 after 3 s. Then `kill -9` of what \
             watches over them, and when the one has ended what the user of the tool would call. Sexton is asked \
             twice: without its supervisors, and when the process that owns the sessions dies (`owner.grace` is 1 s)."
        ),
        lines,
        chart: Chart {
            title: "When the guardian is killed".into(),
            note: format!("of {COMMANDS} commands after it was started again, fewer is better"),
            series: vec!["run and it does not know".into(), "run twice".into()],
            groups,
        },
        verdict,
        quote: Some(quote(observations)),
    }
}

/// Returns how many commands run unknown to their tool, or run twice.
fn count_astray(observation: &Observation) -> usize {
    let beside = if observation.alive > 0 { observation.copies } else { 0 };
    // Only of the commands that were to continue; one that had exited may have been started again as well.
    (observation.alive + observation.copies).saturating_sub(observation.watched).max(beside).min(COMMANDS)
}

fn quote(observations: &[Observation]) -> String {
    let astray = |observation: &Observation| count_astray(observation) as f64;
    let ours = observations
        .iter()
        .filter(|observation| observation.name == "sexton")
        .map(astray)
        .fold(0.0, f64::max);
    let figures: Vec<_> =
        observations.iter().map(|observation| (observation.name, Ok(astray(observation)))).collect();
    let show = |value: f64| if value > 0.0 { format!("{value:.0}") } else { "none".to_owned() };
    format!(
        "of {COMMANDS} commands whose guardian was killed and started again, {} run twice or unknown to it ({})",
        show(ours),
        others(&figures, show)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(alone: usize, alive: usize, copies: usize, running: usize, ended: usize) -> Observation {
        let known = Known { running, ended };
        let (name, killed, then, code) = ("a", "its daemon", "", None);
        Observation { name, killed, alone, then, alive, copies, known, watched: running, code }
    }

    #[test]
    fn observations_are_described() {
        for (observation, expected) in [
            (observation(0, 0, 0, 0, 6), "they ended with it; then nothing runs; 6 of 6 records"),
            (observation(5, 5, 0, 5, 1), "all ran on; then 5 run and are known to; 6 of 6 records"),
            (
                observation(5, 5, 0, 0, 0),
                "all ran on; then **5 run and it knows of none that does**; every record is gone",
            ),
            (
                observation(0, 0, 5, 5, 1),
                "they ended with it; then 5 new ones were started in their place; 6 of 6 records",
            ),
            (
                observation(3, 3, 5, 5, 1),
                "3 of 5 ran on; then **3 still run, and 5 were started a second time beside them**; 6 of 6 records",
            ),
        ] {
            assert_eq!(words(&observation), expected);
        }
    }

    #[test]
    fn an_outcome_is_right_wrong_unknown_or_forgotten() {
        let known = |code| outcome(&Observation { code, ..observation(5, 5, 0, 5, 1) });
        assert_eq!(known(Some(7)), "exit code 7, right");
        assert_eq!(known(Some(0)), "exit code 0, wrong");
        assert_eq!(known(None), "not known");
        assert_eq!(outcome(&observation(5, 5, 0, 0, 0)), "forgotten");
        assert_eq!(outcome(&observation(0, 0, 0, 0, 6)), "ended with the others, and is recorded so");
    }
}
