//! One attempt: what it starts from, its session, and how that ended.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sexton_core::session::ExitReason;
use sexton_core::worktree::Begun;
use sexton_core::{OsText, Query, Session, SessionId, Status, WorktreeError};
use sexton_service::{Labels, NotStarted, OwnerWish, Request, Running, ServiceError, Wish, chain};
use sexton_supervise::StartError;

use crate::error::RalphError;
use crate::executor::{Executor, with_retries};
use crate::logs::Logs;
use crate::schedule::{Ending, Event, Fault};
use crate::ticket::Ticket;

/// The tag that identifies the attempt of a session: run and serial.
const TAG: &str = "ralph";

/// How long to wait, beyond the grace periods, for a session to end after its owner, another loop, has died.
const ORPHAN_WAIT: Duration = Duration::from_secs(30);

impl Executor {
    /// Starts an attempt and waits until it has ended.
    pub(crate) fn attempt(&self, ticket: &Ticket, serial: u64, attempt: u64) {
        let (mut running, rescue) = match self.start(ticket, serial, attempt) {
            Ok(started) => started,
            Err(fault) => return self.send(Event::NotStarted { ticket: ticket.clone(), fault }),
        };
        drop(running.store);
        let session = &running.session;
        self.send(Event::Started {
            ticket: ticket.clone(),
            session: session.id.clone(),
            worktree: session.worktree.as_ref().map(|worktree| worktree.path.as_path().to_owned()),
            log: log_of(session),
            rescue,
        });
        // When the supervisor exits, the session's end is recorded and an empty worktree is removed.
        let waited = running.shim.wait();
        let ended = waited.map_err(RalphError::io("cannot wait for a supervisor"));
        // An unknown end sets the ticket aside, so one failed read must not decide that.
        let ended = ended.and_then(|_| with_retries(|| self.settle(&running.session.id, true)));
        let (log, ending) = match ended {
            Ok((session, ending)) => (log_of(&session), ending),
            Err(error) => (log_of(&running.session), Ending::Unknown(chain(&error))),
        };
        self.send(Event::Ended { ticket: ticket.clone(), session: running.session.id, log, ending });
    }

    /// Finds the outcome of an attempt that another loop started.
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
            // Recovery left it because it is younger than `recover.min_age`. It ends because its owner has died.
            let (store, probe) = (self.service.open_for_reading()?, self.service.open_probe()?);
            let config = &self.service.config;
            let limit = config.owner_grace.value + config.stop_grace.value + ORPHAN_WAIT;
            let until = Some(Instant::now() + limit);
            let waiting = self.service.wait_for_end(session.clone(), store.as_ref(), probe.as_ref(), until);
            pollster::block_on(waiting)?;
        }
        let (session, ending) = with_retries(|| self.settle(&session.id, false))?;
        if !ran(&session) {
            // Its supervisor may remove the worktree at the same time. `clear` returns when it is removed.
            if let Some(why) = self.clear(ticket, &session.id) {
                self.warn(format!(
                    "cannot remove the worktree of session {}, which never started: {why}",
                    session.id
                ));
            }
            return Ok(None);
        }
        Ok(Some((session, ending)))
    }

    /// Returns the record of a session whose supervisor has exited, recovering it if needed, and how it ended. `live`
    /// says that its loop ran the whole time.
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

    /// Returns the loop's sessions for `ticket` in this repository, newest first.
    fn sessions_of(&self, ticket: &Ticket) -> Result<Vec<Session>, RalphError> {
        let store = self.service.open_for_writing()?;
        let query = Query::all().ticket(ticket.as_str()).repo(self.loop_context.repo.clone());
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
            pollster::block_on(self.service.start(request))
        };
        match (start(begun), rescue) {
            (Ok(running), rescue) => Ok((running, rescue)),
            (Err(NotStarted { error: ServiceError::Worktree(refused), .. }), Some(rescue)) => {
                self.warn(format!(
                    "{ticket} cannot continue the work of session {rescue}: {}",
                    chain(&refused)
                ));
                start(Begun::Branch).map(|running| (running, None)).map_err(|error| self.fault_of(&error))
            }
            (Err(error), _) => Err(self.fault_of(&error)),
        }
    }

    fn open_log(&self, ticket: &Ticket, serial: u64) -> Result<PathBuf, Fault> {
        let logs = Logs::at(self.loop_context.logs(&self.service, &self.settings));
        logs.open(ticket, serial)
            .map_err(|error| Fault::Everything(format!("cannot create the log of {ticket}: {error}")))
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
            cwd: Some(self.loop_context.here.clone()),
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
                base: Some(self.base_branch.reference()),
                begun,
            }),
            owner: OwnerWish::Me,
            split_output: output_path.is_some(),
            output_path,
            timeout: self.settings.attempt_timeout,
            ..Request::new(self.settings.agent.command(ticket))
        }
    }

    /// Finds the work of an earlier attempt: its rescue or its branch. A branch that the loop did not create is left
    /// alone, and so is its ticket.
    fn find_begun(&self, ticket: &Ticket) -> Result<Result<Begun, Fault>, RalphError> {
        let sessions = self.sessions_of(ticket)?;
        if let Some(other) = sessions.iter().find(|session| session.status.is_active()) {
            return Ok(Err(Fault::Ticket(format!("session {} already works on it", other.id))));
        }
        let branch = ticket.branch();
        let tip = self.base_branch.find_branch(ticket)?;
        let Some(last) = sessions.iter().find(|session| ran(session)) else {
            return Ok(match tip {
                None => Ok(Begun::Nothing),
                Some(_) if !sessions.is_empty() => Ok(Begun::Branch),
                Some(_) => Err(Fault::Ticket(format!(
                    "the branch `{branch}` already exists and does not belong to the loop"
                ))),
            });
        };
        let rescue = last.recovery.as_ref().and_then(|recovery| recovery.rescue_ref.as_deref());
        // The rescue of a successful attempt holds leftovers, not work to continue.
        let Some(rescue) = rescue.filter(|_| last.status != Status::Completed) else {
            return Ok(Ok(Begun::Branch));
        };
        if self.settings.from_rescue {
            return Ok(Ok(Begun::Rescue(last.id.clone())));
        }
        // To start again, delete the branch. Its commits are in the rescue.
        let saved =
            tip.as_deref().map_or(Ok(true), |tip| self.base_branch.discard_branch(ticket, tip, rescue))?;
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
            ServiceError::Worktree(WorktreeError::CannotCreate { .. }) => Fault::Ticket(why),
            ServiceError::Worktree(_) | ServiceError::Start(StartError::Shim { .. }) => Fault::Attempt(why),
            _ => Fault::Everything(why),
        }
    }
}

/// Returns whether the error or one of its causes is a full disk.
fn is_full(error: &ServiceError) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
            return true;
        }
        cause = error.source();
    }
    // A supervisor reports it only as text.
    chain(error).contains("No space left on device")
}

/// Returns whether the session's command was executed.
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
        _ => "its exit status is unknown".to_owned(),
    };
    match session.status {
        Status::Completed => Ending::Succeeded,
        Status::Failed => Ending::Failed(how()),
        Status::TimedOut => Ending::TimedOut,
        Status::Stopped => Ending::Stopped,
        Status::Starting | Status::Running => {
            Ending::Unknown(format!("the state of session {} is unknown", session.id))
        }
        // Its supervisor was killed while the loop ran. The cause may occur again, so it counts as a failure.
        _ if live => Ending::Failed(how()),
        Status::Orphaned | Status::Abandoned | Status::Transferred | Status::CleanupFailed => {
            Ending::Interrupted
        }
    }
}
