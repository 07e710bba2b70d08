//! `cargo xtask bench peers`: Sexton against tools that are used today to run commands in the background.
//!
//! The task installs every tool, gives it its own directories, uses it as its documentation says, and
//! measures all of them in the same way. It reports what a tool cannot do, and also where a tool is better
//! than Sexton.

mod answer;
mod chart;
mod crashes;
mod damage;
mod idle;
mod listings;
mod many;
mod output;
mod peer;
mod pm2;
mod pueue;
mod sandbox;
mod sexton;
mod spooler;
mod starts;
mod stopping;
mod supervisor;
mod tmux;
mod trees;

use std::fs;
use std::time::Instant;

use answer::Answer;
use peer::{Peer, RunningPeer};
use sandbox::Sandbox;
use sexton_workspace::machine::describe;
use sexton_workspace::{dist, root, target_dir, tools};

use super::worker::Worker;
use super::{processes, report};
use crate::Result;

/// The folder of the pictures, relative to the page.
const PICTURES: &str = "benchmarks";

/// Programs that are compared or needed to install others, and their Debian packages.
const PROGRAMS: [(&str, &str); 5] = [
    ("tsp", "task-spooler"),
    ("tmux", "tmux"),
    ("python3", "python3-venv"),
    ("node", "nodejs"),
    ("npm", "npm"),
];

/// All tools that are compared.
struct Bench {
    sexton: sexton::Sexton,
    /// Sexton first.
    peers: Vec<Box<dyn Peer>>,
}

impl Bench {
    fn prepare() -> Result<Bench> {
        tools::require(&PROGRAMS)?;
        let sexton = sexton::Sexton::new(&dist::build()?, Worker::build()?)?;
        let peers: Vec<Box<dyn Peer>> = vec![
            Box::new(sexton.clone()),
            Box::new(pueue::PueuePeer::require()?),
            Box::new(spooler::Spooler::require()?),
            Box::new(tmux::Tmux::require()?),
            Box::new(supervisor::Supervisor::require()?),
            Box::new(pm2::Pm2::require()?),
        ];
        Ok(Bench { sexton, peers })
    }

    /// Starts all tools, each in its own sandbox.
    fn open_all(&self) -> Result<Vec<(&'static str, Box<dyn RunningPeer>)>> {
        self.peers.iter().map(|peer| Ok((peer.name(), peer.open(Sandbox::on_disk()?)?))).collect()
    }
}

/// A question, and the function that measures the answer for all tools.
type Question = (&'static str, fn(&Bench) -> Result<Answer>);

/// All of them, in the order of the page.
const QUESTIONS: [Question; 9] = [
    ("starts", starts::ask),
    ("many", many::ask),
    ("listings", listings::ask),
    ("output", output::ask),
    ("stopping", stopping::ask),
    ("trees", trees::ask),
    ("idle", idle::ask),
    ("crashes", crashes::ask),
    ("damage", damage::ask),
];

/// Measures, prints, and writes docs/benchmarks.md, its pictures, and what README.md quotes. With names, only
/// these questions are measured, and nothing is written.
pub(super) fn run(only: &[String]) -> Result {
    let is_known = |name: &&String| QUESTIONS.iter().any(|(known, _)| known == name);
    if let Some(unknown) = only.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = QUESTIONS.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no question `{unknown}`; there are {}", known.join(", ")).into());
    }
    let bench = Bench::prepare()?;
    let machine = describe(&target_dir())?;
    let mut answers = Vec::new();
    for (name, ask) in QUESTIONS {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        let began = Instant::now();
        let answer = ask(&bench).map_err(|error| format!("{name}: {error}"))?;
        eprintln!("{name}: {:.0} s", began.elapsed().as_secs_f64());
        answers.push(answer);
    }
    if !only.is_empty() {
        answers.iter().for_each(|answer| println!("{}", answer.render(PICTURES)));
        return Ok(());
    }
    let pictures = root().join("docs").join(PICTURES);
    fs::create_dir_all(&pictures)?;
    for answer in &answers {
        fs::write(pictures.join(format!("{}.svg", answer.slug)), answer.chart.render())?;
    }
    let versions: Vec<&str> = bench.peers.iter().map(|peer| peer.version()).collect();
    report::publish("peers", &section(&machine, &versions.join(", "), &answers))?;
    report::quote_in_readme()
}

fn section(machine: &str, versions: &str, answers: &[Answer]) -> String {
    let parts: Vec<String> = answers.iter().map(|answer| answer.render(PICTURES)).collect();
    let quotes: Vec<&str> = answers.iter().filter_map(|answer| answer.quote.as_deref()).collect();
    format!(
        "\
## Against what people use today

{}

Sexton beside the tools with which people leave commands running: pueue and task-spooler (queues), tmux (terminals that
stay), supervisor and pm2 (daemons that keep services alive). None of them was made for agents, and each does things
that Sexton does not: queueing, restarting, attaching a terminal, spreading load. Compared is what they have in common.
Against git, for worktrees, see Recovery below.

`cargo xtask bench peers` on {machine} {versions}.

Sexton is the program of `cargo xtask dist` with its default settings: durable against a power cut, while pueue and pm2
never sync their files and the others keep no records on the disk. The others have their default settings, but for
what a question names.
Each tool works in its own directories on the same disk. Times are medians of turns.

{}",
        report::quotation(&quotes),
        parts.join("\n")
    )
}
