//! `sexton top`: the live view.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use jiff::Timestamp;
use rustix::process::Signal;
use sexton_core::SessionId;
use sexton_embed::{stop_policy, this_host};
use sexton_supervise::{SignalPipe, stop_sessions};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::top::inbox::{Inbox, read_keys};
use crate::top::state::State;
use crate::top::terminal::{Stage, is_terminal};
use crate::top::update::{Effect, Event, KEPT_LINES, update};
use crate::top::world::World;

/// Watch sessions live: status, age, processor, memory and the last line of output.
#[derive(Args)]
#[command(after_help = "\
Keys:
  ↑ ↓ j k  choose        enter l  follow its output      s  stop it (asks first)
  /        filter        r        show its rescue        a  finished ones too
  ?        help          q        quit

Examples:
  sexton top                       what runs now
  sexton top -a                    finished sessions too
  sexton top --filter T-101        only what has to do with that ticket
  sexton ps --watch                the same without a terminal to draw on")]
pub struct TopArgs {
    /// Finished sessions too
    #[arg(short, long)]
    all: bool,
    /// Only sessions whose name, id, ticket, status or command contains this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
}

/// How often ages are drawn again, and how often processes are looked at.
const TICK: Duration = Duration::from_secs(1);
const TICKS_PER_LOOK: u32 = 2;

/// How many bytes a signal adds to its number to become an exit code.
const SIGNAL_BASE: u8 = 128;

/// Shows the view until its user leaves it.
pub async fn run(args: TopArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    if context.screen.json || !is_terminal() {
        let hint =
            "`sexton ps --watch` lists sessions as they change, and `--json` makes it one document a line";
        return Err(Failure::usage("`sexton top` draws on a terminal, and this is none").hint(hint));
    }
    let store = context.open_for_reading()?;
    let path = store.describe().path;
    let failed = |error| Failure::new(format!("cannot watch sessions: {error}"));
    let cleaner = context.find_cleaner();
    let world = World::new(store, context.open_probe()?, cleaner, context.pending_exits(), this_host());
    let mut state = State::new(args.all, args.filter, path.clone(), Timestamp::now().into());
    state.home = std::env::home_dir();
    // Opened before there is any other thread: those that come inherit that they are not interrupted.
    let signals = [Signal::TERM, Signal::HUP, Signal::INT, Signal::CONT].map(Signal::as_raw);
    let signals = SignalPipe::open(&signals).map_err(failed)?;
    let inbox = Inbox::open().map_err(failed)?;
    let mut show = Show { world: world.map_err(failed)?, state, inbox, ticks: 0 };
    let outcome = show.play(&signals, context).await;
    context.screen.report_damage(&path, &show.world.damage);
    outcome
}

/// The view at work.
struct Show {
    world: World,
    state: State,
    inbox: Inbox,
    ticks: u32,
}

impl Show {
    async fn play(&mut self, signals: &SignalPipe, context: &Context<'_>) -> Result<Exit, Failure> {
        let failed = |error: io::Error| Failure::new(format!("cannot show sessions: {error}"));
        let mut stage = Stage::enter(context.screen.style().has_colour()).map_err(failed)?;
        read_keys(self.inbox.messenger().map_err(failed)?).map_err(failed)?;
        let mut next_tick = Instant::now();
        loop {
            let mut events = self.world.read(&self.state).await?;
            self.apply(events.drain(..));
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                self.tick().await;
            }
            stage.draw(&mut self.state).map_err(failed)?;
            let until = self.world.next_read().map_or(next_tick, |read| read.min(next_tick));
            let woken = self.world.changes.wait(signals, self.inbox.as_fd(), Some(until)).map_err(failed)?;
            self.world.note(woken.paths);
            for signal in woken.signals {
                // Whoever stopped us without asking has used the terminal since.
                if signal == Signal::CONT.as_raw() {
                    stage.resume().map_err(failed)?;
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
                    Some(Effect::Suspend) => stage.suspend().map_err(failed)?,
                    Some(effect) => self.carry_out(effect, context).await?,
                    None => {}
                }
            }
        }
    }

    fn apply(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            // Only keys ask for something to be done.
            update(&mut self.state, event);
        }
    }

    async fn tick(&mut self) {
        self.apply([Event::Tick(Timestamp::now().into())]);
        if self.ticks.is_multiple_of(TICKS_PER_LOOK) {
            let looked = self.world.look(&self.state).await;
            self.apply([looked]);
        }
        self.ticks = self.ticks.wrapping_add(1);
    }

    async fn carry_out(&mut self, effect: Effect, context: &Context<'_>) -> Result<(), Failure> {
        match effect {
            Effect::Quit | Effect::Suspend => {}
            Effect::Reload => self.world.forget_records(),
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

    /// Stops a session in a thread of its own: that takes as long as the session has grace, and the view
    /// goes on meanwhile.
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
                    "{title} could not be ended whole; `sexton stop` says more"
                )));
            }
            let status = stopped.first().map_or("gone", |one| one.session.status.as_str());
            Ok(format!("{title} is {status}"))
        };
        let mut messenger = self.inbox.messenger().map_err(failed)?;
        let tell = move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            let outcome = outcome.unwrap_or_else(|_| Err(Failure::new("stopping failed unexpectedly")));
            // Where nobody listens any more, the record tells it.
            messenger.tell(Event::Stopped(outcome.map_err(|failure| failure.message)));
        };
        thread::Builder::new().name("stop".to_owned()).spawn(tell).map_err(failed)?;
        Ok(())
    }
}
