//! `sexton ralph`: the loop. What it does is in `crates/ralph`; here it is asked for, shown and told to stop.

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
use crate::screen::Bar;
use view::View;

/// Let agents work on tickets: each in a git worktree and on a branch of its own, what succeeds is merged.
///
/// Recovery comes first, always. Killed at any moment and started again, the loop goes on where it was.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton ralph start --dry-run                        says what would run
  sexton ralph start --parallel 4                     works on every ticket that is ready
  sexton ralph run T-12                               works on one")]
pub struct RalphArgs {
    #[command(subcommand)]
    command: RalphCommand,
}

#[derive(Subcommand)]
enum RalphCommand {
    /// Work on one ticket
    Run(RunArgs),
    /// Work on every ticket that the query names
    Start(StartArgs),
}

/// Work on one ticket.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton ralph run T-12
  sexton ralph run T-12 --agent 'claude -p \"work on {ticket}\"'")]
struct RunArgs {
    /// The ticket
    ticket: Ticket,
    #[command(flatten)]
    common: CommonArgs,
}

/// Work on every ticket that the query names.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton ralph start                                  asks tk, starts pi
  sexton ralph start --parallel 4 --agent 'codex exec \"work on {ticket}\"'
  sexton ralph start --ticket-query 'gh issue list --json number --jq .[].number'
  sexton ralph start --dry-run                        says what would run

Ctrl-C stops it gracefully, a second one at once; `sexton ralph start` goes on.")]
struct StartArgs {
    /// How many tickets at once [default: ralph.parallel, 1]
    #[arg(long, value_name = "N")]
    parallel: Option<usize>,
    /// How many tickets in all [default: ralph.max_iterations, 50]
    #[arg(long, value_name = "N")]
    max_iterations: Option<usize>,
    /// A shell command that prints tickets, one a line [default: asks tk]
    #[arg(long, value_name = "COMMAND")]
    ticket_query: Option<String>,
    /// Forget what an earlier loop counted and set aside
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Args)]
struct CommonArgs {
    /// The agent's command, with {ticket} in it [default: pi with its workflow]
    #[arg(long, value_name = "TEMPLATE")]
    agent: Option<String>,
    /// The branch that work begins at and is merged into [default: the one checked out here]
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    /// Keep the agent's standard output as <logs>/<ticket>.jsonl
    #[arg(long)]
    capture_json: bool,
    /// Leave finished work on its branch
    #[arg(long)]
    no_merge: bool,
    /// Say what would run, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl RalphArgs {
    /// What the options set, as the configuration knows it.
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
        .map_err(|error| Failure::new(format!("the working directory cannot be found: {error}")))?;
    let is_one = only.is_some();
    let ralph = Loop::prepare(&context.config, &here, only)?;
    if common.dry_run {
        return preview(&ralph, context);
    }
    let received = listen(ralph.remote())?;
    let mut view = View::new(context.screen, ralph.remote());
    let ran = ralph.run(fresh, &Bar::for_terminal(), &mut |notice| view.show(notice));
    view.close()?;
    Ok(outcome::exit_of(&ran?, is_one, received.load(Ordering::SeqCst)))
}

/// Says what would be done.
fn preview(ralph: &Loop, context: &Context<'_>) -> Result<Exit, Failure> {
    let bar = Bar::for_terminal();
    let (report, previews) = ralph.preview(&bar)?;
    bar.clear();
    if !context.screen.json && report.orphans > 0 {
        recover::tell(&report, context.screen)?;
    }
    if previews.is_empty() {
        context.screen.note("the query names no ticket");
    }
    for preview in previews {
        match preview {
            Ok(preview) if context.screen.json => context.screen.json_line(&preview)?,
            Ok(preview) => context.screen.line(&preview.command_line())?,
            Err(why) => context.screen.warn(&why),
        }
    }
    Ok(Exit::DONE)
}

/// Passes on to the loop that somebody wants it to stop, from here on. Gives back which signal said so first.
///
/// Nothing else of this process runs yet: threads that are started later have the signals blocked as well, and
/// only this one hears them.
fn listen(remote: Remote) -> Result<Arc<AtomicI32>, Failure> {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
    let unheard = |error| Failure::new(format!("cannot take over signals: {error}"));
    let signals = SignalPipe::open(&signals).map_err(unheard)?;
    let first = Arc::new(AtomicI32::new(0));
    let heard = Arc::clone(&first);
    let hear = move || {
        loop {
            let fd = signals.as_fd();
            let _ =
                rustix::io::retry_on_intr(|| poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None));
            while let Ok(Some(signal)) = signals.take() {
                let _ = heard.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
                remote.interrupt();
            }
        }
    };
    std::thread::Builder::new().spawn(hear).map_err(unheard)?;
    Ok(first)
}
