//! The loop itself: what happens goes to the scheduler, what that decides to the executor, and the memory to the
//! record in between.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use serde::Serialize;
use sexton_core::config::{Config, OrAuto};
use sexton_core::recover::{Policy, Progress, Report};
use sexton_core::store::Durability;
use sexton_core::{SessionId, Time};
use sexton_embed::{House, now};

use crate::error::RalphError;
use crate::executor::{Executor, Message};
use crate::keeper::{Beginning, Keeper};
use crate::logs::Logs;
use crate::mainline::Mainline;
use crate::notice::{Notice, Summary};
use crate::schedule::{Action, Event, Rules, Scheduler};
use crate::settings::Settings;
use crate::shell::Shell;
use crate::site::{Site, find_program};
use crate::state::{Phase, State};
use crate::ticket::Ticket;

/// A loop that can begin.
pub struct Loop {
    house: Arc<House>,
    settings: Arc<Settings>,
    site: Site,
    messages: (Sender<Message>, Receiver<Message>),
}

/// What would be run for a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// The ticket.
    pub ticket: Ticket,
    /// What would be executed, program first.
    pub argv: Vec<String>,
    /// The branch it would be worked on.
    pub branch: String,
    /// The branch it would begin at and be merged into.
    pub base: String,
    /// Where its output would be kept.
    pub log: Option<PathBuf>,
}

impl Preview {
    /// What would be executed, as a shell would be told it.
    pub fn command_line(&self) -> String {
        shell_words::join(&self.argv)
    }
}

/// What tells a loop from outside that it is to stop.
#[derive(Clone)]
pub struct Remote {
    messages: Sender<Message>,
}

impl Remote {
    /// Says that its user wants the loop to stop: the first time gracefully, the second time at once.
    pub fn interrupt(&self) {
        // One that is over needs no telling.
        let _ = self.messages.send(Message::Event(Event::Interrupt));
    }
}

impl Loop {
    /// A loop in the repository around `directory`, on every ticket that its query names, or on `only` one.
    /// Looks at everything that it will need, and changes nothing.
    pub fn prepare(config: &Config, directory: &Path, only: Option<Ticket>) -> Result<Loop, RalphError> {
        let mut settings = Settings::from_config(config)?;
        if only.is_some() {
            // One ticket is worked on as one of many would be, where they are worked on one by one.
            settings.parallel = 1;
            settings.max_iterations = 1;
        }
        let mut config = config.clone();
        if let Some(worktrees) = &settings.worktrees {
            config.worktree_root.value = OrAuto(Some(worktrees.clone()));
        }
        let house = House::new(config)?;
        let site = pollster::block_on(Site::find(&house, &settings, directory, only))?;
        Ok(Loop { house: Arc::new(house), settings: Arc::new(settings), site, messages: channel() })
    }

    /// What tells it to stop.
    pub fn remote(&self) -> Remote {
        Remote { messages: self.messages.0.clone() }
    }

    /// Refuses to begin where a program that is needed for every ticket is missing.
    fn require_programs(&self) -> Result<(), RalphError> {
        let agent = self.settings.agent.program();
        if find_program(agent).is_none() {
            let what = "it is the agent that tickets are given to";
            return Err(RalphError::NotInstalled { program: agent.to_owned(), what });
        }
        self.require_query_program()
    }

    fn require_query_program(&self) -> Result<(), RalphError> {
        if self.site.only.is_none() && self.settings.query_is_default && find_program("tk").is_none() {
            let what = "it is asked for tickets where no other query is given";
            return Err(RalphError::NotInstalled { program: "tk".to_owned(), what });
        }
        Ok(())
    }

    /// What would be done, without doing it: what recovery would put in order, and what would be run for each
    /// ticket that the query names now. What it names that cannot be a ticket is given back as an error.
    pub fn preview(
        &self,
        progress: &dyn Progress,
    ) -> Result<(Report, Vec<Result<Preview, String>>), RalphError> {
        let policy = Policy { dry_run: true, ..self.policy() };
        let report = pollster::block_on(self.house.recover(&policy, progress))?;
        let tickets = match &self.site.only {
            Some(ticket) => vec![Ok(ticket.clone())],
            None => self.ask_once()?,
        };
        let logs = self.settings.capture.then(|| self.site.logs(&self.house, &self.settings));
        let preview = |ticket: Ticket| Preview {
            argv: self.settings.agent.command(&ticket),
            branch: ticket.branch(),
            base: self.site.base.clone(),
            log: logs.as_ref().map(|logs| logs.join(format!("{ticket}.jsonl"))),
            ticket,
        };
        Ok((report, tickets.into_iter().map(|ticket| ticket.map(preview)).collect()))
    }

    fn ask_once(&self) -> Result<Vec<Result<Ticket, String>>, RalphError> {
        self.require_query_program()?;
        let shell = Shell::new(self.site.here.clone(), None);
        let asked =
            self.executor(shell, &State::new(self.site.repo.as_path().into(), self.site.base.clone())).ask();
        let asked = asked.map_err(|why| RalphError::QueryFailed { why })?;
        let read = |line: &String| line.parse().map_err(|error: crate::InvalidTicket| error.to_string());
        Ok(asked.lines.iter().map(read).collect())
    }

    fn policy(&self) -> Policy {
        Policy::from_config(&self.house.config)
    }

    fn executor(&self, shell: Shell, state: &State) -> Executor {
        Executor {
            house: Arc::clone(&self.house),
            settings: Arc::clone(&self.settings),
            site: Arc::new(self.site.clone()),
            shell: Arc::new(shell),
            mainline: Mainline::new(
                &self.site.repo,
                &state.base,
                self.house.config.durability.value == Durability::Power,
            ),
            policy: Arc::new(self.policy()),
            run: state.run.clone(),
            messages: self.messages.0.clone(),
        }
    }

    /// Runs the loop to its end, telling what happens. Recovery comes first, always. With `fresh`, what an
    /// earlier loop counted and set aside is forgotten.
    pub fn run(
        self,
        fresh: bool,
        progress: &dyn Progress,
        tell: &mut dyn FnMut(&Notice),
    ) -> Result<Summary, RalphError> {
        self.require_programs()?;
        let (store, probe) = (self.house.open_for_writing()?, self.house.open_probe()?);
        let most = self.settings.max_iterations;
        let Beginning { keeper, state, continues } =
            pollster::block_on(Keeper::open(store, probe.as_ref(), &self.site, most, fresh))?;
        let executor = self.executor(Shell::new(self.site.here.clone(), Some(keeper.id().clone())), &state);
        let worked = self.work(&keeper, state, continues, executor, progress, tell);
        if worked.is_err() {
            // Where even that cannot be recorded, the next recovery sees that this process is gone.
            let _ = pollster::block_on(keeper.give_up());
        }
        worked
    }

    fn work(
        &self,
        keeper: &Keeper,
        state: State,
        continues: Option<SessionId>,
        executor: Executor,
        progress: &dyn Progress,
        tell: &mut dyn FnMut(&Notice),
    ) -> Result<Summary, RalphError> {
        // The branch that an earlier loop began at may be gone by now.
        executor.mainline.require_tip()?;
        tell(&Notice::Began {
            session: keeper.id().clone(),
            name: keeper.name().to_owned(),
            base: state.base.clone(),
        });
        if let Some(from) = continues {
            let unfinished = state.tickets.values().filter(|progress| !progress.stage.is_final()).count();
            tell(&Notice::Continued { from, iteration: state.iteration, unfinished });
        }
        let report = pollster::block_on(self.house.recover(&self.policy(), progress))?;
        tell(&Notice::Recovered { report: Box::new(report) });
        if self.settings.logs.is_none() {
            let logs = Logs::at(self.site.logs(&self.house, &self.settings));
            logs.prune(self.house.config.retention_ttl.value);
        }
        let rules = Rules::new(&self.settings, self.site.only.clone());
        let kept = state.clone();
        Running { keeper, executor, kept, scheduler: Scheduler::new(rules, state) }
            .drive(&self.messages.1, tell)
    }
}

/// The exit code of a loop that did not finish every ticket.
const PARTLY_DONE: i32 = 3;

/// A loop that runs.
struct Running<'a> {
    keeper: &'a Keeper,
    executor: Executor,
    scheduler: Scheduler,
    /// The memory as it is in the record.
    kept: State,
}

impl Running<'_> {
    fn drive(
        mut self,
        messages: &Receiver<Message>,
        tell: &mut dyn FnMut(&Notice),
    ) -> Result<Summary, RalphError> {
        // Whoever told it to stop while it recovered is heard before anything is begun.
        let mut event = match messages.try_recv() {
            Ok(Message::Event(event)) => event,
            _ => Event::Begin,
        };
        loop {
            let actions = self.scheduler.handle(event, now());
            if actions.contains(&Action::Finish) {
                return self.finish(tell);
            }
            if actions.iter().any(Action::needs_memory) && self.scheduler.state != self.kept {
                pollster::block_on(self.keeper.keep(&self.scheduler.state))?;
                self.kept.clone_from(&self.scheduler.state);
            }
            self.scheduler.take_notices().iter().for_each(&mut *tell);
            for action in actions {
                self.executor.perform(action)?;
            }
            event = loop {
                match next_message(messages, self.scheduler.next_moment(), now()) {
                    Message::Event(event) => break event,
                    Message::Notice(notice) => tell(&notice),
                    // To wait for it would be to wait for ever; the next loop finds out.
                    Message::Lost => return Err(RalphError::Lost),
                }
            };
        }
    }

    fn finish(mut self, tell: &mut dyn FnMut(&Notice)) -> Result<Summary, RalphError> {
        self.executor.shell.cancel();
        let summary = self.scheduler.summary();
        let code = match summary.phase {
            Phase::Failed => 1,
            _ if summary.is_whole() => 0,
            _ => PARTLY_DONE,
        };
        pollster::block_on(self.keeper.finish(&self.scheduler.state, code))?;
        self.scheduler.take_notices().iter().for_each(tell);
        Ok(summary)
    }
}

/// The next thing that happens, or that time has passed.
fn next_message(messages: &Receiver<Message>, at: Option<Time>, now: Time) -> Message {
    let received = match at {
        Some(at) => messages.recv_timeout(now.age_at(at)),
        None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    // The executor holds a sender, so that nobody can be disconnected.
    received.unwrap_or(Message::Event(Event::Tick))
}
