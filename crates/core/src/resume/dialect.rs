//! The words and conventions of a store: Sexton's own, or those of the tool whose files the store uses.

use crate::probe::COOKIE;

/// How one kind of store represents loops. A store on another tool's files supplies that tool's dialect (see
/// [`Store::dialect`](crate::Store::dialect)), so that the tool finds what it would have written.
#[derive(Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The variables that may name the current session. The first one counts whose value is an id that the
    /// store has a record of, damaged or not.
    pub session_variables: &'static [&'static str],
    /// Whether the store itself may name a current session if no variable does.
    pub names_current: bool,
    /// The variables that may set, in milliseconds, when an active loop is stale; the first positive number
    /// counts.
    pub stale_variables: &'static [&'static str],
    /// The key among the loop's other keys that names the session that drives it.
    pub owner_key: Option<&'static str>,
    /// The name of the pane's time, for the case that it is the newest.
    pub pane_time: &'static str,
    /// Whether a prior session whose process is alive keeps its loop.
    pub spares_the_living: bool,
    /// Whether every change of a continuing loop sets `updated_at`.
    pub stamps_changes: bool,
    /// Whether a loop without any content, such as one with only a pane, counts as a loop.
    pub counts_blank_loops: bool,
    /// The names of the reasons.
    pub words: Words,
}

/// The reason for the result of a resumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// There is no current session.
    CurrentSessionMissing,
    /// The current session already drives a loop.
    CurrentLoopActive,
    /// Its loop was idle for too long, and is now marked as abandoned.
    CurrentLoopAbandonedStale,
    /// It has a loop that is not active: nothing is changed.
    CurrentLoopPresent,
    /// Its record cannot be read: nothing is changed.
    CurrentLoopUnreadable,
    /// Neither an agent's session id nor its thread id was given.
    AgentIdentityMissing,
    /// No prior session matches.
    NoMatchingPriorLoop,
    /// The only matches were stale; they are now marked as abandoned.
    MatchingPriorLoopAbandonedStale,
    /// More than one matches: nothing is changed.
    MultipleMatchingPriorLoops,
    /// The only match runs, or its state is unknown: nothing is changed.
    PriorSessionRunning,
    /// The loop was taken over.
    Resumed,
    /// Another resumption held the lock for too long.
    LockTimeout,
}

/// The name of each [`Reason`] in a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is the word for the reason of the same name")]
pub struct Words {
    pub current_session_missing: &'static str,
    pub current_loop_active: &'static str,
    pub current_loop_abandoned_stale: &'static str,
    pub current_loop_present: &'static str,
    pub current_loop_unreadable: &'static str,
    pub agent_identity_missing: &'static str,
    pub no_matching_prior_loop: &'static str,
    pub matching_prior_loop_abandoned_stale: &'static str,
    pub multiple_matching_prior_loops: &'static str,
    pub prior_session_running: &'static str,
    pub resumed: &'static str,
    pub lock_timeout: &'static str,
}

impl Dialect {
    /// Sexton's own dialect.
    pub const SEXTON: Dialect = Dialect {
        session_variables: &[COOKIE],
        names_current: false,
        stale_variables: &[],
        owner_key: None,
        pane_time: "pane_set_at",
        spares_the_living: true,
        stamps_changes: true,
        counts_blank_loops: false,
        words: Words {
            current_session_missing: "current_session_missing",
            current_loop_active: "current_loop_active",
            current_loop_abandoned_stale: "current_loop_abandoned_stale",
            current_loop_present: "current_loop_present",
            current_loop_unreadable: "current_loop_unreadable",
            agent_identity_missing: "agent_identity_missing",
            no_matching_prior_loop: "no_matching_prior_loop",
            matching_prior_loop_abandoned_stale: "matching_prior_loop_abandoned_stale",
            multiple_matching_prior_loops: "multiple_matching_prior_loops",
            prior_session_running: "prior_session_running",
            resumed: "resumed",
            lock_timeout: "lock_timeout",
        },
    };

    /// Returns the name of `reason` in this dialect.
    pub fn word(&self, reason: Reason) -> &'static str {
        let words = &self.words;
        match reason {
            Reason::CurrentSessionMissing => words.current_session_missing,
            Reason::CurrentLoopActive => words.current_loop_active,
            Reason::CurrentLoopAbandonedStale => words.current_loop_abandoned_stale,
            Reason::CurrentLoopPresent => words.current_loop_present,
            Reason::CurrentLoopUnreadable => words.current_loop_unreadable,
            Reason::AgentIdentityMissing => words.agent_identity_missing,
            Reason::NoMatchingPriorLoop => words.no_matching_prior_loop,
            Reason::MatchingPriorLoopAbandonedStale => words.matching_prior_loop_abandoned_stale,
            Reason::MultipleMatchingPriorLoops => words.multiple_matching_prior_loops,
            Reason::PriorSessionRunning => words.prior_session_running,
            Reason::Resumed => words.resumed,
            Reason::LockTimeout => words.lock_timeout,
        }
    }
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 12] = [
        Reason::CurrentSessionMissing,
        Reason::CurrentLoopActive,
        Reason::CurrentLoopAbandonedStale,
        Reason::CurrentLoopPresent,
        Reason::CurrentLoopUnreadable,
        Reason::AgentIdentityMissing,
        Reason::NoMatchingPriorLoop,
        Reason::MatchingPriorLoopAbandonedStale,
        Reason::MultipleMatchingPriorLoops,
        Reason::PriorSessionRunning,
        Reason::Resumed,
        Reason::LockTimeout,
    ];

    /// Returns whether the request was refused or could not even be tried: a strict caller fails on these.
    /// Having nothing to take over is not a failure.
    pub fn is_refusal(self) -> bool {
        matches!(
            self,
            Reason::CurrentSessionMissing
                | Reason::CurrentLoopUnreadable
                | Reason::AgentIdentityMissing
                | Reason::MultipleMatchingPriorLoops
                | Reason::PriorSessionRunning
                | Reason::LockTimeout
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_has_a_distinct_word() {
        let words: BTreeSet<_> = Reason::ALL.iter().map(|reason| Dialect::SEXTON.word(*reason)).collect();
        assert_eq!(words.len(), Reason::ALL.len());
    }
}
