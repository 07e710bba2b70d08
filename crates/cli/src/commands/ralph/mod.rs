//! `sexton ralph`: runs the loop of `crates/ralph`, prints its progress and forwards signals.

mod lines;
mod live;
mod outcome;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use clap::{Args, Subcommand};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use sexton_ralph::{Loop, Remote, Ticket};
use sexton_supervise::SignalPipe;

use crate::commands::recover;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::layers::Flag;
use crate::screen::{Bar, visible};
use view::View;

/// Run agents on tickets, each in its own git worktree and branch, and merge the work of those that succeed.
///
/// The loop always runs a recovery first. If it is killed and started again, it continues where it stopped.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton ralph start --dry-run                        show what would run
  sexton ralph start --parallel 4                     work on all ready tickets, four at a time
  sexton ralph run T-12                               work on one ticket")]
pub struct RalphArgs {
    #[command(subcommand)]
    command: RalphCommand,
}

#[derive(Subcommand)]
enum RalphCommand {
    /// Work on one ticket
    Run(RunArgs),
    /// Work on all tickets that the query returns
    Start(StartArgs),
}

/// Work on one ticket.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton ralph run T-12
  sexton ralph run T-12 --agent 'claude -p \"work on {ticket}\"'")]
struct RunArgs {
    /// Ticket to work on
    ticket: Ticket,
    #[command(flatten)]
    common: CommonArgs,
}

/// Work on all tickets that the query returns.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton ralph start                                  get tickets from tk, run pi
  sexton ralph start --parallel 4 --agent 'codex exec \"work on {ticket}\"'
  sexton ralph start --ticket-query 'gh issue list --json number --jq .[].number'
  sexton ralph start --dry-run                        show what would run

Ctrl-C stops the loop gracefully, a second Ctrl-C immediately. `sexton ralph start` continues it.")]
struct StartArgs {
    /// Number of tickets to work on in parallel [default: ralph.parallel, 1]
    #[arg(long, value_name = "N")]
    parallel: Option<usize>,
    /// Maximum number of tickets [default: ralph.max_iterations, 50]
    #[arg(long, value_name = "N")]
    max_iterations: Option<usize>,
    /// Shell command that prints one ticket per line [default: a query with tk]
    #[arg(long, value_name = "COMMAND")]
    ticket_query: Option<String>,
    /// Reset the counts and the tickets set aside by an earlier loop
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Args)]
struct CommonArgs {
    /// Agent command, containing {ticket} [default: pi with its workflow]
    #[arg(long, value_name = "TEMPLATE")]
    agent: Option<String>,
    /// Branch to start from and to merge into [default: the current branch]
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    /// Save the agent's standard output as <logs>/<ticket>.jsonl
    #[arg(long)]
    capture_json: bool,
    /// Do not merge finished work
    #[arg(long)]
    no_merge: bool,
    /// Show what would run without changing anything
    #[arg(long)]
    dry_run: bool,
}

impl RalphArgs {
    /// Returns the options as flags of the configuration.
    pub fn flags(&self) -> Vec<Flag> {
        let (common, start) = match &self.command {
            RalphCommand::Run(args) => (&args.common, None),
            RalphCommand::Start(args) => (&args.common, Some(args)),
        };
        let mut flags: Vec<Flag> = Vec::new();
        flags.extend(common.agent.iter().map(|text| ("ralph.agent", "--agent", text.clone())));
        flags.extend(common.base.iter().map(|text| ("ralph.base", "--base", text.clone())));
        flags.extend(common.capture_json.then(|| ("ralph.capture_json", "--capture-json", "on".to_owned())));
        flags.extend(common.no_merge.then(|| ("ralph.merge", "--no-merge", "off".to_owned())));
        if let Some(start) = start {
            let query = start.ticket_query.iter();
            flags.extend(query.map(|text| ("ralph.ticket_query", "--ticket-query", text.clone())));
            let parallel = start.parallel.iter();
            flags.extend(parallel.map(|number| ("ralph.parallel", "--parallel", number.to_string())));
            let most = start.max_iterations.iter();
            flags.extend(most.map(|number| ("ralph.max_iterations", "--max-iterations", number.to_string())));
        }
        flags
    }
}

/// Runs the loop.
pub fn run(args: RalphArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    context.require_foreign()?;
    let legacy = std::env::var_os(sexton_ralph::ticketflow::LEGACY_VARIABLE);
    if legacy.is_some_and(|value| !value.is_empty()) {
        context.screen.warn(&sexton_ralph::ticketflow::legacy_warning());
    }
    let (only, fresh, common) = match args.command {
        RalphCommand::Run(args) => (Some(args.ticket), false, args.common),
        RalphCommand::Start(args) => (None, args.fresh, args.common),
    };
    let here = std::env::current_dir()
        .map_err(|error| Failure::new(format!("cannot determine the working directory: {error}")))?;
    let is_one = only.is_some();
    let ralph = Loop::prepare(&context.config, &here, only)?;
    if common.dry_run {
        return preview(&ralph, context);
    }
    let received = forward_signals(ralph.remote())?;
    let mut view = View::new(context.screen, ralph.remote());
    let ran = ralph.run(fresh, &Bar::for_terminal(), &mut |notice| view.show(notice));
    view.close()?;
    Ok(outcome::exit_of(&ran?, is_one, received.load(Ordering::SeqCst)))
}

/// Prints what the loop would do.
fn preview(ralph: &Loop, context: &Context<'_>) -> Result<Exit, Failure> {
    let bar = Bar::for_terminal();
    let (report, previews) = ralph.preview(&bar)?;
    bar.clear();
    if !context.screen.json && report.orphans > 0 {
        recover::print_report(&report, context.screen)?;
    }
    if previews.is_empty() {
        context.screen.note("the query returned no tickets");
    }
    for preview in previews {
        match preview {
            Ok(preview) if context.screen.json => context.screen.json_line(&preview)?,
            Ok(preview) => context.screen.line(&visible(&preview.command_line()))?,
            Err(why) => context.screen.warn(&why),
        }
    }
    Ok(Exit::DONE)
}

/// Starts a thread that interrupts the loop on every signal. Returns the first signal that was received.
///
/// It must be called before any other thread starts: later threads inherit the blocked signals, so that only this
/// thread receives them.
fn forward_signals(remote: Remote) -> Result<Arc<AtomicI32>, Failure> {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
    let failed = |error| Failure::new(format!("cannot handle signals: {error}"));
    let signals = SignalPipe::open(&signals).map_err(failed)?;
    let first = Arc::new(AtomicI32::new(0));
    let recorded = Arc::clone(&first);
    let forward = move || {
        loop {
            let fd = signals.as_fd();
            let _ =
                rustix::io::retry_on_intr(|| poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None));
            while let Ok(Some(signal)) = signals.take() {
                let _ = recorded.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
                remote.interrupt();
            }
        }
    };
    std::thread::Builder::new().spawn(forward).map_err(failed)?;
    Ok(first)
}
