//! `sexton top`: shows sessions live.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use jiff::Timestamp;
use rustix::process::Signal;
use sexton_core::SessionId;
use sexton_service::stop_policy;
use sexton_supervise::{SignalPipe, stop_sessions};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::top::inbox::{Inbox, read_keys};
use crate::top::state::State;
use crate::top::terminal::{TerminalGuard, is_terminal};
use crate::top::update::{Effect, Event, KEPT_LINES, update};
use crate::top::world::World;

/// Show sessions live: status, age, CPU, memory and the last line of output.
#[derive(Args)]
#[command(after_help = "\
Keys:
  ↑ ↓ j k  select        enter l  follow the output      s  stop the session (asks first)
  /        filter        r        show the saved work    a  include finished sessions
  ?        help          q        quit

Examples:
  sexton top                       show running sessions
  sexton top -a                    include finished sessions
  sexton top --filter T-101        show only sessions of that ticket
  sexton ps --watch                list changes without a full-screen view")]
pub struct TopArgs {
    /// Include finished sessions
    #[arg(short, long)]
    all: bool,
    /// Only sessions whose name, id, ticket, status or command contains this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
}

/// The redraw interval, and the number of redraws per check of the processes.
const TICK: Duration = Duration::from_secs(1);
const TICKS_PER_CHECK: u32 = 2;

/// The offset of exit codes for signals.
const SIGNAL_BASE: u8 = 128;

/// Shows the live view until the user quits.
pub async fn run(args: TopArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    if context.screen.json || !is_terminal() {
        let hint =
            "`sexton ps --watch` lists sessions as they change; add `--json` for one JSON document per line";
        return Err(Failure::usage("`sexton top` requires a terminal").hint(hint));
    }
    let store = context.open_for_reading()?;
    let path = store.describe().path;
    let failed = |error| Failure::new(format!("cannot watch sessions: {error}"));
    let cleaner = context.find_cleaner()?;
    let probe = context.open_probe()?;
    let here = context.here(probe.as_ref()).await?;
    let world = World::new(store, probe, cleaner, context.pending_exits(), here);
    let mut state = State::new(args.all, args.filter, path.clone(), Timestamp::now().into());
    state.home = std::env::home_dir();
    // Opened before any other thread starts, so that those threads inherit the blocked signals.
    let signals = [Signal::TERM, Signal::HUP, Signal::INT, Signal::CONT].map(Signal::as_raw);
    let signals = SignalPipe::open(&signals).map_err(failed)?;
    let inbox = Inbox::open().map_err(failed)?;
    let mut live_view = LiveView { world, state, inbox, ticks: 0 };
    let outcome = live_view.run(&signals, context).await;
    context.screen.report_damage(&path, &live_view.world.damage);
    outcome
}

/// The running live view.
struct LiveView {
    world: World,
    state: State,
    inbox: Inbox,
    ticks: u32,
}

impl LiveView {
    async fn run(&mut self, signals: &SignalPipe, context: &Context<'_>) -> Result<Exit, Failure> {
        let failed = |error: io::Error| Failure::new(format!("cannot show sessions: {error}"));
        let mut terminal = TerminalGuard::enter(context.screen.style().has_colour()).map_err(failed)?;
        read_keys(self.inbox.sender().map_err(failed)?).map_err(failed)?;
        let mut next_tick = Instant::now();
        loop {
            let mut events = self.world.read(&self.state).await?;
            self.apply(events.drain(..));
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                self.tick().await;
            }
            terminal.draw(&mut self.state).map_err(failed)?;
            let until = self.world.next_read().map_or(next_tick, |read| read.min(next_tick));
            let woken = self.world.changes.wait(signals, self.inbox.as_fd(), Some(until)).map_err(failed)?;
            self.world.note(woken.paths);
            for signal in woken.signals {
                // After a stop that we did not initiate, the terminal has to be set up again.
                if signal == Signal::CONT.as_raw() {
                    terminal.resume().map_err(failed)?;
                } else {
                    return Ok(Exit(SIGNAL_BASE.saturating_add(u8::try_from(signal).unwrap_or(0))));
                }
            }
            if !woken.ready {
                continue;
            }
            for event in self.inbox.take().map_err(failed)? {
                match update(&mut self.state, event) {
                    Some(Effect::Quit) => return Ok(Exit::DONE),
                    Some(Effect::Suspend) => terminal.suspend().map_err(failed)?,
                    Some(effect) => self.apply_effect(effect, context).await?,
                    None => {}
                }
            }
        }
    }

    fn apply(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            // Only key events return effects.
            update(&mut self.state, event);
        }
    }

    async fn tick(&mut self) {
        self.apply([Event::Tick(Timestamp::now().into())]);
        if self.ticks.is_multiple_of(TICKS_PER_CHECK) {
            let observed = self.world.check_processes(&self.state).await;
            self.apply([observed]);
        }
        self.ticks = self.ticks.wrapping_add(1);
    }

    async fn apply_effect(&mut self, effect: Effect, context: &Context<'_>) -> Result<(), Failure> {
        match effect {
            Effect::Quit | Effect::Suspend => {}
            Effect::Reload => self.world.invalidate_records(),
            Effect::Follow(session) => {
                let log = self.state.find(&session).and_then(|row| row.log_path()).map(ToOwned::to_owned);
                if let Some(log) = log {
                    let events = self.world.follow(&log, KEPT_LINES)?;
                    self.apply(events);
                }
            }
            Effect::Unfollow => self.world.unfollow(),
            Effect::FindRescue(session) => {
                let found = self.world.find_rescue(&self.state, &session).await;
                self.apply([found]);
            }
            Effect::Stop(session) => self.stop(session, context)?,
        }
        Ok(())
    }

    /// Stops a session in a separate thread, because stopping takes up to the grace period and the view must stay
    /// responsive.
    fn stop(&mut self, session: SessionId, context: &Context<'_>) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::new(format!("cannot stop a session: {error}"));
        let title = self.state.find(&session).map_or(session.as_str(), |row| row.title()).to_owned();
        let (open, probe, exits) =
            (context.writable_store()?, context.open_probe()?, context.pending_exits());
        let policy = stop_policy(context.config.stop_grace.value);
        let work = move || -> Result<String, Failure> {
            let store = open()?;
            let (ids, clock) = ([session], || Timestamp::now().into());
            let stopping = stop_sessions(store.as_ref(), probe.as_ref(), &exits, &ids, &policy, clock);
            let stopped = pollster::block_on(stopping)?;
            let whole = stopped.iter().all(|one| one.survivors.is_empty());
            if !whole {
                return Err(Failure::new(format!(
                    "{title} could not be stopped completely; run `sexton stop` for details"
                )));
            }
            let status = stopped.first().map_or("gone", |one| one.session.status.as_str());
            Ok(format!("{title} is {status}"))
        };
        let mut sender = self.inbox.sender().map_err(failed)?;
        let report = move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            let outcome = outcome.unwrap_or_else(|_| Err(Failure::new("stopping failed unexpectedly")));
            // If the view has already ended, the record contains the result.
            sender.send(Event::Stopped(outcome.map_err(|failure| failure.message)));
        };
        thread::Builder::new().name("stop".to_owned()).spawn(report).map_err(failed)?;
        Ok(())
    }
}
