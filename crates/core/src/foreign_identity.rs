//! Process identities that another tool recorded, and how far they can be trusted.
//!
//! Our own records hold an identity that a probe can prove. Another tool records a pid, perhaps the clock ticks
//! at which the process started, and the time of the record. Such a foreign identity is not evidence: it names
//! no boot, no inode and no namespace. So it is compared with the process that has that pid now, and only if
//! everything matches is that process accepted as the recorded one. Its identity is then taken anew and used
//! for every action.
//!
//! | recorded | the process with that pid now | result |
//! |---|---|---|
//! | ticks | none | gone |
//! | ticks | the same ticks, started no later than its record was made (and a minute) | the same |
//! | ticks | the same ticks, started later | unknown: ticks of another boot, or the clock was set |
//! | ticks | other ticks | another; unknown if it works in the session's directory |
//! | pid only | program, start and working directory all match | the same |
//! | pid only | neither program nor start matches, and it works elsewhere | another |
//! | pid only | anything else | unknown |
//!
//! If the result is unknown, nothing is done to the process.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::identity::Match;
use crate::probe::ProcessDetails;
use crate::{Liveness, ProbeError, ProcessIdentity, ProcessProbe, Session};

/// How much later than its record a process may have started: allows for the difference of the clocks and for
/// the time between start and record.
const SLACK: Duration = Duration::from_secs(60);

/// The observation of a session's command.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenCommand {
    /// The state of the command.
    pub liveness: Liveness,
    /// Its identity: as recorded, or as taken now if the record is a foreign identity that the process matches.
    pub identity: ProcessIdentity,
}

/// Returns whether an identity holds nothing that could prove a process, as recorded by another tool.
pub fn is_foreign_identity(identity: &ProcessIdentity) -> bool {
    identity.boot_id.is_none() && identity.pidfd_inode.is_none() && identity.start_time_us.is_none()
}

/// Observes the command of a session; returns `None` if none is recorded.
pub async fn observe_command(probe: &dyn ProcessProbe, session: &Session) -> Option<SeenCommand> {
    let recorded = session.process.as_ref()?;
    let as_recorded = |liveness| SeenCommand { liveness, identity: recorded.clone() };
    if !is_foreign_identity(recorded) {
        return Some(as_recorded(probe.observe(recorded).await));
    }
    let now = match probe.describe(recorded.pid).await {
        Ok(now) => now,
        Err(ProbeError::Gone { .. }) => return Some(as_recorded(Liveness::Gone)),
        Err(error) => return Some(as_recorded(Liveness::Unknown(error.to_string()))),
    };
    Some(match compare(session, recorded, &now) {
        Match::Same => SeenCommand { liveness: Liveness::Alive, identity: now.identity },
        Match::Different => as_recorded(Liveness::Reused),
        Match::CannotTell(why) => as_recorded(Liveness::Unknown(why)),
    })
}

/// Returns whether the session's command was observed alive, so that no report of its end can be true.
pub async fn is_command_alive(probe: &dyn ProcessProbe, session: &Session) -> bool {
    let seen = observe_command(probe, session).await;
    seen.is_some_and(|seen| seen.liveness == Liveness::Alive) && !sexton_mutant::is("any_exit_file")
}

/// Observes the process that dispatched a session whose record has no field for an owner. While the dispatcher
/// lives, it is the parent of the command and works in the project; a command that lost it has another parent
/// that does not. Returns `None` if the record is not a foreign identity: then a missing owner means that there
/// is none.
pub async fn observe_dispatcher(
    probe: &dyn ProcessProbe,
    session: &Session,
    command: &ProcessIdentity,
) -> Option<Liveness> {
    session.process.as_ref().filter(|recorded| is_foreign_identity(recorded))?;
    let unknown = |why: &str| Some(Liveness::Unknown(why.to_owned()));
    let Some(project) = project_of(session) else { return unknown("its project is unknown") };
    let Ok(details) = probe.describe(command.pid).await else {
        return unknown("its parent cannot be examined");
    };
    if details.identity != *command {
        return unknown("its parent cannot be examined");
    }
    // A parent that is not visible is outside of our pid namespace.
    let Some(parent) = details.parent else { return unknown("its parent cannot be examined") };
    match probe.describe(parent).await {
        Ok(parent) if works_in(&parent, project) => Some(Liveness::Alive),
        // The init process adopts orphans; its working directory need not be readable.
        Ok(parent) if parent.cwd.is_some() || parent.identity.pid == 1 => Some(Liveness::Gone),
        Err(ProbeError::Denied { pid: 1, .. }) => Some(Liveness::Gone),
        Ok(_) | Err(_) => unknown("its parent cannot be examined"),
    }
}

fn project_of(session: &Session) -> Option<&Path> {
    let repo = session.worktree.as_ref().and_then(|worktree| worktree.repo.as_ref());
    repo.or(session.cwd.as_ref()).map(crate::OsText::as_path)
}

fn works_in(process: &ProcessDetails, project: &Path) -> bool {
    let inside = |path: &Path| path.starts_with(project);
    process.cwd.as_deref().is_some_and(inside) || process.command.iter().any(|word| inside(Path::new(word)))
}

/// Whether a recorded fact matches a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Yes,
    No,
    Unseen,
}

/// Compares a foreign identity with the process that has its pid now.
fn compare(session: &Session, recorded: &ProcessIdentity, now: &ProcessDetails) -> Match {
    let cannot_tell = |why: &str| Match::CannotTell(why.to_owned());
    let (start, place) = (start_fits(session, now), place_fits(session, now));
    match (recorded.start_ticks, now.identity.start_ticks) {
        (Some(then), Some(now)) if then == now && start == Fit::Yes => Match::Same,
        (Some(then), Some(now)) if then == now => {
            cannot_tell("its start ticks match, but it started after its record was made")
        }
        (Some(_), Some(_)) if place == Fit::Yes => {
            cannot_tell("its start ticks differ, but it works in the session's directory")
        }
        (Some(_), Some(_)) => Match::Different,
        (Some(_), None) => cannot_tell("its start ticks cannot be read"),
        (None, _) => match (program_fits(recorded, now), start, place) {
            (Fit::Yes, Fit::Yes, Fit::Yes) => Match::Same,
            (Fit::No, Fit::No, Fit::No | Fit::Unseen) => Match::Different,
            _ => cannot_tell("only its pid was recorded, and the other facts match only in part"),
        },
    }
}

fn start_fits(session: &Session, now: &ProcessDetails) -> Fit {
    let recorded = session.started_at.unwrap_or(session.created_at);
    match now.started_at {
        Some(started) if started <= recorded.saturating_add(SLACK) => Fit::Yes,
        Some(_) => Fit::No,
        None => Fit::Unseen,
    }
}

fn place_fits(session: &Session, now: &ProcessDetails) -> Fit {
    let worktree = session.worktree.as_ref().map(|worktree| &worktree.path);
    match (worktree.or(session.cwd.as_ref()), &now.cwd) {
        (Some(place), Some(cwd)) if cwd.starts_with(place.as_path()) => Fit::Yes,
        (Some(_), Some(_)) => Fit::No,
        _ => Fit::Unseen,
    }
}

/// Compares the names of the program. An interpreter executes a script, so the name is that of the executable,
/// of the first word or of the second.
fn program_fits(recorded: &ProcessIdentity, now: &ProcessDetails) -> Fit {
    let Some(program) = recorded.exe.as_ref().and_then(|exe| exe.as_path().file_name()) else {
        return Fit::Unseen;
    };
    let exe = now.identity.exe.as_ref().map(|exe| exe.as_path().as_os_str());
    let words = now.command.iter().take(2).map(|word| &**word);
    let mut names = exe.into_iter().chain(words).peekable();
    if names.peek().is_none() {
        return Fit::Unseen;
    }
    let fits = |name: &OsStr| Path::new(name).file_name() == Some(program);
    if names.any(fits) { Fit::Yes } else { Fit::No }
}

#[cfg(test)]
mod tests;
