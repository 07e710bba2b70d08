//! One attempt: what it begins with, its session, and how that ended.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sexton_core::session::ExitReason;
use sexton_core::worktree::Begun;
use sexton_core::{OsText, Query, Session, SessionId, Status, WorktreeError};
use sexton_embed::{HouseError, Labels, NotStarted, OwnerWish, Request, Running, Wish, chain};
use sexton_supervise::StartError;

use crate::error::RalphError;
use crate::executor::{Executor, insist};
use crate::logs::Logs;
use crate::schedule::{Ending, Event, Fault};
use crate::ticket::Ticket;

/// The tag that says which attempt a session is: the run, and the attempt's number.
const TAG: &str = "ralph";

/// How long a session that another loop owned may take to end with it, beyond its grace periods.
const ORPHAN_WAIT: Duration = Duration::from_secs(30);

impl Executor {
    /// Begins an attempt, and stays with it until it has ended.
    pub(crate) fn attempt(&self, ticket: &Ticket, serial: u64, attempt: u64) {
        let (mut running, rescue) = match self.start(ticket, serial, attempt) {
            Ok(started) => started,
            Err(fault) => return self.tell(Event::NotStarted { ticket: ticket.clone(), fault }),
        };
        drop(running.store);
        let session = &running.session;
        self.tell(Event::Started {
            ticket: ticket.clone(),
            session: session.id.clone(),
            worktree: session.worktree.as_ref().map(|worktree| worktree.path.as_path().to_owned()),
            log: log_of(session),
            rescue,
        });
        // The shim's own end: its session's is recorded then, and a worktree with nothing in it is gone.
        let waited = running.shim.wait();
        let ended = waited.map_err(RalphError::io("cannot wait for a supervisor"));
        // Nobody comes back to this ticket where its end is not known, so one look that failed is not enough.
        let ended = ended.and_then(|_| insist(|| self.settle(&running.session.id, true)));
        let (log, ending) = match ended {
            Ok((session, ending)) => (log_of(&session), ending),
            Err(error) => (log_of(&running.session), Ending::Unknown(chain(&error))),
        };
        self.tell(Event::Ended { ticket: ticket.clone(), session: running.session.id, log, ending });
    }

    /// What became of an attempt that another loop began.
    pub(crate) fn find_attempt(&self, ticket: Ticket, serial: u64) -> Event {
        match self.try_find(&ticket, serial) {
            Ok(Some((session, ending))) => {
                Event::Ended { ticket, log: log_of(&session), session: session.id, ending }
            }
            Ok(None) => Event::NotStarted { ticket, fault: Fault::NeverBegun },
            Err(error) => Event::NotStarted { ticket, fault: Fault::Everything(chain(&error)) },
        }
    }

    fn try_find(&self, ticket: &Ticket, serial: u64) -> Result<Option<(Session, Ending)>, RalphError> {
        let tag = self.tag(serial);
        let sessions = self.sessions_of(ticket)?;
        let Some(session) = sessions.into_iter().find(|session| session.tags.get(TAG) == Some(&tag)) else {
            return Ok(None);
        };
        if session.status.is_active() {
            // Recovery found it too young to be judged: it ends with its owner, by itself.
            let (store, probe) = (self.house.open_for_reading()?, self.house.open_probe()?);
            let config = &self.house.config;
            let limit = config.owner_grace.value + config.stop_grace.value + ORPHAN_WAIT;
            let until = Some(Instant::now() + limit);
            let waiting = self.house.wait_for_end(session.clone(), store.as_ref(), probe.as_ref(), until);
            pollster::block_on(waiting)?;
        }
        let (session, ending) = insist(|| self.settle(&session.id, false))?;
        if !ran(&session) {
            // Its supervisor may be about to do that: it is done once, and it is done when this returns.
            if let Some(why) = self.clear(ticket, &session.id) {
                self.warn(format!("the worktree of session {}, which never began, stays: {why}", session.id));
            }
            return Ok(None);
        }
        Ok(Some((session, ending)))
    }

    /// A session that nobody can end any more, in order, and how it ended. `live` says that its loop was
    /// there all the while.
    fn settle(&self, session: &SessionId, live: bool) -> Result<(Session, Ending), RalphError> {
        let mut record = self.load(session)?;
        if record.status.is_active() || !record.is_settled() {
            self.recover()?;
            record = self.load(session)?;
        }
        let ending = ending_of(&record, live);
        Ok((record, ending))
    }

    fn tag(&self, serial: u64) -> String {
        format!("{}/{serial}", self.run)
    }

    /// Every session of ours that worked on `ticket` here, newest first.
    fn sessions_of(&self, ticket: &Ticket) -> Result<Vec<Session>, RalphError> {
        let store = self.house.open_for_writing()?;
        let query = Query::all().ticket(ticket.as_str()).repo(self.site.repo.clone());
        let mut sessions = pollster::block_on(store.list(&query))?.sessions;
        sessions.retain(|session| session.tags.contains_key(TAG));
        Ok(sessions)
    }

    fn start(
        &self,
        ticket: &Ticket,
        serial: u64,
        attempt: u64,
    ) -> Result<(Running, Option<SessionId>), Fault> {
        let begun = self.find_begun(ticket).map_err(|error| Fault::Everything(chain(&error)))??;
        let output = match self.settings.capture {
            true => Some(self.open_log(ticket, serial)?),
            false => None,
        };
        let rescue = if let Begun::Rescue(session) = &begun { Some(session.clone()) } else { None };
        let start = |begun| {
            let request = self.request(ticket, serial, attempt, begun, output.clone());
            pollster::block_on(self.house.start(request))
        };
        match (start(begun), rescue) {
            (Ok(running), rescue) => Ok((running, rescue)),
            (Err(NotStarted { error: HouseError::Worktree(refused), .. }), Some(rescue)) => {
                self.warn(format!(
                    "{ticket} cannot go on with the work of session {rescue}: {}",
                    chain(&refused)
                ));
                start(Begun::Branch).map(|running| (running, None)).map_err(|error| self.fault_of(&error))
            }
            (Err(error), _) => Err(self.fault_of(&error)),
        }
    }

    fn open_log(&self, ticket: &Ticket, serial: u64) -> Result<PathBuf, Fault> {
        let logs = Logs::at(self.site.logs(&self.house, &self.settings));
        logs.open(ticket, serial)
            .map_err(|error| Fault::Everything(format!("the output of {ticket} cannot be kept: {error}")))
    }

    fn request(
        &self,
        ticket: &Ticket,
        serial: u64,
        attempt: u64,
        begun: Begun,
        output_path: Option<PathBuf>,
    ) -> Request {
        let variable = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        Request {
            cwd: Some(self.site.here.clone()),
            env: vec![
                variable("SEXTON_TICKET", ticket.as_str()),
                variable("SEXTON_ATTEMPT", &attempt.to_string()),
            ],
            labels: Labels {
                ticket: Some(ticket.as_str().to_owned()),
                tags: vec![(TAG.to_owned(), self.tag(serial))],
                ..Labels::default()
            },
            worktree: Some(Wish {
                branch: Some(ticket.branch()),
                base: Some(self.mainline.reference()),
                begun,
            }),
            owner: OwnerWish::Me,
            split_output: output_path.is_some(),
            output_path,
            timeout: self.settings.attempt_timeout,
            ..Request::new(self.settings.agent.command(ticket))
        }
    }

    /// What an earlier attempt began: its rescue, or its branch. A branch that is nobody's of ours is left
    /// alone, and the ticket with it.
    fn find_begun(&self, ticket: &Ticket) -> Result<Result<Begun, Fault>, RalphError> {
        let sessions = self.sessions_of(ticket)?;
        if let Some(other) = sessions.iter().find(|session| session.status.is_active()) {
            return Ok(Err(Fault::Ticket(format!("session {} works on it already", other.id))));
        }
        let branch = ticket.branch();
        let tip = self.mainline.find_branch(ticket)?;
        let Some(last) = sessions.iter().find(|session| ran(session)) else {
            return Ok(match tip {
                None => Ok(Begun::Nothing),
                Some(_) if !sessions.is_empty() => Ok(Begun::Branch),
                Some(_) => Err(Fault::Ticket(format!(
                    "there is a branch `{branch}` already, which is not the loop's"
                ))),
            });
        };
        let rescue = last.recovery.as_ref().and_then(|recovery| recovery.rescue_ref.as_deref());
        // What a successful one left beside its work is no work.
        let Some(rescue) = rescue.filter(|_| last.status != Status::Completed) else {
            return Ok(Ok(Begun::Branch));
        };
        if self.settings.from_rescue {
            return Ok(Ok(Begun::Rescue(last.id.clone())));
        }
        // To begin anew, the branch has to go. Its commits are in the rescue.
        let saved =
            tip.as_deref().map_or(Ok(true), |tip| self.mainline.discard_branch(ticket, tip, rescue))?;
        Ok(Ok(if saved { Begun::Nothing } else { Begun::Branch }))
    }

    fn fault_of(&self, failed: &NotStarted) -> Fault {
        let program = self.settings.agent.program();
        if let Some(errno) = failed.exec_errno() {
            let why = io::Error::from_raw_os_error(errno);
            return Fault::Everything(format!("cannot execute `{}`: {why}", program.escape_debug()));
        }
        let why = chain(&failed.error);
        match &failed.error {
            _ if is_full(&failed.error) => Fault::Everything(why),
            HouseError::Worktree(WorktreeError::CannotCreate { .. }) => Fault::Ticket(why),
            HouseError::Worktree(_) | HouseError::Start(StartError::Shim { .. }) => Fault::Attempt(why),
            _ => Fault::Everything(why),
        }
    }
}

/// Whether there is no room left, wherever that was noticed.
fn is_full(error: &HouseError) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
            return true;
        }
        cause = error.source();
    }
    // What a shim says of it is only text.
    chain(error).contains("No space left on device")
}

/// Whether a session's command was ever executed.
fn ran(session: &Session) -> bool {
    let never = |reason| matches!(reason, ExitReason::NeverStarted | ExitReason::ExecFailed);
    !session.exit.as_ref().is_some_and(|exit| never(exit.reason))
}

fn log_of(session: &Session) -> Option<OsText> {
    session.log.as_ref().map(|log| log.path.clone())
}

fn ending_of(session: &Session, live: bool) -> Ending {
    let how = || match session.exit.as_ref().map(|exit| (exit.code, exit.signal)) {
        Some((Some(code), _)) => format!("exit code {code}"),
        Some((None, Some(signal))) => format!("ended by signal {signal}"),
        _ => "nobody saw how it ended".to_owned(),
    };
    match session.status {
        Status::Completed => Ending::Succeeded,
        Status::Failed => Ending::Failed(how()),
        Status::TimedOut => Ending::TimedOut,
        Status::Stopped => Ending::Stopped,
        Status::Starting | Status::Running => {
            Ending::Unknown(format!("session {} cannot be judged", session.id))
        }
        // Its supervisor was killed under the eyes of its loop: whatever did that may do it again.
        _ if live => Ending::Failed(how()),
        Status::Orphaned | Status::Abandoned | Status::Transferred | Status::CleanupFailed => {
            Ending::Interrupted
        }
    }
}
