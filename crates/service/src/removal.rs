//! Removes one worktree after saving its work.

use sexton_core::probe::Group;
use sexton_core::session::{Recovery, WorktreeOutcome};
use sexton_core::store::update_session;
use sexton_core::worktree::{Inspection, Removal, WorktreeLocation};
use sexton_core::{Others, ProcessProbe, Session, Store, WorktreeCleaner, WorktreeError};

use crate::error::ServiceError;
use crate::recovery::now;

/// Result of removing a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Whether it was removed now.
    pub removed: bool,
    /// The rescue ref that holds its work.
    pub rescue_ref: Option<String>,
    /// Why it was kept.
    pub kept: Option<String>,
    /// What could not be deleted, and why. The path is free and the work is saved; every recovery tries
    /// again.
    pub undeleted: Option<String>,
}

impl Gone {
    fn kept(why: String, rescue_ref: Option<String>) -> Gone {
        Gone { removed: false, rescue_ref, kept: Some(why), undeleted: None }
    }

    /// Returns why it is not completely gone.
    pub fn trouble(&self) -> Option<&String> {
        self.kept.as_ref().or(self.undeleted.as_ref())
    }
}

/// Saves and removes one worktree, and updates its record. With `if_clean`, a worktree that contains work is
/// kept.
pub async fn remove_worktree(
    store: &dyn Store,
    probe: &dyn ProcessProbe,
    cleaner: &dyn WorktreeCleaner,
    session: &Session,
    location: &WorktreeLocation,
    if_clean: bool,
) -> Result<Gone, ServiceError> {
    let kept = |why: String| Gone::kept(why, None);
    let inspection = cleaner.inspect(location).await?;
    let is_absent = inspection == Inspection::Absent;
    match inspection {
        Inspection::Foreign(why) if if_clean => return Ok(kept(why)),
        Inspection::Present { dirty, own_commits } if if_clean && (dirty || own_commits > 0) => {
            return Ok(kept("it contains work".to_owned()));
        }
        // An interrupted removal may leave the entry or the branch of an absent worktree. And the worktree of
        // a session that has just ended may look foreign while its supervisor removes it: `clear` waits for
        // that and checks again.
        Inspection::Present { .. } | Inspection::Absent | Inspection::Foreign(_) => {}
    }
    if !is_absent && let Some(why) = find_live_process(store, probe, session).await {
        return Ok(kept(why));
    }
    save_and_remove(store, probe, cleaner, session, location, is_absent).await
}

/// Saves and removes the worktree of a session without live processes. `is_absent` says that the inspection
/// found none.
pub(crate) async fn save_and_remove(
    store: &dyn Store,
    probe: &dyn ProcessProbe,
    cleaner: &dyn WorktreeCleaner,
    session: &Session,
    location: &WorktreeLocation,
    is_absent: bool,
) -> Result<Gone, ServiceError> {
    let cleared = match cleaner.clear(location, probe, now()).await {
        Err(WorktreeError::NotOurs { why, .. }) => {
            return Ok(Gone::kept(why, None));
        }
        cleared => cleared?,
    };
    let rescue_ref = cleared.rescued.saved.map(|rescue| rescue.reference);
    let was_gone = match cleared.removal? {
        Removal::Removed => false,
        Removal::AlreadyGone => is_absent,
        Removal::Kept(why) => return Ok(Gone::kept(why, rescue_ref)),
    };
    // Trash of other sessions is left to the removal of their worktrees, or to a recovery.
    let swept = cleaner.sweep(&location.root, probe, &|id| *id != session.id).await?;
    let undeleted = swept.left.into_iter().find(|left| left.session.as_ref() == Some(&session.id));
    let undeleted = undeleted.map(|left| left.why);
    if was_gone && undeleted.is_none() && !is_pending(session) {
        return Ok(Gone { removed: false, rescue_ref: None, kept: None, undeleted: None });
    }
    record(store, session, rescue_ref.clone(), undeleted.clone()).await?;
    Ok(Gone { removed: undeleted.is_none(), rescue_ref, kept: None, undeleted })
}

/// Returns whether its worktree is recorded as still to be removed.
fn is_pending(session: &Session) -> bool {
    session.recovery.as_ref().is_some_and(|recovery| {
        matches!(recovery.worktree, Some(WorktreeOutcome::Pending | WorktreeOutcome::Failed))
    })
}

/// Records that the worktree is gone, or what could not be deleted, so that the next recovery tries again.
async fn record(
    store: &dyn Store,
    session: &Session,
    saved: Option<String>,
    undeleted: Option<String>,
) -> Result<(), ServiceError> {
    if undeleted.is_some() && !store.describe().capabilities.keeps("recovery") {
        return Ok(());
    }
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
        let worktree = Some(match undeleted {
            Some(_) => WorktreeOutcome::Pending,
            None => WorktreeOutcome::Removed,
        });
        session.recovery = Some(Recovery { rescue_ref, worktree, error: undeleted.clone(), ..recovery });
        true
    })
    .await?;
    Ok(())
}

/// Returns why the session may still have processes, whatever its record says. An incomplete cleanup may have
/// left some, and a process with its cookie may have started later.
async fn find_live_process(store: &dyn Store, probe: &dyn ProcessProbe, session: &Session) -> Option<String> {
    let others = Others::load(store).await.unwrap_or(Others::Unknown);
    match probe.members(&Group::of(session), &others).await {
        Ok(members) => match (members.processes.first(), members.unreadable.first()) {
            (None, None) => None,
            (Some(process), _) => Some(format!("process {} of its session is alive", process.pid)),
            (None, Some(pid)) => Some(format!("process {pid} cannot be read and may belong to its session")),
        },
        Err(error) => Some(format!("cannot determine whether its session has ended: {error}")),
    }
}
