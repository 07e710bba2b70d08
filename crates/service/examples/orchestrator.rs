//! An orchestrator that can be killed at any moment: it recovers what an earlier run left behind, starts an
//! agent for each ticket, and waits for them.
//!
//! `cargo run -p sexton-service --example orchestrator -- /tmp/state sh -c 'echo "working on $TICKET"'`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example program")]

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use sexton_core::recover::{Policy, Silent};
use sexton_service::{OwnerWish, Request, Service, is_shim, shim_main};

// The backends of this program; a crate that is not named is not linked.
use sexton_proc_linux as _;
use sexton_store_sqlite as _;
use sexton_worktree_git as _;

const TICKETS: [&str; 3] = ["T-1", "T-2", "T-3"];

fn main() -> ExitCode {
    // This same program supervises each session, so it must check for that role before anything else.
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
    let service = Service::at(&state_dir, ("sqlite", "sessions.db"))?;
    let report = service.recover(&Policy::from_config(&service.config), &Silent).await?;
    println!("recovered: {} orphaned, {} ended", report.orphans, report.ended);

    let mut running = Vec::new();
    for ticket in TICKETS {
        let mut request = Request::new(agent.clone());
        // The sessions end when this process exits, for whatever reason.
        request.owner = OwnerWish::Me;
        request.labels.ticket = Some(ticket.to_owned());
        request.env.push(("TICKET".into(), ticket.into()));
        running.push(service.start(request).await.map_err(|failed| failed.error)?);
        println!("{ticket}: started");
    }

    let (store, probe) = (service.open_for_reading()?, service.open_probe()?);
    for (ticket, mut one) in TICKETS.into_iter().zip(running) {
        let (ended, _) = service.wait_for_end(one.session, store.as_ref(), probe.as_ref(), None).await?;
        one.shim.wait()?;
        println!("{ticket}: {}", ended.status);
    }
    Ok(())
}
