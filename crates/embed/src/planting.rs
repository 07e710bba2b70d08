//! A worktree for a new session: recorded first, then made.

use std::path::{Path, PathBuf};

use sexton_core::session::{Exit as SessionExit, ExitReason, Worktree};
use sexton_core::store::update_session;
use sexton_core::worktree::{Begun, Inspection, Plot, StartPoint};
use sexton_core::{Batch, OsText, ProcessProbe, Session, Status, Store, WorktreeCleaner};
use sexton_durable::create_private_dir;

use crate::error::HouseError;
use crate::house::House;
use crate::recovery::{default_yard, now};
use crate::removal::{Gone, remove_worktree, take_away};

/// Which worktree is wished for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The branch to make; named after the session without one.
    pub branch: Option<String>,
    /// Where it begins.
    pub base: Option<String>,
    /// What an earlier session began, and this one goes on with.
    pub begun: Begun,
}

/// A session that is recorded and has a worktree, and what to do with both if it never starts.
pub(crate) struct Planted {
    /// The store that recorded it.
    pub store: Box<dyn Store>,
    /// Its record.
    pub session: Session,
    cleaner: Box<dyn WorktreeCleaner>,
    plot: Plot,
}

/// Records `session` as starting, with this process as its supervisor, and makes a worktree of the
/// repository around `directory` for it. Where that cannot be done, nothing is left of it.
pub(crate) async fn plant(
    wish: Wish,
    mut session: Session,
    directory: &Path,
    probe: &dyn ProcessProbe,
    house: &House,
) -> Result<Planted, HouseError> {
    let cleaner = house.require_cleaner()?;
    let repo = cleaner.find_repository(directory).await?;
    // Where the user stands is where the work begins. What means nothing there is said by whoever makes it.
    let spec = wish.base.as_deref().unwrap_or("HEAD");
    let base = cleaner.find_commit(directory, spec).await?.or(wish.base);
    let root = match &house.config.worktree_root.value.0 {
        Some(root) => root.clone(),
        None => default_yard(&house.premises()?.yards_dir(), &repo),
    };
    let root = require_yard(&root)?;
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
    let store = house.open_for_writing()?;
    session.revision = store.commit(Batch::new().insert(session.clone())).await?.revision_of(&session.id);
    let uuid = store.describe().uuid;
    let plot = uuid.and_then(|uuid| Plot::of(&session, &uuid));
    let plot = plot.ok_or_else(|| HouseError::BadRequest("the store has no identifier".to_owned()))?;
    let mut planted = Planted { store, session, cleaner, plot };
    let from = StartPoint { branch, base, begun: wish.begun };
    match planted.cleaner.create(&planted.plot, &from, now()).await {
        Ok(created) => {
            if let Some(worktree) = &mut planted.session.worktree {
                worktree.base = Some(created.base);
            }
            Ok(planted)
        }
        Err(error) => {
            planted.uproot(probe).await?;
            Err(error.into())
        }
    }
}

/// The yard, made where it is missing, by the name that no symlink stands in.
fn require_yard(root: &Path) -> Result<PathBuf, HouseError> {
    create_private_dir(root)
        .and_then(|()| root.canonicalize())
        .map_err(HouseError::io(format!("cannot make worktrees in {}", root.display())))
}

impl Planted {
    /// Takes a worktree that no command ever ran in away again, and says so in the record. Where nothing
    /// was made at all, nothing is recorded either.
    pub async fn uproot(&self, probe: &dyn ProcessProbe) -> Result<(), HouseError> {
        let (store, cleaner) = (self.store.as_ref(), self.cleaner.as_ref());
        if is_unmade(store, cleaner, &self.session, &self.plot).await? {
            return Ok(());
        }
        // Nobody of the session is there but its supervisor, who has not been told anything yet.
        let gone = take_away(store, probe, cleaner, &self.session, &self.plot, false).await?;
        finish_unless_kept(&gone, store, cleaner, &self.session, &self.plot, probe).await
    }

    /// Parts with the store, for whoever starts the session; the rest takes care of a start that fails.
    pub fn into_parts(self) -> (Box<dyn Store>, Session, Remains) {
        let Planted { store, session, cleaner, plot } = self;
        (store, session.clone(), Remains { session, cleaner, plot })
    }
}

/// What is left to be taken away if the session does not start.
pub(crate) struct Remains {
    session: Session,
    cleaner: Box<dyn WorktreeCleaner>,
    plot: Plot,
}

impl Remains {
    /// Takes the worktree away again.
    pub async fn uproot(&self, store: &dyn Store, probe: &dyn ProcessProbe) -> Result<(), HouseError> {
        let cleaner = self.cleaner.as_ref();
        if is_unmade(store, cleaner, &self.session, &self.plot).await? {
            return Ok(());
        }
        // Its supervisor was told, and may have failed after its command ran.
        let gone = remove_worktree(store, probe, cleaner, &self.session, &self.plot, false).await?;
        finish_unless_kept(&gone, store, cleaner, &self.session, &self.plot, probe).await
    }
}

/// Whether there is nothing to take away: then nothing is recorded either.
async fn is_unmade(
    store: &dyn Store,
    cleaner: &dyn WorktreeCleaner,
    session: &Session,
    plot: &Plot,
) -> Result<bool, HouseError> {
    if cleaner.inspect(plot).await? == Inspection::Absent
        && let Some(record) = store.load(&session.id).await?
        && record.status == Status::Starting
        && record.revision == session.revision
    {
        store.commit(Batch::new().remove(&record)).await?;
        return Ok(true);
    }
    Ok(false)
}

/// Ends the record of a session whose worktree is gone: of one that has ended nobody would clear it away any more.
async fn finish_unless_kept(
    gone: &Gone,
    store: &dyn Store,
    cleaner: &dyn WorktreeCleaner,
    session: &Session,
    plot: &Plot,
    probe: &dyn ProcessProbe,
) -> Result<(), HouseError> {
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
    cleaner.sweep(&plot.root, probe).await?;
    Ok(())
}
