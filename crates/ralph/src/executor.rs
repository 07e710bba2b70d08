//! Performs the scheduler's actions, each on its own thread, and sends the resulting events.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use sexton_core::recover::{Policy, Silent};
use sexton_core::store::LockName;
use sexton_core::worktree::WorktreeLocation;
use sexton_core::{Session, SessionId, StoreError};
use sexton_service::{Service, ServiceError, chain, remove_worktree, stop_policy};

use crate::base_branch::BaseBranch;
use crate::error::RalphError;
use crate::loop_context::LoopContext;
use crate::notice::Notice;
use crate::schedule::{Action, Event, MergeOutcome, QueryOutput, Sealed};
use crate::seal::seal;
use crate::settings::Settings;
use crate::shell::Shell;
use crate::ticket::Ticket;

/// How long to wait for the merge lock.
const MERGE_WAIT: Duration = Duration::from_secs(60);

/// Pauses before the retries of operations that can fail temporarily.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// A shell's exit codes from this one on mean that it could not execute the command, or that a signal ended it.
const CANNOT_EXECUTE: i32 = 126;

/// A message to the loop.
#[derive(Debug)]
pub(crate) enum Message {
    /// An event for the scheduler.
    Event(Event),
    /// A notice to report.
    Notice(Box<Notice>),
    /// The thread of an action panicked, so its event will never arrive.
    Panicked,
}

/// Performs actions.
#[derive(Clone)]
pub(crate) struct Executor {
    pub(crate) service: Arc<Service>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) loop_context: Arc<LoopContext>,
    pub(crate) shell: Arc<Shell>,
    pub(crate) base_branch: BaseBranch,
    /// Recovery policy for sessions whose supervisor was killed.
    pub(crate) policy: Arc<Policy>,
    /// Id of the run, for the tags of sessions.
    pub(crate) run: SessionId,
    pub(crate) messages: Sender<Message>,
}

impl Executor {
    /// Performs `action` in the background. The loop itself handles `Finish`.
    pub(crate) fn perform(&self, action: Action) -> Result<(), RalphError> {
        let executor = self.clone();
        let messages = self.messages.clone();
        let spawned =
            std::thread::Builder::new().spawn(move || report_panic(&messages, || executor.act(action)));
        spawned.map(drop).map_err(RalphError::io("cannot start a thread"))
    }

    /// Sends an event to the loop. A loop that has finished no longer receives.
    pub(crate) fn send(&self, event: Event) {
        let _ = self.messages.send(Message::Event(event));
    }

    pub(crate) fn warn(&self, what: String) {
        let _ = self.messages.send(Message::Notice(Box::new(Notice::Warning { what })));
    }

    fn act(&self, action: Action) {
        let event = match action {
            Action::Query => Event::Queried(self.query()),
            Action::Check => Event::Checked { left: self.check() },
            Action::Start { ticket, serial, attempt } => return self.attempt(&ticket, serial, attempt),
            Action::Find { ticket, serial } => self.find_attempt(ticket, serial),
            Action::Seal { ticket, session } => {
                let result = self.seal(&ticket, &session);
                Event::Sealed { ticket, result }
            }
            Action::Merge { ticket, session, tip } => {
                let outcome = self.merge(&ticket, &session, &tip);
                let outcome = outcome.unwrap_or_else(|error| MergeOutcome::Deferred { why: chain(&error) });
                Event::Merged { ticket, outcome }
            }
            Action::Clear { ticket, session } => {
                let kept = self.clear(&ticket, &session);
                Event::Cleared { ticket, kept }
            }
            Action::Stop { sessions, at_once } => return self.stop(&sessions, at_once),
            Action::Finish => return,
        };
        self.send(event);
    }

    /// Runs the ticket query.
    pub(crate) fn query(&self) -> Result<QueryOutput, String> {
        let probe = self.service.open_probe().map_err(|error| chain(&error))?;
        let result = self.shell.run(&self.settings.query, probe.as_ref());
        let result = result.map_err(|error| format!("cannot run it: {error}"))?;
        match result.failure() {
            Some(why) => Err(why),
            None => Ok(QueryOutput { lines: result.lines() }),
        }
    }

    /// Runs the completion check. Returns whether something is left to do, also if the check cannot be run.
    fn check(&self) -> bool {
        let Some(check) = &self.settings.check else { return true };
        let result = match self.service.open_probe() {
            Ok(probe) => self.shell.run(check, probe.as_ref()).map_err(|error| error.to_string()),
            Err(error) => Err(chain(&error)),
        };
        let why = match result.map(|result| (result.status.code(), result.failure())) {
            Ok((Some(0), _)) => return true,
            Ok((Some(1..CANNOT_EXECUTE), _)) => return false,
            Ok((_, failure)) => failure.unwrap_or_default(),
            Err(why) => why,
        };
        self.warn(format!("cannot run the completion check: {why}"));
        true
    }

    pub(crate) fn load(&self, session: &SessionId) -> Result<Session, RalphError> {
        let store = self.service.open_for_writing()?;
        let missing = || ServiceError::BadRequest(format!("the record of session {session} was not found"));
        Ok(pollster::block_on(store.load(session))?.ok_or_else(missing)?)
    }

    fn seal(&self, ticket: &Ticket, session: &SessionId) -> Result<Sealed, String> {
        let sealed = with_retries(|| self.try_seal(ticket, session));
        sealed.unwrap_or_else(|error| Err(format!("cannot commit its work to its branch: {}", chain(&error))))
    }

    fn try_seal(&self, ticket: &Ticket, session: &SessionId) -> Result<Result<Sealed, String>, RalphError> {
        let place = self.find_worktree(session)?;
        if let Some(place) = place {
            return Ok(seal(&place, ticket, &self.base_branch, self.settings.uncommitted)?);
        }
        // The worktree was already removed, because all its work is on a branch.
        let branch = self.base_branch.find_branch(ticket)?;
        Ok(Ok(match branch {
            Some(tip) if !self.base_branch.contains(&tip)? => Sealed::Work { tip },
            _ => Sealed::Nothing,
        }))
    }

    /// Returns the worktree of a session if it still exists.
    fn find_worktree(&self, session: &SessionId) -> Result<Option<PathBuf>, RalphError> {
        let worktree = self.load(session)?.worktree;
        let Some(path) = worktree.map(|worktree| worktree.path.as_path().to_owned()) else { return Ok(None) };
        let exists = path.try_exists().map_err(RalphError::io("cannot check a worktree"))?;
        Ok(exists.then_some(path))
    }

    /// Merges the work while holding the merge lock of the repository.
    fn merge(&self, ticket: &Ticket, session: &SessionId, tip: &str) -> Result<MergeOutcome, RalphError> {
        let store = self.service.open_for_writing()?;
        let name = LockName::new(&format!("ralph-merge:{}", self.loop_context.name.hash))?;
        let _lock = match pollster::block_on(store.lock(&name, MERGE_WAIT)) {
            Err(StoreError::LockTimeout { .. }) => {
                return Ok(MergeOutcome::Deferred { why: "another loop is merging".to_owned() });
            }
            other => other?,
        };
        Ok(match self.base_branch.merge(ticket, tip)? {
            MergeOutcome::Conflict { paths, .. } => {
                MergeOutcome::Conflict { paths, worktree: self.find_worktree(session)? }
            }
            other => other,
        })
    }

    /// Rescues and removes a worktree, and deletes its branch if that is merged. Returns why the worktree was kept.
    /// It is not tried again later, so temporary causes are retried here: a failed read, a process that is exiting.
    pub(crate) fn clear(&self, ticket: &Ticket, session: &SessionId) -> Option<String> {
        let try_once = || match self.try_clear(session) {
            Ok(None) => self.discard_merged(ticket).map_err(|error| chain(&error)),
            Ok(Some(kept)) => Err(kept),
            Err(error) => Err(chain(&error)),
        };
        with_retries(try_once).err()
    }

    fn try_clear(&self, session: &SessionId) -> Result<Option<String>, RalphError> {
        let store = self.service.open_for_writing()?;
        let (probe, cleaner) = (self.service.open_probe()?, self.service.require_cleaner()?);
        let Some(session) = pollster::block_on(store.load(session))? else { return Ok(None) };
        let unnamed = || ServiceError::BadRequest("the store has no identifier".to_owned());
        let uuid = store.describe().uuid.ok_or_else(unnamed)?;
        let Some(location) = WorktreeLocation::of(&session, &uuid) else { return Ok(None) };
        let removal = pollster::block_on(remove_worktree(
            store.as_ref(),
            probe.as_ref(),
            cleaner.as_ref(),
            &session,
            &location,
            false,
        ))?;
        Ok(removal.trouble().cloned())
    }

    /// Deletes the branch of a ticket if it is fully merged. Removing a worktree deletes its branch, but not if the
    /// worktree was removed before the merge because the loop was killed.
    fn discard_merged(&self, ticket: &Ticket) -> Result<(), RalphError> {
        if let Some(tip) = self.base_branch.find_branch(ticket)?
            && self.base_branch.contains(&tip)?
        {
            self.base_branch.discard_branch(ticket, &tip, &self.base_branch.reference())?;
        }
        Ok(())
    }

    fn stop(&self, sessions: &[SessionId], at_once: bool) {
        self.shell.cancel();
        if !sessions.is_empty() {
            let grace = if at_once { Duration::ZERO } else { self.service.config.stop_grace.value };
            if let Err(error) = self.try_stop(sessions, grace) {
                self.warn(format!("cannot stop the sessions: {}", chain(&error)));
            }
        }
        if at_once {
            self.send(Event::Killed);
        }
    }

    fn try_stop(&self, sessions: &[SessionId], grace: Duration) -> Result<(), RalphError> {
        let (store, probe) = (self.service.open_for_writing()?, self.service.open_probe()?);
        let policy = stop_policy(grace);
        pollster::block_on(self.service.stop(store.as_ref(), probe.as_ref(), sessions, &policy))?;
        Ok(())
    }

    /// Recovers sessions whose supervisor was killed, whatever their age.
    pub(crate) fn recover(&self) -> Result<(), RalphError> {
        let policy = Policy { min_age: Duration::ZERO, ..(*self.policy).clone() };
        pollster::block_on(self.service.recover(&policy, &Silent))?;
        Ok(())
    }
}

/// Retries an operation that can fail temporarily, for example because a git process of a killed loop still runs.
pub(crate) fn with_retries<T, E>(mut work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for pause in PAUSES {
        if let Ok(done) = work() {
            return Ok(done);
        }
        std::thread::sleep(pause);
    }
    work()
}

/// Runs `work`. If it panics, informs the loop, which would wait for its event forever.
fn report_panic(messages: &Sender<Message>, work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        let _ = messages.send(Message::Panicked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i8_panic_of_an_action_is_reported_to_the_loop() {
        let (messages, received) = std::sync::mpsc::channel();
        report_panic(&messages, || ());
        assert!(received.try_recv().is_err());
        report_panic(&messages, || panic!("expected panic"));
        assert!(matches!(received.try_recv(), Ok(Message::Panicked)));
    }
}
