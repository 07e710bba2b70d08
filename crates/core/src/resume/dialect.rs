//! The words and customs of a store: Sexton's own, or those of the tool whose files the store works on.

use crate::probe::COOKIE;

/// How one kind of store speaks of loops. A store that works on another tool's files supplies that tool's
/// (see [`Store::dialect`](crate::Store::dialect)), so that the tool finds what it would have written.
#[derive(Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The variables that may name the current session. The first counts whose value is an id of which the
    /// store has a record, damaged or not.
    pub session_variables: &'static [&'static str],
    /// Whether the store itself may know of a current session that no variable names.
    pub names_current: bool,
    /// The variables that may say, in milliseconds, after how long an active loop is stale; the first that
    /// is a positive number counts.
    pub stale_variables: &'static [&'static str],
    /// The key among the loop's other keys that names the session which drives it.
    pub owner_key: Option<&'static str>,
    /// What the time of the pane is called, where it was the newest.
    pub pane_time: &'static str,
    /// Whether a prior session whose process is alive keeps its loop.
    pub spares_the_living: bool,
    /// Whether `updated_at` follows every change of a loop that goes on.
    pub stamps_changes: bool,
    /// Whether a loop without any content, such as one that knows its pane alone, is a loop at all.
    pub counts_blank_loops: bool,
    /// What the reasons are called.
    pub words: Words,
}

/// Why a resumption ended as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No current session can be named.
    CurrentSessionMissing,
    /// The current session drives a loop already.
    CurrentLoopActive,
    /// It had one that nobody touched for too long, which is marked now.
    CurrentLoopAbandonedStale,
    /// It has one that is not active: nothing is changed.
    CurrentLoopPresent,
    /// Its record cannot be read: nothing is changed.
    CurrentLoopUnreadable,
    /// Neither an agent's session id nor its thread id was given.
    AgentIdentityMissing,
    /// No prior session matches.
    NoMatchingPriorLoop,
    /// The only matches were stale; they are marked now.
    MatchingPriorLoopAbandonedStale,
    /// More than one matches: nothing is changed.
    MultipleMatchingPriorLoops,
    /// The one that matches runs, or nobody can tell whether it does: nothing is changed.
    PriorSessionRunning,
    /// The loop was taken over.
    Resumed,
    /// Somebody else was at it for too long.
    LockTimeout,
}

/// What a dialect calls each [`Reason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what the reason of its name is called")]
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
    /// Sexton's own.
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

    /// What this dialect calls `reason`.
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
    /// Every reason there is.
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

    /// Whether what was asked for could not even be tried, or was refused: what a strict caller wants to
    /// fail on. That there is nothing to take over is no failure.
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
    fn every_reason_has_a_word_of_its_own() {
        let words: BTreeSet<_> = Reason::ALL.iter().map(|reason| Dialect::SEXTON.word(*reason)).collect();
        assert_eq!(words.len(), Reason::ALL.len());
    }
}
