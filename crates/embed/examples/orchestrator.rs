//! An orchestrator that may be killed at any moment: it recovers what an earlier run left behind, starts an
//! agent for each ticket, and waits for them.
//!
//! `cargo run -p sexton-embed --example orchestrator -- /tmp/state sh -c 'echo "working on $TICKET"'`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use sexton_core::recover::{Policy, Silent};
use sexton_embed::{House, OwnerWish, Request, is_shim, shim_main};

// The backends that this program wants; a crate that nothing names is not linked.
use sexton_proc_linux as _;
use sexton_store_sqlite as _;
use sexton_worktree_git as _;

const TICKETS: [&str; 3] = ["T-1", "T-2", "T-3"];

fn main() -> ExitCode {
    // Each session is supervised by this same program: before anything else, it may be asked to be that.
    if is_shim() {
        return shim_main();
    }
    let mut arguments = std::env::args_os().skip(1);
    let state_dir = arguments.next().map(PathBuf::from).unwrap_or_default();
    match pollster::block_on(orchestrate(state_dir, arguments.collect())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn orchestrate(state_dir: PathBuf, agent: Vec<OsString>) -> Result<(), Box<dyn Error>> {
    let house = House::at(&state_dir, ("sqlite", "sessions.db"))?;
    let report = house.recover(&Policy::from_config(&house.config), &Silent).await?;
    println!("recovered: {} orphaned, {} ended", report.orphans, report.ended);

    let mut running = Vec::new();
    for ticket in TICKETS {
        let mut request = Request::new(agent.clone());
        // However this process ends, its sessions end with it.
        request.owner = OwnerWish::Me;
        request.labels.ticket = Some(ticket.to_owned());
        request.env.push(("TICKET".into(), ticket.into()));
        running.push(house.start(request).await.map_err(|failed| failed.error)?);
        println!("{ticket}: started");
    }

    let (store, probe) = (house.open_for_reading()?, house.open_probe()?);
    for (ticket, mut one) in TICKETS.into_iter().zip(running) {
        let (ended, _) = house.wait_for_end(one.session, store.as_ref(), probe.as_ref(), None).await?;
        one.shim.wait()?;
        println!("{ticket}: {}", ended.status);
    }
    Ok(())
}
