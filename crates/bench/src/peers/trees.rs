//! What is left of a tree of processes after its command was stopped.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use super::Bench;
use super::answer::{Answer, Figure, others, rank, single};
use super::chart::Chart;
use super::peer::{Peer, wait_until};
use super::sandbox::Sandbox;
use crate::Result;

/// The role of a process of the tree, and its name in the table.
const KINDS: [(&str, &str); 6] = [
    ("command", "the command"),
    ("child", "child"),
    ("stubborn", "child that ignores signals"),
    ("session", "`setsid`"),
    ("twice", "double fork"),
    ("chain", "fork chain"),
];

/// Starts them all. Each process of a fork chain lives only for a moment.
const TREE: &str = "\
BENCH_ROLE=child sleep 600 &
BENCH_ROLE=stubborn sh \"$1/stubborn.sh\" &
BENCH_ROLE=session setsid sleep 600 &
(BENCH_ROLE=twice setsid sh -c 'sleep 600 & exit' &)
BENCH_ROLE=chain setsid sh \"$1/chain.sh\" \"$1\" &
export BENCH_ROLE=command
exec sleep 600
";
const STUBBORN: &str = "trap '' INT TERM\nexec sleep 600\n";
const CHAIN: &str = "[ -e \"$1/go\" ] || exit 0\nsleep 0.05\nsetsid sh \"$1/chain.sh\" \"$1\" &\n";

/// How long the tree may take to start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// When the processes that still live are counted, after the client of the stop has returned; the grace is
/// one second.
const WAIT: Duration = Duration::from_secs(3);

pub(super) fn ask(bench: &Bench) -> Result<Answer> {
    let mut left = Vec::new();
    for peer in &bench.peers {
        left.push((peer.name(), measure(&**peer).map_err(|error| format!("{}: {error}", peer.name()))?));
    }
    Ok(answer(&left))
}

/// Returns the kinds of processes that survive.
fn measure(peer: &dyn Peer) -> Result<BTreeSet<String>> {
    let mut running_peer = peer.open(Sandbox::on_disk()?)?;
    for (name, text) in [("tree.sh", TREE), ("stubborn.sh", STUBBORN), ("chain.sh", CHAIN), ("go", "")] {
        running_peer.sandbox().write(name, text)?;
    }
    let directory = running_peer.sandbox().path().to_str().ok_or("a path that is not text")?.to_owned();
    let name = running_peer.start(&["sh", &format!("{directory}/tree.sh"), &directory])?;
    let find_roles = || -> Result<BTreeSet<String>> {
        let found = running_peer.sandbox().processes()?;
        // Two of them are shells before they execute `sleep`.
        let is_ready = |role: &str, name: &str| role == "chain" || name == "sleep";
        let roles = found.into_iter().filter_map(|process| Some((process.role?, process.name)));
        Ok(roles.filter(|(role, name)| is_ready(role, name)).map(|(role, _)| role).collect())
    };
    if !wait_until(Instant::now() + START_LIMIT, || Ok(find_roles()?.len() == KINDS.len()))? {
        return Err(format!("a tree has only {:?}", find_roles()?).into());
    }
    running_peer.stop(&name).status()?;
    let stopped = Instant::now();
    // A link of the chain that is just being executed is seen in another iteration.
    let mut recent = Vec::new();
    while stopped.elapsed() < WAIT {
        let left = find_roles()?;
        if left.is_empty() && recent.iter().all(BTreeSet::is_empty) && recent.len() >= 5 {
            break;
        }
        recent.push(left);
        recent = recent.split_off(recent.len().saturating_sub(5));
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::remove_file(running_peer.sandbox().path().join("go"))?;
    Ok(recent.into_iter().flatten().collect())
}

fn answer(left: &[(&'static str, BTreeSet<String>)]) -> Answer {
    let figures: Vec<(&str, Figure)> =
        left.iter().map(|(name, left)| (*name, Ok(left.len() as f64))).collect();
    let head = ["tool", "left"].into_iter().chain(KINDS.iter().map(|(_, title)| *title));
    let mut lines = vec![head.map(str::to_owned).collect::<Vec<_>>()];
    for (name, left) in left {
        let kinds = KINDS.iter().map(|(kind, _)| if left.contains(*kind) { "**lives**" } else { "ended" });
        let cells = [(*name).to_owned(), left.len().to_string()];
        lines.push(cells.into_iter().chain(kinds.map(str::to_owned)).collect());
    }
    let show = |count: f64| format!("{count:.0}");
    let own = left.first().map_or(0, |(_, left)| left.len());
    let own = if own == 0 { "none".to_owned() } else { own.to_string() };
    Answer {
        slug: "trees",
        title: "What survives a stop".into(),
        method: format!(
            "A command with a child, a child that ignores SIGINT and SIGTERM, one that called `setsid`, one that was \
             forked twice, and a chain in which each link starts the next in a session of its own and exits. It is \
             stopped as above; what lives {} s after the client has returned is counted.",
            WAIT.as_secs()
        ),
        lines,
        chart: Chart {
            title: "What survives a stop".into(),
            note: format!("processes left of a tree of {}, fewer is better", KINDS.len()),
            series: Vec::new(),
            groups: single(&figures, show),
        },
        verdict: rank(&format!("Left of {}", KINDS.len()), &figures, show),
        quote: Some(format!(
            "of a tree of {} processes, of which some detach themselves, a stop leaves {own} ({})",
            KINDS.len(),
            others(&figures, show)
        )),
    }
}
