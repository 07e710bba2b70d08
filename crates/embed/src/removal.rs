//! One worktree goes, with what is in it saved first.

use sexton_core::probe::Group;
use sexton_core::session::{Recovery, WorktreeOutcome};
use sexton_core::store::update_session;
use sexton_core::worktree::{Inspection, Plot, Removal};
use sexton_core::{ProcessProbe, Session, Store, WorktreeCleaner, WorktreeError};

use crate::error::HouseError;
use crate::recovery::now;

/// What became of a worktree that was to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Whether it went now.
    pub removed: bool,
    /// Where its work is.
    pub rescue_ref: Option<String>,
    /// Why it stays.
    pub kept: Option<String>,
}

/// Saves and removes one worktree, and says so in its record. With `if_clean` one that holds work stays.
pub async fn remove_worktree(
    store: &dyn Store,
    probe: &dyn ProcessProbe,
    cleaner: &dyn WorktreeCleaner,
    session: &Session,
    plot: &Plot,
    if_clean: bool,
) -> Result<Gone, HouseError> {
    let kept = |why: String| Gone { removed: false, rescue_ref: None, kept: Some(why) };
    let inspection = cleaner.inspect(plot).await?;
    let is_absent = inspection == Inspection::Absent;
    match inspection {
        Inspection::Foreign(why) if if_clean => return Ok(kept(why)),
        Inspection::Present { dirty, own_commits } if if_clean && (dirty || own_commits > 0) => {
            return Ok(kept("it holds work".to_owned()));
        }
        // Of one that is gone something may be left, where its removal was cut off: its entry, its branch. And
        // one whose session has just ended may look like nobody's while its supervisor takes it away: whoever
        // clears it waits for that, and looks again.
        Inspection::Present { .. } | Inspection::Absent | Inspection::Foreign(_) => {}
    }
    if !is_absent && let Some(why) = find_living(probe, session).await {
        return Ok(kept(why));
    }
    take_away(store, probe, cleaner, session, plot, is_absent).await
}

/// Saves and removes the worktree of a session that nobody is left of. `is_absent` says that it looked as if there
/// were none.
pub(crate) async fn take_away(
    store: &dyn Store,
    probe: &dyn ProcessProbe,
    cleaner: &dyn WorktreeCleaner,
    session: &Session,
    plot: &Plot,
    is_absent: bool,
) -> Result<Gone, HouseError> {
    let cleared = match cleaner.clear(plot, probe, now()).await {
        Err(WorktreeError::NotOurs { why, .. }) => {
            return Ok(Gone { removed: false, rescue_ref: None, kept: Some(why) });
        }
        cleared => cleared?,
    };
    let rescue_ref = cleared.rescued.saved.map(|rescue| rescue.reference);
    match cleared.removal? {
        Removal::AlreadyGone if is_absent => {
            return Ok(Gone { removed: false, rescue_ref: None, kept: None });
        }
        Removal::Removed | Removal::AlreadyGone => {}
        Removal::Kept(why) => return Ok(Gone { removed: false, rescue_ref, kept: Some(why) }),
    }
    let saved = rescue_ref.clone();
    update_session(store, &session.id, move |session| {
        let earlier = session.recovery.take();
        let recovery = earlier.unwrap_or_else(|| Recovery {
            cause: "worktree_removed".to_owned(),
            evidence: None,
            rescue_ref: None,
            worktree: None,
            error: None,
            extra: serde_json::Map::new(),
        });
        let rescue_ref = saved.clone().or(recovery.rescue_ref);
        let worktree = Some(WorktreeOutcome::Removed);
        session.recovery = Some(Recovery { rescue_ref, worktree, error: None, ..recovery });
        true
    })
    .await?;
    Ok(Gone { removed: true, rescue_ref, kept: None })
}

/// Why nobody can say that the session is over, whatever its record says. Of one that could not be cleaned up
/// somebody may be left, and somebody may have come with its cookie later.
async fn find_living(probe: &dyn ProcessProbe, session: &Session) -> Option<String> {
    match probe.members(&Group::of(session)).await {
        Ok(members) => match (members.processes.first(), members.unreadable.first()) {
            (None, None) => None,
            (Some(process), _) => Some(format!("process {} of its session is alive", process.pid)),
            (None, Some(pid)) => Some(format!("process {pid}, which cannot be read, may be of its session")),
        },
        Err(error) => Some(format!("nobody can tell whether its session is over: {error}")),
    }
}
