//! What another tool wrote down of a process, and how far that can be believed.
//!
//! Our own records hold an identity that a probe can prove. Another tool's hold a number, perhaps the
//! clock ticks at which the process started, and the time of the record. That is testimony, not evidence:
//! it names no boot, no inode and no namespace. So it is held against what the process with that number is
//! now, and only where everything fits is that process taken for the recorded one. Its identity is then
//! taken anew, and whatever is done to it is done by that.
//!
//! | recorded | what the process of that number is now | it is |
//! |---|---|---|
//! | ticks | none | gone |
//! | ticks | the same ticks, started no later than its record was made (and a minute) | the same |
//! | ticks | the same ticks, started later | nobody can tell: ticks of another boot, or a clock that was set |
//! | ticks | other ticks | another; nobody can tell where it works in the session's directory |
//! | a number alone | program, start and working directory all fit | the same |
//! | a number alone | neither program nor start fits, and it works elsewhere | another |
//! | a number alone | anything else | nobody can tell |
//!
//! Nobody can tell means that nothing is done to it.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::identity::Match;
use crate::probe::ProcessDetails;
use crate::{Liveness, ProbeError, ProcessIdentity, ProcessProbe, Session};

/// How much later than its record a process may have started: the other tool's clock and ours, and the
/// time between the start and the record.
const SLACK: Duration = Duration::from_secs(60);

/// What was seen of a session's command.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenCommand {
    /// What became of it.
    pub liveness: Liveness,
    /// Who it is: as recorded, or as taken now where the record is testimony and the process fits it.
    pub identity: ProcessIdentity,
}

/// Whether an identity is another tool's word alone: nothing in it could prove a process.
pub fn is_testimony(identity: &ProcessIdentity) -> bool {
    identity.boot_id.is_none() && identity.pidfd_inode.is_none() && identity.start_time_us.is_none()
}

/// Looks at the command of a session; `None` where none is recorded.
pub async fn observe_command(probe: &dyn ProcessProbe, session: &Session) -> Option<SeenCommand> {
    let recorded = session.process.as_ref()?;
    let as_recorded = |liveness| SeenCommand { liveness, identity: recorded.clone() };
    if !is_testimony(recorded) {
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

/// What became of whoever dispatched a session whose record has no place for an owner. While that lives, it
/// is the parent of the command and works in the project; a command that lost it has another parent, which
/// does not. `None` where the record is not testimony: then an owner that is not recorded is none.
pub async fn observe_dispatcher(
    probe: &dyn ProcessProbe,
    session: &Session,
    command: &ProcessIdentity,
) -> Option<Liveness> {
    session.process.as_ref().filter(|recorded| is_testimony(recorded))?;
    let unknown = |why: &str| Some(Liveness::Unknown(why.to_owned()));
    let Some(project) = project_of(session) else { return unknown("its project is not known") };
    let Ok(details) = probe.describe(command.pid).await else { return unknown("its parent cannot be seen") };
    if details.identity != *command {
        return unknown("its parent cannot be seen");
    }
    // Without a parent that we could see it was inherited from outside of our pid namespace.
    let Some(parent) = details.parent else { return unknown("its parent cannot be seen") };
    match probe.describe(parent).await {
        Ok(parent) if works_in(&parent, project) => Some(Liveness::Alive),
        // The first process of a system inherits orphans; what it works on need not be readable.
        Ok(parent) if parent.cwd.is_some() || parent.identity.pid == 1 => Some(Liveness::Gone),
        Err(ProbeError::Denied { pid: 1, .. }) => Some(Liveness::Gone),
        Ok(_) | Err(_) => unknown("its parent cannot be seen"),
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

/// Whether something that was recorded fits a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Yes,
    No,
    Unseen,
}

/// Holds testimony against the process that has its number now.
fn compare(session: &Session, recorded: &ProcessIdentity, now: &ProcessDetails) -> Match {
    let cannot_tell = |why: &str| Match::CannotTell(why.to_owned());
    let (start, place) = (start_fits(session, now), place_fits(session, now));
    match (recorded.start_ticks, now.identity.start_ticks) {
        (Some(then), Some(now)) if then == now && start == Fit::Yes => Match::Same,
        (Some(then), Some(now)) if then == now => {
            cannot_tell("its start ticks fit, but by the clock it started after its record was made")
        }
        (Some(_), Some(_)) if place == Fit::Yes => {
            cannot_tell("its start ticks differ, but it works in the session's directory")
        }
        (Some(_), Some(_)) => Match::Different,
        (Some(_), None) => cannot_tell("its start ticks cannot be seen"),
        (None, _) => match (program_fits(recorded, now), start, place) {
            (Fit::Yes, Fit::Yes, Fit::Yes) => Match::Same,
            (Fit::No, Fit::No, Fit::No | Fit::Unseen) => Match::Different,
            _ => cannot_tell("nothing but its pid was recorded, and only part of the rest fits"),
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

/// A script is executed by its interpreter, so that the program's name is that of the executable, of the
/// first word or of the second.
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
