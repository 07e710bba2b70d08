//! What becomes of commands whose guardian is killed.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use super::Bench;
use super::answer::{Answer, bar, line, others};
use super::chart::{Chart, Group};
use super::ground::Ground;
use super::peer::{Keeper, Known, wait_until};
use crate::Result;

const COMMANDS: usize = 5;

/// Ends while nobody watches, with a code that is not an accident.
const LEAVER: &str = "sleep 3\nexit 7\n";
const CODE: i64 = 7;

/// Longer than it takes to start them.
const LIMIT: Duration = Duration::from_secs(30);

/// What was seen.
struct Scene {
    name: &'static str,
    killed: &'static str,
    /// Of the commands, after a while without their guardian.
    alone: usize,
    then: &'static str,
    /// Of the commands, after it was started again.
    alive: usize,
    /// What was started once more.
    copies: usize,
    known: Known,
    /// What is known to run, without the one that ends by itself where it was started again.
    watched: usize,
    /// Of the one that ended meanwhile.
    code: Option<i64>,
}

pub(super) fn ask(bench: &Bench) -> Result<Answer> {
    let mut scenes = Vec::new();
    for peer in &bench.peers {
        let name = peer.name();
        let killed = if name == "sexton" { "all supervisors" } else { "its daemon" };
        let keeper = peer.open(Ground::on_disk()?)?;
        scenes.push(play(name, killed, keeper, kill_guardians).map_err(|error| format!("{name}: {error}"))?);
    }
    scenes.insert(1, play_owner(bench)?);
    Ok(answer(&scenes))
}

/// Kills whoever watches over the commands, and waits until they are gone: one that was missed would be taken
/// for a tool that needs none.
fn kill_guardians(keeper: &dyn Keeper) -> Result {
    let guardians = keeper.guardians()?;
    if guardians.is_empty() {
        return Err("nobody watches over the commands".into());
    }
    for guardian in &guardians {
        keeper.ground().kill(guardian)?;
    }
    let is_gone = || {
        let left = keeper.ground().processes()?;
        Ok(guardians.iter().all(|guardian| left.iter().all(|process| process.pid != guardian.pid)))
    };
    if wait_until(Instant::now() + LIMIT, is_gone)? { Ok(()) } else { Err("a guardian does not end".into()) }
}

/// Sexton once more: its sessions belong to a process, and that is killed.
fn play_owner(bench: &Bench) -> Result<Scene> {
    let mut owner = Command::new("sleep").arg("600").spawn()?;
    let mut house = bench.sexton.open_house(Ground::on_disk()?)?;
    house.own_by(owner.id());
    let scene = play("sexton", "the process that owns them", Box::new(house), |_| Ok(owner.kill()?));
    // Ours and not reaped before, so its number is its own.
    let _ = owner.kill();
    let _ = owner.wait();
    scene
}

fn sleepers(keeper: &dyn Keeper) -> Result<BTreeSet<i32>> {
    let found = keeper.ground().processes()?.into_iter().filter(|process| process.role.is_none());
    Ok(found.filter(|process| process.name == "sleep").map(|process| process.pid).collect())
}

fn play(
    name: &'static str,
    killed: &'static str,
    mut keeper: Box<dyn Keeper>,
    kill: impl FnOnce(&dyn Keeper) -> Result,
) -> Result<Scene> {
    keeper.start_many(&["sleep", "600"], COMMANDS, Instant::now() + LIMIT)?;
    if !wait_until(Instant::now() + LIMIT, || Ok(sleepers(keeper.as_ref())?.len() == COMMANDS))? {
        return Err("not every command runs".into());
    }
    let before = sleepers(keeper.as_ref())?;
    let script = keeper.ground().write("leaver.sh", &format!("export BENCH_ROLE=leaver\n{LEAVER}"))?;
    let leaver = keeper.start(&["sh", script.to_str().ok_or("a path that is not text")?])?;
    let leaves = |keeper: &dyn Keeper| -> Result<bool> {
        Ok(keeper.ground().processes()?.iter().any(|process| process.role.as_deref() == Some("leaver")))
    };
    wait_until(Instant::now() + LIMIT, || leaves(keeper.as_ref()))?;
    keeper.prepare_return()?;
    kill(keeper.as_ref())?;
    // Until the one that ends by itself has, and what notices by itself could.
    wait_until(Instant::now() + LIMIT, || Ok(!leaves(keeper.as_ref())?))?;
    std::thread::sleep(Duration::from_secs(2));
    let of_before = |keeper: &dyn Keeper| {
        Ok::<_, Box<dyn std::error::Error>>(before.intersection(&sleepers(keeper)?).count())
    };
    let alone = of_before(keeper.as_ref())?;
    keeper.come_back()?;
    std::thread::sleep(Duration::from_secs(1));
    let alive = of_before(keeper.as_ref())?;
    let copies = sleepers(keeper.as_ref())?.difference(&before).count();
    let again = usize::from(leaves(keeper.as_ref())?);
    let (known, code) = (keeper.known()?, keeper.exit_code(&leaver).unwrap_or_default());
    let (watched, then) = (known.running.saturating_sub(again), keeper.return_words());
    Ok(Scene { name, killed, alone, then, alive, copies, known, watched, code })
}

/// What is true of the commands afterwards, in words.
fn words(scene: &Scene) -> String {
    let Scene { alone, alive, copies, known, watched, .. } = scene;
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

fn outcome(scene: &Scene) -> String {
    let is_forgotten = scene.known.running + scene.known.ended == 0;
    match scene.code {
        Some(CODE) => "exit code 7, right".into(),
        Some(code) => format!("exit code {code}, wrong"),
        None if is_forgotten => "forgotten".into(),
        None if scene.alone == 0 => "ended with the others, and is recorded so".into(),
        None => "not known".into(),
    }
}

fn answer(scenes: &[Scene]) -> Answer {
    let mut lines = vec![line([
        "tool",
        "`kill -9` of",
        "its user then calls",
        "what was seen",
        "the one that ended meanwhile",
    ])];
    for scene in scenes {
        lines.push(line([scene.name, scene.killed, scene.then, &words(scene), &outcome(scene)]));
    }
    let count = |value: f64| format!("{value:.0}");
    let group = |scene: &Scene| {
        let unknown = (scene.alive + scene.copies).saturating_sub(scene.watched);
        let name = if scene.killed.contains("owns") { "sexton (owner)" } else { scene.name };
        let beside = if scene.alive > 0 { scene.copies } else { 0 };
        let bars = [unknown, beside].map(|number| bar(&Ok(number as f64), count));
        Group { name: name.to_owned(), bars: bars.to_vec() }
    };
    let groups: Vec<Group> = scenes.iter().map(group).collect();
    let is_bad = |group: &&Group| group.bars.iter().any(|bar| bar.value > Some(0.0));
    let bad: Vec<&str> = groups.iter().filter(is_bad).map(|group| group.name.as_str()).collect();
    let good: Vec<&str> =
        groups.iter().filter(|group| !is_bad(group)).map(|group| group.name.as_str()).collect();
    let list = |names: &[&str]| if names.is_empty() { "nobody".to_owned() } else { names.join(", ") };
    let codes: Vec<&str> =
        scenes.iter().filter(|scene| scene.code == Some(CODE)).map(|scene| scene.name).collect();
    let verdict = format!(
        "Commands that run and that nobody knows of, or that run twice: {}. None: {}. The exit code of the one that \
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
        quote: Some(quote(scenes)),
    }
}

/// The commands that run and that their tool does not know of, or that run twice.
fn count_astray(scene: &Scene) -> usize {
    let beside = if scene.alive > 0 { scene.copies } else { 0 };
    // Of the commands that were to go on; one that had ended may have been started again besides.
    (scene.alive + scene.copies).saturating_sub(scene.watched).max(beside).min(COMMANDS)
}

fn quote(scenes: &[Scene]) -> String {
    let astray = |scene: &Scene| count_astray(scene) as f64;
    let ours = scenes.iter().filter(|scene| scene.name == "sexton").map(astray).fold(0.0, f64::max);
    let figures: Vec<_> = scenes.iter().map(|scene| (scene.name, Ok(astray(scene)))).collect();
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

    fn scene(alone: usize, alive: usize, copies: usize, running: usize, ended: usize) -> Scene {
        let known = Known { running, ended };
        let (name, killed, then, code) = ("a", "its daemon", "", None);
        Scene { name, killed, alone, then, alive, copies, known, watched: running, code }
    }

    #[test]
    fn what_was_seen_is_said() {
        for (scene, said) in [
            (scene(0, 0, 0, 0, 6), "they ended with it; then nothing runs; 6 of 6 records"),
            (scene(5, 5, 0, 5, 1), "all ran on; then 5 run and are known to; 6 of 6 records"),
            (
                scene(5, 5, 0, 0, 0),
                "all ran on; then **5 run and it knows of none that does**; every record is gone",
            ),
            (
                scene(0, 0, 5, 5, 1),
                "they ended with it; then 5 new ones were started in their place; 6 of 6 records",
            ),
            (
                scene(3, 3, 5, 5, 1),
                "3 of 5 ran on; then **3 still run, and 5 were started a second time beside them**; 6 of 6 records",
            ),
        ] {
            assert_eq!(words(&scene), said);
        }
    }

    #[test]
    fn an_outcome_is_right_wrong_unknown_or_forgotten() {
        let known = |code| outcome(&Scene { code, ..scene(5, 5, 0, 5, 1) });
        assert_eq!(known(Some(7)), "exit code 7, right");
        assert_eq!(known(Some(0)), "exit code 0, wrong");
        assert_eq!(known(None), "not known");
        assert_eq!(outcome(&scene(5, 5, 0, 0, 0)), "forgotten");
        assert_eq!(outcome(&scene(0, 0, 0, 0, 6)), "ended with the others, and is recorded so");
    }
}
