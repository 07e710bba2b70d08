//! The terms of oh-my-codex for loops.

use sexton_core::resume::{Dialect, Words};

use crate::words;

/// The dialect of oh-my-codex.
pub(crate) static DIALECT: Dialect = Dialect {
    session_variables: &["OMX_SESSION_ID", "CODEX_SESSION_ID", "SESSION_ID"],
    names_current: true,
    stale_variables: &["OMX_RALPH_ACTIVE_STATE_STALE_MS", "OMX_RALPH_RESUME_STALE_MS"],
    owner_key: Some("owner_omx_session_id"),
    pane_time: words::PANE_SET_AT,
    // The files record no process that could be probed.
    spares_the_living: false,
    stamps_changes: false,
    counts_blank_loops: true,
    words: Words {
        current_session_missing: "current_omx_session_missing",
        current_loop_active: "current_ralph_active",
        current_loop_abandoned_stale: "current_ralph_abandoned_stale",
        current_loop_present: "current_ralph_present",
        current_loop_unreadable: "current_ralph_unreadable",
        agent_identity_missing: "payload_codex_identity_missing",
        no_matching_prior_loop: "no_matching_prior_ralph",
        matching_prior_loop_abandoned_stale: "matching_prior_ralph_abandoned_stale",
        multiple_matching_prior_loops: "multiple_matching_prior_ralphs",
        prior_session_running: "prior_session_running",
        resumed: "resumed_same_codex_session",
        lock_timeout: "resume_lock_timeout",
    },
};
