//! One session after another: how long `run -d` takes.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

use super::bench_env::{BenchEnv, PATH};
use super::{Bench, row};
use crate::Result;
use crate::measure::{Contender, in_turns, output_of, succeed};
use crate::pueue::Daemon;
use crate::table::{Figure, Goal, Row};

const TURNS: usize = 200;

/// About the size of a record.
const RECORD: [u8; 1_500] = [b'x'; 1_500];

const FOR_CRASHES_ONLY: &str = "store.durability = \"process\"\n";

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let home = |name: &str| bench.directory.path().join(name);
    let durable = BenchEnv::make(&bench.sexton, home("durable"), "")?;
    let plain = BenchEnv::make(&bench.plain, home("plain"), "")?;
    let quick = BenchEnv::make(&bench.sexton, home("quick"), FOR_CRASHES_ONLY)?;
    let daemon = bench.pueue.start(&home("pueue-starts"))?;
    let mut bare = File::create(home("bare"))?;
    let contenders = [
        Contender::new(|| {
            succeed(&mut setsid(&["true"]))?;
            bare.write_all(&RECORD)?;
            Ok(bare.sync_data()?)
        }),
        Contender::program(setsid(&["-f", "true"])),
        one_session(&durable),
        one_session(&plain),
        one_session(&quick),
        one_task(&daemon),
    ];
    let [synced, forked, durable, plain, quick, task] = in_turns(TURNS, contenders)?.map(Figure::Time);
    Ok(vec![
        row(
            "`sexton run -d -- true` against `setsid true` and one fdatasync",
            durable,
            synced,
            Goal::AtMost(2.0),
        ),
        row("the same, built by `cargo build --release`", plain, synced, Goal::None),
        row("the same against `pueue add --immediate true`", durable, task, Goal::AtMost(0.7)),
        row(
            "with `store.durability = \"process\"` against `setsid -f true`",
            quick,
            forked,
            Goal::AtMost(3.0),
        ),
    ])
}

fn setsid(arguments: &[&str]) -> Command {
    let mut command = Command::new("setsid");
    // No pipe: reading one would wait for every process that holds it, and not for the program alone.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env_clear().env("PATH", PATH).args(arguments);
    command
}

fn one_session(bench_env: &BenchEnv) -> Contender<'_> {
    let started = std::rc::Rc::new(RefCell::new(String::new()));
    let to_settle = started.clone();
    Contender::settled(
        move || {
            *started.borrow_mut() = bench_env.start(&["true"])?;
            Ok(())
        },
        move || bench_env.wait_for(&[to_settle.take()]),
    )
}

fn one_task<'a>(daemon: &'a Daemon<'_>) -> Contender<'a> {
    Contender::settled(
        || output_of(&mut daemon.client(&["add", "--immediate", "--", "true"])).map(drop),
        || daemon.settle(),
    )
}
