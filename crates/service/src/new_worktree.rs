//! Creates a worktree for a new session, after recording it.

use std::path::{Path, PathBuf};

use sexton_core::session::{Exit as SessionExit, ExitReason, Worktree};
use sexton_core::store::update_session;
use sexton_core::worktree::{Begun, Inspection, StartPoint, WorktreeLocation};
use sexton_core::{Batch, OsText, ProcessProbe, Session, Status, Store, WorktreeCleaner};
use sexton_durable::create_private_dir;

use crate::error::ServiceError;
use crate::recovery::{default_worktree_root, now};
use crate::removal::{Gone, remove_worktree, save_and_remove};
use crate::service::Service;

/// The requested worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The branch to create; without one, it is named after the session.
    pub branch: Option<String>,
    /// The start point of the branch.
    pub base: Option<String>,
    /// Work of an earlier session that this one continues.
    pub begun: Begun,
}

/// A recorded session with its worktree, and how to undo both if it never starts.
pub(crate) struct NewWorktree {
    /// The store that recorded it.
    pub store: Box<dyn Store>,
    /// Its record.
    pub session: Session,
    cleaner: Box<dyn WorktreeCleaner>,
    location: WorktreeLocation,
}

/// Records `session` as starting, with this process as its supervisor, and creates a worktree of the
/// repository around `directory` for it. On an error, nothing is left behind.
pub(crate) async fn create_worktree(
    wish: Wish,
    mut session: Session,
    directory: &Path,
    probe: &dyn ProcessProbe,
    service: &Service,
) -> Result<NewWorktree, ServiceError> {
    let cleaner = service.require_cleaner()?;
    let repo = cleaner.find_repository(directory).await?;
    // The base is resolved in the user's current directory. If it does not exist there, `create` reports
    // that.
    let spec = wish.base.as_deref().unwrap_or("HEAD");
    let base = cleaner.find_commit(directory, spec).await?.or(wish.base);
    let root = match &service.config.worktree_root.value.0 {
        Some(root) => root.clone(),
        None => default_worktree_root(&service.state_files()?.worktree_roots_dir(), &repo),
    };
    let root = require_worktree_root(&root)?;
    let branch = wish.branch.unwrap_or_else(|| format!("sexton/{}", session.id));
    session.worktree = Some(Worktree {
        path: OsText::from(root.join(session.id.as_str())),
        root: Some(root.into()),
        repo: Some(repo.into()),
        branch: Some(branch.clone()),
        base: base.clone(),
        extra: serde_json::Map::new(),
    });
    session.cwd = session.worktree.as_ref().map(|worktree| worktree.path.clone());
    session.supervisor = Some(probe.identify(std::process::id()).await?);
    let store = service.open_for_writing()?;
    session.revision = store.commit(Batch::new().insert(session.clone())).await?.revision_of(&session.id);
    let uuid = store.describe().uuid;
    let location = uuid.and_then(|uuid| WorktreeLocation::of(&session, &uuid));
    let location =
        location.ok_or_else(|| ServiceError::BadRequest("the store has no identifier".to_owned()))?;
    let mut pending = NewWorktree { store, session, cleaner, location };
    let from = StartPoint { branch, base, begun: wish.begun };
    match pending.cleaner.create(&pending.location, &from, now()).await {
        Ok(created) => {
            if let Some(worktree) = &mut pending.session.worktree {
                worktree.base = Some(created.base);
            }
            Ok(pending)
        }
        Err(error) => {
            pending.undo(probe).await?;
            Err(error.into())
        }
    }
}

/// Returns the worktree root without symlinks, after creating it if it is missing.
fn require_worktree_root(root: &Path) -> Result<PathBuf, ServiceError> {
    create_private_dir(root)
        .and_then(|()| root.canonicalize())
        .map_err(ServiceError::io(format!("cannot create worktrees in {}", root.display())))
}

impl NewWorktree {
    /// Removes a worktree in which no command ever ran, and updates the record. If nothing was created, the
    /// record is deleted.
    pub async fn undo(&self, probe: &dyn ProcessProbe) -> Result<(), ServiceError> {
        let (store, cleaner) = (self.store.as_ref(), self.cleaner.as_ref());
        if discard_if_absent(store, cleaner, &self.session, &self.location).await? {
            return Ok(());
        }
        // The only process of the session is its supervisor, which has not received the plan yet.
        let gone = save_and_remove(store, probe, cleaner, &self.session, &self.location, false).await?;
        finish_unless_kept(&gone, store, &self.session).await
    }

    /// Splits off the store for starting the session; the rest cleans up if the start fails.
    pub fn into_parts(self) -> (Box<dyn Store>, Session, StartCleanup) {
        let NewWorktree { store, session, cleaner, location } = self;
        (store, session.clone(), StartCleanup { session, cleaner, location })
    }
}

/// What to clean up if the session does not start.
pub(crate) struct StartCleanup {
    session: Session,
    cleaner: Box<dyn WorktreeCleaner>,
    location: WorktreeLocation,
}

impl StartCleanup {
    /// Removes the worktree.
    pub async fn undo(&self, store: &dyn Store, probe: &dyn ProcessProbe) -> Result<(), ServiceError> {
        let cleaner = self.cleaner.as_ref();
        if discard_if_absent(store, cleaner, &self.session, &self.location).await? {
            return Ok(());
        }
        // Its supervisor received the plan, and may have failed after the command ran.
        let gone = remove_worktree(store, probe, cleaner, &self.session, &self.location, false).await?;
        finish_unless_kept(&gone, store, &self.session).await
    }
}

/// Returns whether there is no worktree; then the record is deleted too.
async fn discard_if_absent(
    store: &dyn Store,
    cleaner: &dyn WorktreeCleaner,
    session: &Session,
    location: &WorktreeLocation,
) -> Result<bool, ServiceError> {
    if cleaner.inspect(location).await? == Inspection::Absent
        && let Some(record) = store.load(&session.id).await?
        && record.status == Status::Starting
        && record.revision == session.revision
    {
        store.commit(Batch::new().remove(&record)).await?;
        return Ok(true);
    }
    Ok(false)
}

/// Ends the record of a session whose worktree is gone. A kept worktree leaves the record open, because
/// nothing would clean up for a finished session.
async fn finish_unless_kept(gone: &Gone, store: &dyn Store, session: &Session) -> Result<(), ServiceError> {
    if gone.kept.is_some() {
        return Ok(());
    }
    update_session(store, &session.id, |session| {
        let open = session.finished_at.is_none();
        let exit = SessionExit { reason: ExitReason::NeverStarted, code: None, ..SessionExit::exited(0) };
        session.finish(exit, now());
        open
    })
    .await?;
    Ok(())
}
