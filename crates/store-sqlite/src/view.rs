//! The view that a handle has of the store's file: absent, intact or broken. A file can be replaced or change
//! its state at any time, so a view is checked again before each use.

use std::sync::Arc;

use sexton_core::StoreError;
use sexton_core::store::{Access, Damage};
use sexton_durable::Mark;

use crate::broken::Broken;
use crate::deep::{self, Findings};
use crate::fault::Fault;
use crate::files::{Files, WriterLock};
use crate::health::{self, Purpose, Sound, Verdict};
use crate::live::Live;
use crate::rebuild::{self, Content};
use crate::schema;
use sexton_durable::random_uuid;

/// The known state of the file.
#[derive(Clone)]
pub(crate) enum View {
    /// It does not exist and never did.
    Absent,
    /// An intact store.
    Live(Arc<Live>),
    /// A store that must not be written.
    Broken(Arc<Broken>),
}

impl View {
    /// Checks the file without changing anything.
    pub(crate) fn examine(files: &Files, purpose: Purpose) -> Result<View, StoreError> {
        Ok(View::of(health::examine(files, purpose)?))
    }

    fn of(verdict: Verdict) -> View {
        match verdict {
            Verdict::Absent => View::Absent,
            Verdict::Sound(sound) => View::Live(Arc::new(Live::new(sound))),
            Verdict::Broken(broken) => View::Broken(Arc::new(broken)),
        }
    }

    /// Returns the view of a file in which `causes` were found.
    pub(crate) fn broken(files: &Files, causes: Vec<Damage>) -> Result<View, StoreError> {
        let mark = health::load_mark(files)?;
        Ok(View::Broken(Arc::new(Broken::load(files, mark.as_ref(), causes)?)))
    }

    /// Returns the first view of a handle.
    pub(crate) fn open(files: &Files, purpose: Purpose) -> Result<View, StoreError> {
        if purpose.access == Access::Read {
            return View::examine(files, purpose);
        }
        files.create_directory()?;
        if !files.has_successor()? {
            // First without the lock: a store that is in order, or must not be changed, needs none.
            match health::examine(files, purpose)? {
                Verdict::Broken(broken) if broken.is_newer() => return Err(broken.refusal(files)),
                Verdict::Sound(sound) if !sound.is_recorded => {}
                Verdict::Absent => {}
                in_order => return Ok(View::of(in_order)),
            }
        }
        View::prepare(&files.lock_writers()?, files, purpose)
    }

    /// Prepares the store for a writer: completes an interrupted replacement, creates a store if there is
    /// none, and records that a file written by another program is intact.
    pub(crate) fn prepare(lock: &WriterLock, files: &Files, purpose: Purpose) -> Result<View, StoreError> {
        rebuild::finish_replacement(lock, files)?;
        let verdict = match health::examine(files, purpose)? {
            Verdict::Absent => {
                let (rows, counters) = Default::default();
                let (store, format) = (random_uuid(), schema::newest());
                rebuild::create(lock, files, &Content { store, format, seq: 0, rows, counters })?;
                health::examine(files, purpose)?
            }
            found => found,
        };
        match verdict {
            Verdict::Broken(broken) if broken.is_newer() => Err(broken.refusal(files)),
            Verdict::Sound(sound) if !sound.is_recorded => record(lock, files, sound),
            prepared => Ok(View::of(prepared)),
        }
    }

    /// Returns whether this view still matches the file.
    pub(crate) fn is_current(&self, files: &Files) -> Result<bool, StoreError> {
        match self {
            View::Absent => Ok(files.find_stamp()?.is_none() && health::load_mark(files)?.is_none()),
            View::Live(live) => live.is_current(files),
            View::Broken(broken) => broken.is_current(files),
        }
    }
}

/// Records that the file as it is now is intact. A backup used as a store has no log yet.
fn record(_: &WriterLock, files: &Files, sound: Sound) -> Result<View, StoreError> {
    let switched = sound.link.pragma_update(None, "journal_mode", "WAL");
    switched.map_err(|error| StoreError::Backend {
        action: "cannot open",
        path: files.db.clone(),
        source: Box::new(error),
    })?;
    let stamp = files.find_stamp()?;
    let mark = Mark { store: sound.meta.store.clone(), sequence: sound.meta.seq, stamp };
    let live = Live::new(sound);
    if let Some(stamp) = stamp {
        live.set_stamp(stamp);
    }
    // If this fails, the next open only has to check again.
    let _ = files.mark().store(&mark);
    Ok(View::Live(Arc::new(live)))
}

/// Runs the full check; returns the view of the file after it, and the findings.
pub(crate) fn examine_deeply(files: &Files, purpose: Purpose) -> Result<(View, Findings), StoreError> {
    let view = View::examine(files, purpose)?;
    let View::Live(live) = &view else { return Ok((view, Findings::default())) };
    let checked = live.with(files, |link| {
        let torn = health::scan_log(files, link)?;
        let mut findings = deep::check(link).map_err(|error| Fault::of("cannot check", &files.db, error))?;
        findings.damage.extend(torn);
        Ok(findings)
    });
    match checked {
        Ok(findings) if findings.damage.iter().all(|damage| damage.harmless) => Ok((view, findings)),
        Ok(findings) => Ok((View::broken(files, findings.damage)?, Findings::default())),
        Err(Fault::Damage(causes)) => Ok((View::broken(files, causes)?, Findings::default())),
        Err(Fault::Replaced) => examine_deeply(files, purpose),
        Err(Fault::Refused(error)) => Err(error),
    }
}
