//! Acting: carries out what was decided, each action on a thread of its own, and tells what came of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use sexton_core::recover::{Policy, Silent};
use sexton_core::store::LockName;
use sexton_core::worktree::Plot;
use sexton_core::{Session, SessionId, StoreError};
use sexton_embed::{House, HouseError, chain, remove_worktree, stop_policy};

use crate::error::RalphError;
use crate::mainline::Mainline;
use crate::notice::Notice;
use crate::schedule::{Action, Asked, Event, MergeOutcome, Sealed};
use crate::seal::seal;
use crate::settings::Settings;
use crate::shell::Shell;
use crate::site::Site;
use crate::ticket::Ticket;

/// How long a merge waits for another one.
const MERGE_WAIT: Duration = Duration::from_secs(60);

/// How long to pause before it is tried again to learn how a session ended, to put work on its branch, or to clear a
/// worktree. Most of what is in the way is gone at once, and some of it soon.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// From this exit code on, a shell says that it could not execute what it was told to.
const CANNOT_EXECUTE: i32 = 126;

/// What tells the loop.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something happened.
    Event(Event),
    /// Something is to be told.
    Notice(Box<Notice>),
    /// Somebody who was to do something cannot say any more what became of it.
    Lost,
}

/// What carries actions out.
#[derive(Clone)]
pub(crate) struct Executor {
    pub(crate) house: Arc<House>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) site: Arc<Site>,
    pub(crate) shell: Arc<Shell>,
    pub(crate) mainline: Mainline,
    /// How recovery is to be done, where a session's supervisor was killed.
    pub(crate) policy: Arc<Policy>,
    /// Whose sessions they are.
    pub(crate) run: SessionId,
    pub(crate) messages: Sender<Message>,
}

impl Executor {
    /// Carries `action` out in the background. `Finish` is the loop's own.
    pub(crate) fn perform(&self, action: Action) -> Result<(), RalphError> {
        let executor = self.clone();
        let messages = self.messages.clone();
        let spawned =
            std::thread::Builder::new().spawn(move || or_tell_of_loss(&messages, || executor.act(action)));
        spawned.map(drop).map_err(RalphError::io("cannot start a thread"))
    }

    /// Tells the loop. One that is over does not listen.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.messages.send(Message::Event(event));
    }

    pub(crate) fn warn(&self, what: String) {
        let _ = self.messages.send(Message::Notice(Box::new(Notice::Warning { what })));
    }

    fn act(&self, action: Action) {
        let event = match action {
            Action::Ask => Event::Asked(self.ask()),
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
        self.tell(event);
    }

    /// What the query prints.
    pub(crate) fn ask(&self) -> Result<Asked, String> {
        let probe = self.house.open_probe().map_err(|error| chain(&error))?;
        let answer = self.shell.run(&self.settings.query, probe.as_ref());
        let answer = answer.map_err(|error| format!("it cannot be run: {error}"))?;
        match answer.failure() {
            Some(why) => Err(why),
            None => Ok(Asked { lines: answer.lines() }),
        }
    }

    /// Whether something is left to do. A check that cannot be run says nothing of that, so there is.
    fn check(&self) -> bool {
        let Some(check) = &self.settings.check else { return true };
        let answer = match self.house.open_probe() {
            Ok(probe) => self.shell.run(check, probe.as_ref()).map_err(|error| error.to_string()),
            Err(error) => Err(chain(&error)),
        };
        let why = match answer.map(|answer| (answer.status.code(), answer.failure())) {
            Ok((Some(0), _)) => return true,
            Ok((Some(1..CANNOT_EXECUTE), _)) => return false,
            Ok((_, failure)) => failure.unwrap_or_default(),
            Err(why) => why,
        };
        self.warn(format!("the completion check cannot be run: {why}"));
        true
    }

    pub(crate) fn load(&self, session: &SessionId) -> Result<Session, RalphError> {
        let store = self.house.open_for_writing()?;
        let gone = || HouseError::BadRequest(format!("the record of session {session} is gone"));
        Ok(pollster::block_on(store.load(session))?.ok_or_else(gone)?)
    }

    fn seal(&self, ticket: &Ticket, session: &SessionId) -> Result<Sealed, String> {
        let sealed = insist(|| self.try_seal(ticket, session));
        sealed.unwrap_or_else(|error| Err(format!("its work cannot be put on its branch: {}", chain(&error))))
    }

    fn try_seal(&self, ticket: &Ticket, session: &SessionId) -> Result<Result<Sealed, String>, RalphError> {
        let place = self.find_worktree(session)?;
        if let Some(place) = place {
            return Ok(seal(&place, ticket, &self.mainline, self.settings.uncommitted)?);
        }
        // It went by itself, because nothing was in it that is not on a branch.
        let branch = self.mainline.find_branch(ticket)?;
        Ok(Ok(match branch {
            Some(tip) if !self.mainline.contains(&tip)? => Sealed::Work { tip },
            _ => Sealed::Nothing,
        }))
    }

    /// The worktree of a session, where it is still there.
    fn find_worktree(&self, session: &SessionId) -> Result<Option<PathBuf>, RalphError> {
        let worktree = self.load(session)?.worktree;
        let Some(path) = worktree.map(|worktree| worktree.path.as_path().to_owned()) else { return Ok(None) };
        let is_there = path.try_exists().map_err(RalphError::io("cannot look at a worktree"))?;
        Ok(is_there.then_some(path))
    }

    /// Merges, while nobody else does: not this loop, and no other in this repository.
    fn merge(&self, ticket: &Ticket, session: &SessionId, tip: &str) -> Result<MergeOutcome, RalphError> {
        let store = self.house.open_for_writing()?;
        let name = LockName::new(&format!("ralph-merge:{}", self.site.name.hash))?;
        let _lock = match pollster::block_on(store.lock(&name, MERGE_WAIT)) {
            Err(StoreError::LockTimeout { .. }) => {
                return Ok(MergeOutcome::Deferred { why: "another loop is merging".to_owned() });
            }
            other => other?,
        };
        Ok(match self.mainline.merge(ticket, tip)? {
            MergeOutcome::Conflict { paths, .. } => {
                MergeOutcome::Conflict { paths, worktree: self.find_worktree(session)? }
            }
            other => other,
        })
    }

    /// Saves and removes a worktree, and with it a branch that is merged. Says why it stays. Nobody comes back for
    /// it later, so a reason must hold for more than a moment: a look that failed, somebody who is just leaving.
    pub(crate) fn clear(&self, ticket: &Ticket, session: &SessionId) -> Option<String> {
        let try_once = || match self.try_clear(session) {
            Ok(None) => self.discard_merged(ticket).map_err(|error| chain(&error)),
            Ok(Some(kept)) => Err(kept),
            Err(error) => Err(chain(&error)),
        };
        insist(try_once).err()
    }

    fn try_clear(&self, session: &SessionId) -> Result<Option<String>, RalphError> {
        let store = self.house.open_for_writing()?;
        let (probe, cleaner) = (self.house.open_probe()?, self.house.require_cleaner()?);
        let Some(session) = pollster::block_on(store.load(session))? else { return Ok(None) };
        let unnamed = || HouseError::BadRequest("the store has no identifier".to_owned());
        let uuid = store.describe().uuid.ok_or_else(unnamed)?;
        let Some(plot) = Plot::of(&session, &uuid) else { return Ok(None) };
        let gone = pollster::block_on(remove_worktree(
            store.as_ref(),
            probe.as_ref(),
            cleaner.as_ref(),
            &session,
            &plot,
            false,
        ))?;
        pollster::block_on(cleaner.sweep(&plot.root, probe.as_ref())).map_err(HouseError::from)?;
        Ok(gone.kept)
    }

    /// Deletes the branch of a ticket that has nothing which is not merged. A worktree takes its branch along; one
    /// that went before the merge, because its loop was killed, left it there.
    fn discard_merged(&self, ticket: &Ticket) -> Result<(), RalphError> {
        if let Some(tip) = self.mainline.find_branch(ticket)?
            && self.mainline.contains(&tip)?
        {
            self.mainline.discard_branch(ticket, &tip, &self.mainline.reference())?;
        }
        Ok(())
    }

    fn stop(&self, sessions: &[SessionId], at_once: bool) {
        self.shell.cancel();
        if !sessions.is_empty() {
            let grace = if at_once { Duration::ZERO } else { self.house.config.stop_grace.value };
            if let Err(error) = self.try_stop(sessions, grace) {
                self.warn(format!("the sessions cannot be stopped: {}", chain(&error)));
            }
        }
        if at_once {
            self.tell(Event::Killed);
        }
    }

    fn try_stop(&self, sessions: &[SessionId], grace: Duration) -> Result<(), RalphError> {
        let (store, probe) = (self.house.open_for_writing()?, self.house.open_probe()?);
        let policy = stop_policy(grace);
        pollster::block_on(self.house.stop(store.as_ref(), probe.as_ref(), sessions, &policy))?;
        Ok(())
    }

    /// Puts a session in order whose supervisor did not.
    pub(crate) fn recover(&self) -> Result<(), RalphError> {
        let policy = Policy { min_age: Duration::ZERO, ..(*self.policy).clone() };
        pollster::block_on(self.house.recover(&policy, &Silent))?;
        Ok(())
    }
}

/// Does what may fail for a moment only. Whoever is in the way, such as a git that a killed loop left, is done soon.
pub(crate) fn insist<T, E>(mut work: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for pause in PAUSES {
        if let Ok(done) = work() {
            return Ok(done);
        }
        std::thread::sleep(pause);
    }
    work()
}

/// Does `work`. Where it breaks off the loop hears of that: it would wait for the outcome for ever.
fn or_tell_of_loss(messages: &Sender<Message>, work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        let _ = messages.send(Message::Lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i8_the_loop_hears_of_work_that_broke_off_and_of_no_other() {
        let (messages, heard) = std::sync::mpsc::channel();
        or_tell_of_loss(&messages, || ());
        assert!(heard.try_recv().is_err());
        or_tell_of_loss(&messages, || panic!("as it must"));
        assert!(matches!(heard.try_recv(), Ok(Message::Lost)));
    }
}
