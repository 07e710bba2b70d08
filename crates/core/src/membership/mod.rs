//! Assigns processes to sessions: a pure function of what was observed.
//!
//! A process belongs to a session if it is in the session's control group, descends from its recorded command
//! or supervisor, carries its cookie, or carries its limit mark. Another session's cookie alone exempts
//! nothing: a process can write any value into its own environment. Only proof that the process belongs to
//! another *active recorded* session exempts it: it is that session's command or supervisor, is in its control
//! group, or descends from these. If a process descends from two sessions, the nearer one owns it, so that a
//! session started inside another stays separate.
//!
//! Architecture invariant: this decides which process is a *candidate*. The observation is already outdated
//! when it is judged, so a probe proves each process again before it acts on it.

mod assign;
mod limit_mark;

use std::collections::HashSet;

use crate::SessionId;

pub use assign::assign;
pub use limit_mark::{MarkRelation, choose_limit_mark, compare_limit_mark, parse_limits};

/// The session id in the environment of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// It has this id.
    Session(String),
    /// It was read, and has none.
    Absent,
    /// It may not be read, or was not requested: it may have one.
    Unreadable,
    /// Reading it timed out: it may have one.
    Unanswered,
}

/// A live process, as one scan of the host showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Its pid.
    pub pid: u32,
    /// Its parent's pid.
    pub parent: u32,
    /// Its cookie.
    pub cookie: Cookie,
    /// Its limit on file locks; `None` if it is unlimited or was not read.
    pub limit: Option<u64>,
    /// Whether it runs as the observing user. Another user's limit proves nothing.
    pub is_own_user: bool,
}

/// The state of a recorded process in the same scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// It is the process with this pid.
    Present(u32),
    /// The process with this pid may be it, or another.
    Doubtful(u32),
    /// It does not exist, or was never recorded.
    #[default]
    Missing,
}

impl Anchor {
    /// Returns the pid if it is certain.
    pub fn present(self) -> Option<u32> {
        if let Anchor::Present(pid) = self { Some(pid) } else { None }
    }

    /// Returns the pid if it is not certain.
    fn doubtful(self) -> Option<u32> {
        if let Anchor::Doubtful(pid) = self { Some(pid) } else { None }
    }

    fn may_be(self, number: u32) -> bool {
        matches!(self, Anchor::Present(pid) | Anchor::Doubtful(pid) if pid == number)
    }
}

/// A session whose members are searched.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// Its id, which is the cookie.
    pub session: &'a SessionId,
    /// The command: a member, like its descendants.
    pub command: Anchor,
    /// The supervisor: never a member, but its descendants are.
    pub supervisor: Anchor,
    /// The processes in its control group.
    pub contained: HashSet<u32>,
    /// Processes that were proved members before, and are still the same. A parent that exited since may have
    /// been the only other evidence.
    pub known: HashSet<u32>,
    /// Its limit mark.
    pub limit_mark: Option<u64>,
}

/// The other active sessions, whose processes are not members.
#[derive(Clone, Debug, Default)]
pub struct Neighbours<'a> {
    /// The known ones.
    pub claims: Vec<Claim<'a>>,
    /// Whether these are all. If not, a process with an unknown cookie may belong to another session, and its
    /// membership is doubtful.
    pub complete: bool,
}

/// Why a process is a member. A probe proves it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It is the recorded command, whatever its environment contains now.
    Recorded,
    /// It carries the session's cookie.
    Cookie,
    /// It is in the session's control group.
    Contained,
    /// It was proved a member before.
    Known,
    /// Its nearest ancestor that belongs to a session belongs to this one.
    Descent,
    /// It carries the session's limit mark.
    LimitMark,
}

/// Why the membership of a process is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The evidence does not show whether it, or an ancestor, is a recorded process.
    WeakIdentity,
    /// It, or an ancestor, carries a cookie of a session that could not be read.
    UnknownSession,
    /// Its limit is slightly lower than the session's mark.
    LoweredMark,
    /// Its environment could not be read in time, and the session has no limit mark.
    Unanswered,
}

impl Doubt {
    /// Returns the doubt in words, as a reason to leave the process alone.
    pub fn why(self) -> &'static str {
        match self {
            Doubt::WeakIdentity => "the evidence does not identify the process",
            Doubt::UnknownSession => {
                "it may belong to another session, and the other sessions could not be read"
            }
            Doubt::LoweredMark => {
                "its limit mark was lowered below the session's, so it may belong to the session"
            }
            Doubt::Unanswered => "its environment could not be read in time, so it may belong to the session",
        }
    }
}

/// The processes that are relevant for one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// The members, and why.
    pub members: Vec<(u32, Evidence)>,
    /// Processes that may be members, and why that is not certain.
    pub doubtful: Vec<(u32, Doubt)>,
}

impl Roster {
    /// Returns the members of a session without a limit mark in the order in which they are signalled: each before
    /// its parent. If the program is killed in between, the parents are alive, and descent still proves the rest.
    pub fn children_first(&self, parent_of: impl Fn(u32) -> Option<u32>) -> Vec<(u32, Evidence)> {
        let is_member: HashSet<u32> = self.members.iter().map(|(pid, _)| *pid).collect();
        let depth = |pid: u32| {
            let mut depth = 0;
            let mut above = parent_of(pid);
            // Parents are not read atomically, so they may seem to form a cycle.
            while let Some(pid) = above.filter(|pid| is_member.contains(pid) && depth < is_member.len()) {
                depth += 1;
                above = parent_of(pid);
            }
            depth
        };
        let mut ordered = self.members.clone();
        ordered.sort_by_cached_key(|(pid, _)| std::cmp::Reverse(depth(*pid)));
        ordered
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
