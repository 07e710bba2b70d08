//! The loop: passes events to the scheduler, saves the state, and passes the scheduler's actions to the executor.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use serde::Serialize;
use sexton_core::config::{Config, OrAuto};
use sexton_core::recover::{Policy, Progress, Report};
use sexton_core::store::Durability;
use sexton_core::{SessionId, Time};
use sexton_service::{Service, now};

use crate::base_branch::BaseBranch;
use crate::error::RalphError;
use crate::executor::{Executor, Message};
use crate::logs::Logs;
use crate::loop_context::{LoopContext, find_program};
use crate::loop_record::{Beginning, LoopRecord};
use crate::notice::{Notice, Summary};
use crate::schedule::{Action, Event, Rules, Scheduler};
use crate::settings::Settings;
use crate::shell::Shell;
use crate::state::{Phase, State};
use crate::ticket::Ticket;

/// A loop that is ready to run.
pub struct Loop {
    service: Arc<Service>,
    settings: Arc<Settings>,
    loop_context: LoopContext,
    messages: (Sender<Message>, Receiver<Message>),
}

/// What the loop would run for a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// The ticket.
    pub ticket: Ticket,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The branch for its work.
    pub branch: String,
    /// The branch that it would start from and be merged into.
    pub base: String,
    /// Its log file.
    pub log: Option<PathBuf>,
}

impl Preview {
    /// Returns the command, quoted for a shell.
    pub fn command_line(&self) -> String {
        shell_words::join(&self.argv)
    }
}

/// A handle that stops a loop from another thread.
#[derive(Clone)]
pub struct Remote {
    messages: Sender<Message>,
}

impl Remote {
    /// Requests the loop to stop: the first time gracefully, the second time at once.
    pub fn interrupt(&self) {
        // A loop that has finished no longer receives.
        let _ = self.messages.send(Message::Event(Event::Interrupt));
    }
}

impl Loop {
    /// Prepares a loop in the repository that contains `directory`, for all tickets of its query or for `only` one.
    /// Checks everything that the loop needs, and changes nothing.
    pub fn prepare(config: &Config, directory: &Path, only: Option<Ticket>) -> Result<Loop, RalphError> {
        let mut settings = Settings::from_config(config)?;
        if only.is_some() {
            // A single ticket is processed as in a loop without parallelism.
            settings.parallel = 1;
            settings.max_iterations = 1;
        }
        let mut config = config.clone();
        if let Some(worktrees) = &settings.worktrees {
            config.worktree_root.value = OrAuto(Some(worktrees.clone()));
        }
        let service = Service::new(config)?;
        let loop_context = pollster::block_on(LoopContext::find(&service, &settings, directory, only))?;
        Ok(Loop {
            service: Arc::new(service),
            settings: Arc::new(settings),
            loop_context,
            messages: channel(),
        })
    }

    /// Returns a handle that stops the loop.
    pub fn remote(&self) -> Remote {
        Remote { messages: self.messages.0.clone() }
    }

    /// Fails if a program that every ticket needs is missing.
    fn require_programs(&self) -> Result<(), RalphError> {
        let agent = self.settings.agent.program();
        if find_program(agent).is_none() {
            let what = "it is the agent that works on tickets";
            return Err(RalphError::NotInstalled { program: agent.to_owned(), what });
        }
        self.require_query_program()
    }

    fn require_query_program(&self) -> Result<(), RalphError> {
        if self.loop_context.only.is_none() && self.settings.query_is_default && find_program("tk").is_none()
        {
            let what = "it is the default ticket query";
            return Err(RalphError::NotInstalled { program: "tk".to_owned(), what });
        }
        Ok(())
    }

    /// Returns what the loop would do, without doing it: the report of a dry-run recovery, and the preview of each
    /// ticket that the query returns now, or an error for each invalid ticket.
    pub fn preview(
        &self,
        progress: &dyn Progress,
    ) -> Result<(Report, Vec<Result<Preview, String>>), RalphError> {
        let policy = Policy { dry_run: true, ..self.policy() };
        let report = pollster::block_on(self.service.recover(&policy, progress))?;
        let tickets = match &self.loop_context.only {
            Some(ticket) => vec![Ok(ticket.clone())],
            None => self.query_once()?,
        };
        let logs = self.settings.capture.then(|| self.loop_context.logs(&self.service, &self.settings));
        let preview = |ticket: Ticket| Preview {
            argv: self.settings.agent.command(&ticket),
            branch: ticket.branch(),
            base: self.loop_context.base.clone(),
            log: logs.as_ref().map(|logs| logs.join(format!("{ticket}.jsonl"))),
            ticket,
        };
        Ok((report, tickets.into_iter().map(|ticket| ticket.map(preview)).collect()))
    }

    fn query_once(&self) -> Result<Vec<Result<Ticket, String>>, RalphError> {
        self.require_query_program()?;
        let shell = Shell::new(self.loop_context.here.clone(), None);
        let output = self
            .executor(
                shell,
                &State::new(self.loop_context.repo.as_path().into(), self.loop_context.base.clone()),
            )
            .query();
        let output = output.map_err(|why| RalphError::QueryFailed { why })?;
        let read = |line: &String| line.parse().map_err(|error: crate::InvalidTicket| error.to_string());
        Ok(output.lines.iter().map(read).collect())
    }

    fn policy(&self) -> Policy {
        Policy::from_config(&self.service.config)
    }

    fn executor(&self, shell: Shell, state: &State) -> Executor {
        Executor {
            service: Arc::clone(&self.service),
            settings: Arc::clone(&self.settings),
            loop_context: Arc::new(self.loop_context.clone()),
            shell: Arc::new(shell),
            base_branch: BaseBranch::new(
                &self.loop_context.repo,
                &state.base,
                self.service.config.durability.value == Durability::Power,
            ),
            policy: Arc::new(self.policy()),
            run: state.run.clone(),
            messages: self.messages.0.clone(),
        }
    }

    /// Runs the loop until it finishes and reports notices. It always recovers first. With `fresh`, it discards the
    /// counters and finished tickets of an earlier loop.
    pub fn run(
        self,
        fresh: bool,
        progress: &dyn Progress,
        notify: &mut dyn FnMut(&Notice),
    ) -> Result<Summary, RalphError> {
        self.require_programs()?;
        let (store, probe) = (self.service.open_for_writing()?, self.service.open_probe()?);
        let most = self.settings.max_iterations;
        let Beginning { loop_record, state, continues } = pollster::block_on(LoopRecord::open(
            &self.service,
            store,
            probe.as_ref(),
            &self.loop_context,
            most,
            fresh,
        ))?;
        let executor =
            self.executor(Shell::new(self.loop_context.here.clone(), Some(loop_record.id().clone())), &state);
        let worked = self.work(&loop_record, state, continues, executor, progress, notify);
        if worked.is_err() {
            // If this cannot be recorded either, the next recovery finds that this process has exited.
            let _ = pollster::block_on(loop_record.fail());
        }
        worked
    }

    fn work(
        &self,
        loop_record: &LoopRecord,
        state: State,
        continues: Option<SessionId>,
        executor: Executor,
        progress: &dyn Progress,
        notify: &mut dyn FnMut(&Notice),
    ) -> Result<Summary, RalphError> {
        // The base branch of an earlier loop may have been deleted.
        executor.base_branch.require_tip()?;
        notify(&Notice::Began {
            session: loop_record.id().clone(),
            name: loop_record.name().to_owned(),
            base: state.base.clone(),
        });
        if let Some(from) = continues {
            let unfinished = state.tickets.values().filter(|progress| !progress.stage.is_final()).count();
            notify(&Notice::Continued { from, iteration: state.iteration, unfinished });
        }
        let report = pollster::block_on(self.service.recover(&self.policy(), progress))?;
        notify(&Notice::Recovered { report: Box::new(report) });
        if self.settings.logs.is_none() {
            let logs = Logs::at(self.loop_context.logs(&self.service, &self.settings));
            logs.prune(self.service.config.retention_ttl.value);
        }
        let rules = Rules::new(&self.settings, self.loop_context.only.clone());
        let saved = state.clone();
        Running { loop_record, executor, saved, scheduler: Scheduler::new(rules, state) }
            .drive(&self.messages.1, notify)
    }
}

/// Exit code of a loop that did not finish every ticket.
const PARTLY_DONE: i32 = 3;

/// A running loop.
struct Running<'a> {
    loop_record: &'a LoopRecord,
    executor: Executor,
    scheduler: Scheduler,
    /// The state as saved in the record.
    saved: State,
}

impl Running<'_> {
    fn drive(
        mut self,
        messages: &Receiver<Message>,
        notify: &mut dyn FnMut(&Notice),
    ) -> Result<Summary, RalphError> {
        // A request to stop during recovery takes precedence over starting anything.
        let mut event = match messages.try_recv() {
            Ok(Message::Event(event)) => event,
            _ => Event::Begin,
        };
        loop {
            let actions = self.scheduler.handle(event, now());
            if actions.contains(&Action::Finish) {
                return self.finish(notify);
            }
            if actions.iter().any(Action::needs_saved_state) && self.scheduler.state != self.saved {
                pollster::block_on(self.loop_record.save(&self.scheduler.state))?;
                self.saved.clone_from(&self.scheduler.state);
            }
            self.scheduler.take_notices().iter().for_each(&mut *notify);
            for action in actions {
                self.executor.perform(action)?;
            }
            event = loop {
                match next_message(messages, self.scheduler.next_moment(), now()) {
                    Message::Event(event) => break event,
                    Message::Notice(notice) => notify(&notice),
                    // The outcome would never arrive. The next loop finds it.
                    Message::Panicked => return Err(RalphError::Lost),
                }
            };
        }
    }

    fn finish(mut self, notify: &mut dyn FnMut(&Notice)) -> Result<Summary, RalphError> {
        self.executor.shell.cancel();
        let summary = self.scheduler.summary();
        let code = match summary.phase {
            Phase::Failed => 1,
            _ if summary.is_whole() => 0,
            _ => PARTLY_DONE,
        };
        pollster::block_on(self.loop_record.finish(&self.scheduler.state, code))?;
        self.scheduler.take_notices().iter().for_each(notify);
        Ok(summary)
    }
}

/// Returns the next message, or a tick at the time `at`.
fn next_message(messages: &Receiver<Message>, at: Option<Time>, now: Time) -> Message {
    let received = match at {
        Some(at) => messages.recv_timeout(now.age_at(at)),
        None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    // The executor holds a sender, so the channel is never disconnected.
    received.unwrap_or(Message::Event(Event::Tick))
}
