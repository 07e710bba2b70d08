//! Checks a batch against the files and turns it into new texts for them.

use std::collections::{BTreeMap, BTreeSet};

use sexton_core::store::{Change, Committed, Fitted, Standing};
use sexton_core::{Batch, Session, SessionId, StoreError};
use sha2::{Digest, Sha256};

use crate::claim::Held;
use crate::dir::{Content, Reading};
use crate::document::Document;
use crate::intent::Planned;
use crate::record;
use crate::view::{View, Wanted};
use crate::words::{STOP_REASON, TRANSFERRED};
use crate::write::Written;
use crate::{CAPABILITIES, NAME};

/// How often a commit retries because another program changed one of its files meanwhile.
const ATTEMPTS: usize = 100;

/// The revision of a session without a loop.
const NO_LOOP: u64 = 0;

/// A state file that was parsed.
pub(crate) struct Known {
    /// The text as read; `None` if there is no file.
    pub(crate) text: Option<String>,
    /// The parsed text, to be changed.
    pub(crate) document: Document,
    /// The session that it represents.
    pub(crate) session: Session,
}

/// Interprets a reading; `None` if there is no such session.
pub(crate) fn interpret(id: &SessionId, reading: &Reading) -> Result<Option<Known>, StoreError> {
    let damaged = |what: String| StoreError::DamagedRecord { id: id.clone(), what };
    match &reading.content {
        Content::Absent(None) => Ok(None),
        Content::Absent(Some(since)) => Ok(Some(Known::without_loop(id, *since))),
        Content::Unreadable(why) => Err(damaged(why.clone())),
        Content::Text(text) => {
            let document = Document::parse(&text.bytes).map_err(damaged)?;
            let session = record::decode(id, &document, text.modified);
            let session = Session { revision: revision_of(&text.bytes), ..session };
            Ok(Some(Known { text: reading.text(), document, session }))
        }
    }
}

impl Known {
    /// Returns a session whose loop has not started.
    pub(crate) fn without_loop(id: &SessionId, since: sexton_core::Time) -> Known {
        let session = Session { revision: NO_LOOP, ..record::without_loop(id, since) };
        Known { text: None, document: Document::default(), session }
    }
}

/// Returns a digest of the text with 53 bits, which every JSON reader preserves.
pub(crate) fn revision_of(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    let first = digest.iter().take(8).fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    (first >> 11).max(1)
}

/// Commits `batch`. `names` returns whether the session of an id exists although it has no directory yet.
pub(crate) fn commit(
    held: &mut Held<'_>,
    batch: &Batch,
    names: &dyn Fn(&SessionId) -> bool,
) -> Result<Committed, StoreError> {
    let ids: BTreeSet<SessionId> = batch.changes.iter().map(|change| change.id().clone()).collect();
    for _ in 0..ATTEMPTS {
        held.complete_intent()?;
        let view = View::load(&held.root.path, Wanted::These(&ids))?;
        let known = load_known(&view, names)?;
        check(batch, &known)?;
        let (files, revisions) = plan(batch, &known)?;
        match held.write(files, &view) {
            Ok(Written::Done) => return Ok(Committed::each(revisions)),
            Ok(Written::Disturbed) => {}
            Err(error) => {
                held.sidecar.sweep(&held.root.path);
                return Err(error);
            }
        }
    }
    let busy = std::io::Error::new(std::io::ErrorKind::TimedOut, "another program keeps changing it");
    Err(crate::dir::io_error("cannot write", &held.root.path)(busy))
}

fn load_known(
    view: &View,
    names: &dyn Fn(&SessionId) -> bool,
) -> Result<BTreeMap<SessionId, Known>, StoreError> {
    let mut known = BTreeMap::new();
    for (id, reading) in &view.records {
        let found = match interpret(id, reading)? {
            None if names(id) => Some(Known::without_loop(id, jiff::Timestamp::now().into())),
            found => found,
        };
        known.extend(found.map(|found| (id.clone(), found)));
    }
    Ok(known)
}

fn check(batch: &Batch, known: &BTreeMap<SessionId, Known>) -> Result<(), StoreError> {
    CAPABILITIES.require_counters(NAME, batch)?;
    let inserted = |id: &SessionId| {
        batch.changes.iter().any(|change| matches!(change, Change::Insert(session) if session.id == *id))
    };
    let standing = |id: &SessionId| {
        let session = known.get(id).map(|known| &known.session);
        // A session without a loop can be given one.
        let session = session.filter(|session| session.loop_state.is_some() || !inserted(id));
        Ok(session.map(|session| Standing { revision: session.revision, status: session.status }))
    };
    batch.check(standing, |_| Ok(None))
}

/// Returns the new files, and the resulting revision of each record.
fn plan(
    batch: &Batch,
    known: &BTreeMap<SessionId, Known>,
) -> Result<(Vec<Planned>, BTreeMap<SessionId, u64>), StoreError> {
    let source = find_source(batch, known);
    let (mut leaving, mut driving, mut revisions) = (Vec::new(), Vec::new(), BTreeMap::new());
    for change in &batch.changes {
        let id = change.id().clone();
        let known = known.get(&id);
        let before = known.and_then(|known| known.text.clone());
        let after = match change {
            Change::Insert(session) => Some(inserted(session)?.render()),
            Change::Replace(session) => replaced(known, session, source)?,
            Change::Remove { .. } => None,
        };
        revisions.insert(id.clone(), after.as_ref().map_or(NO_LOOP, |text| revision_of(text.as_bytes())));
        if before != after {
            let drives = after.as_deref().is_some_and(record::is_driving);
            let file = Planned { session: id, before, after };
            if drives { driving.push(file) } else { leaving.push(file) }
        }
    }
    // Sessions that give up a loop go first: between two files no session may drive the loop, but never two.
    leaving.append(&mut driving);
    Ok((leaving, revisions))
}

/// Returns the session whose loop another session of the batch takes over.
fn find_source<'k>(batch: &Batch, known: &'k BTreeMap<SessionId, Known>) -> Option<&'k Known> {
    let gives_up = |session: &Session| {
        let state = session.loop_state.as_ref();
        state.is_some_and(|state| !state.active && state.extra.get(STOP_REASON) == Some(&TRANSFERRED.into()))
    };
    let drives = |known: &&Known| known.session.loop_state.as_ref().is_some_and(|state| state.active);
    batch.changes.iter().find_map(|change| match change {
        Change::Replace(session) if gives_up(session) => known.get(&session.id).filter(drives),
        _ => None,
    })
}

fn inserted(session: &Session) -> Result<Document, StoreError> {
    require_kept(session, &record::fit_new(session))?;
    Ok(record::insert(session))
}

/// Returns the new text for `after`; `None` if there was no file and none is needed.
fn replaced(
    known: Option<&Known>,
    after: &Session,
    source: Option<&Known>,
) -> Result<Option<String>, StoreError> {
    let Some(Known { text, document, session: before }) = known else { return Ok(None) };
    let changed = match (&before.loop_state, &after.loop_state, source) {
        (None, None, _) => return Ok(None),
        (Some(_), None, _) => {
            let what = format!("session {} without its loop", after.id);
            return Err(StoreError::Unsupported { backend: NAME, what });
        }
        (None, Some(_), Some(source)) => record::carry_over(&source.document, &source.session, after),
        _ => {
            let mut changed = document.clone();
            record::change(&mut changed, before, after);
            changed
        }
    };
    require_kept(after, &record::fit_change(&changed, before, after, before.created_at))?;
    // Unchanged content keeps its layout.
    let same = text.is_some() && changed.render() == document.render();
    Ok(if same { text.clone() } else { Some(changed.render()) })
}

/// Returns an error for a field that cannot be represented; for a status, the error names it.
fn require_kept(asked: &Session, fitted: &Fitted) -> Result<(), StoreError> {
    if fitted.lost.iter().any(|field| field == "status") {
        let what = format!("the status `{}` of session {}", asked.status, asked.id);
        return Err(StoreError::Unsupported { backend: NAME, what });
    }
    CAPABILITIES.require_kept(NAME, fitted)
}
