//! Which view of the store's file a handle has: none, a sound store, or a broken one. A file can be
//! replaced or change its state at any time, so a view is looked at again before each use.

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
use sexton_durable::random_uuid;

/// What a handle knows of its file.
#[derive(Clone)]
pub(crate) enum View {
    /// There is none, and there never was.
    Absent,
    /// A sound store.
    Live(Arc<Live>),
    /// One that must not be written.
    Broken(Arc<Broken>),
}

impl View {
    /// Looks at the file without changing anything.
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

    /// The view of a file in which `causes` were found.
    pub(crate) fn broken(files: &Files, causes: Vec<Damage>) -> Result<View, StoreError> {
        let mark = health::load_mark(files)?;
        Ok(View::Broken(Arc::new(Broken::load(files, mark.as_ref(), causes)?)))
    }

    /// The first view of a handle.
    pub(crate) fn open(files: &Files, purpose: Purpose) -> Result<View, StoreError> {
        if purpose.access == Access::Read {
            return View::examine(files, purpose);
        }
        files.create_directory()?;
        if !files.has_successor()? {
            // Without the lock first: what is in order, or not ours to touch, needs none.
            match health::examine(files, purpose)? {
                Verdict::Broken(broken) if broken.is_newer() => return Err(broken.refusal(files)),
                Verdict::Sound(sound) if !sound.is_recorded => {}
                Verdict::Absent => {}
                in_order => return Ok(View::of(in_order)),
            }
        }
        View::settle(&files.lock_writers()?, files, purpose)
    }

    /// Brings the store into the state in which a writer may use it: completes a replacement that was cut
    /// off, makes a store where there is none, and records that a file which others wrote was found sound.
    pub(crate) fn settle(lock: &WriterLock, files: &Files, purpose: Purpose) -> Result<View, StoreError> {
        rebuild::finish_replacement(lock, files)?;
        let verdict = match health::examine(files, purpose)? {
            Verdict::Absent => {
                let (rows, counters) = Default::default();
                rebuild::create(lock, files, &Content { store: random_uuid(), seq: 0, rows, counters })?;
                health::examine(files, purpose)?
            }
            found => found,
        };
        match verdict {
            Verdict::Broken(broken) if broken.is_newer() => Err(broken.refusal(files)),
            Verdict::Sound(sound) if !sound.is_recorded => record(lock, files, sound),
            settled => Ok(View::of(settled)),
        }
    }

    /// Whether the file is still the one this view is of.
    pub(crate) fn is_current(&self, files: &Files) -> Result<bool, StoreError> {
        match self {
            View::Absent => Ok(files.find_stamp()?.is_none() && health::load_mark(files)?.is_none()),
            View::Live(live) => live.is_current(files),
            View::Broken(broken) => broken.is_current(files),
        }
    }
}

/// Records that the file as it is now was found sound. A backup that is used as a store has no log yet.
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
    // Where it cannot be written, the next open only has to look again.
    let _ = files.mark().store(&mark);
    Ok(View::Live(Arc::new(live)))
}

/// Reads everything; gives the view of the file after that, and what was found.
pub(crate) fn examine_deeply(files: &Files, purpose: Purpose) -> Result<(View, Findings), StoreError> {
    let view = View::examine(files, purpose)?;
    let View::Live(live) = &view else { return Ok((view, Findings::default())) };
    let looked = live.with(files, |link| {
        let torn = health::scan_log(files, link)?;
        let mut findings = deep::check(link).map_err(|error| Fault::of("cannot check", &files.db, error))?;
        findings.damage.extend(torn);
        Ok(findings)
    });
    match looked {
        Ok(findings) if findings.damage.iter().all(|damage| damage.harmless) => Ok((view, findings)),
        Ok(findings) => Ok((View::broken(files, findings.damage)?, Findings::default())),
        Err(Fault::Damage(causes)) => Ok((View::broken(files, causes)?, Findings::default())),
        Err(Fault::Replaced) => examine_deeply(files, purpose),
        Err(Fault::Refused(error)) => Err(error),
    }
}
