//! Consistent reading of several files: all of them as they were at one time, with a batch in progress
//! applied.
//!
//! Everything is read, and then checked once more. If nothing has changed in between, all of it is
//! consistent. The intent is read first and, the second time, checked before the files: a batch that began
//! and ended in between has changed its files by then and is detected there. If writers are too busy for
//! this, the kernel lock pauses them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use sexton_core::store::Damage;
use sexton_core::{SessionId, StoreError, Time};
use sexton_durable::FileLock;

use crate::claim::KERNEL_LOCK;
use crate::dir::{Content, FileText, Reading, Root, SESSIONS, Stamp, find_stamp, io_error, read_file};
use crate::intent::{Due, Intent};
use crate::sidecar::{self, INTENT};

/// The number of attempts before writers are paused.
const UNLOCKED_ATTEMPTS: u32 = 10;
/// The number of attempts in total.
const ATTEMPTS: u32 = 500;
/// How long to wait for the writers, each time. A suspended writer changes nothing, so its state can be read
/// as it is.
const PAUSE_WAIT: Duration = Duration::from_millis(100);

/// Consistent state files.
#[derive(Debug)]
pub(crate) struct View {
    /// The content of each file, with the intent applied.
    pub(crate) records: BTreeMap<SessionId, Reading>,
    /// The intent of a batch in progress.
    pub(crate) intent: Option<Result<Intent, String>>,
    /// What remains to be done for it.
    pub(crate) due: Vec<(SessionId, Due)>,
    intent_stamp: Option<Stamp>,
}

/// Which files to read.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// All of them.
    All,
    /// These, whether they exist or not.
    These(&'a BTreeSet<SessionId>),
}

impl View {
    /// Reads the files in `wanted` consistently.
    pub(crate) fn load(path: &Path, wanted: Wanted<'_>) -> Result<View, StoreError> {
        for attempt in 0..ATTEMPTS {
            let _paused = if attempt < UNLOCKED_ATTEMPTS { None } else { pause_writers(path) };
            let Some(root) = Root::find(path)? else { return Ok(View::empty(wanted)) };
            let view = View::read_once(&root, wanted)?;
            if view.is_consistent(&root, wanted)? {
                return Ok(view.with_intent_applied());
            }
        }
        let busy = io::Error::new(io::ErrorKind::TimedOut, "it keeps changing");
        Err(io_error("cannot read", path)(busy))
    }

    /// Reads every file without checking that they are consistent.
    pub(crate) fn read_unchecked(path: &Path) -> Result<View, StoreError> {
        match Root::find(path)? {
            Some(root) => Ok(View::read_once(&root, Wanted::All)?.with_intent_applied()),
            None => Ok(View::empty(Wanted::All)),
        }
    }

    fn empty(wanted: Wanted<'_>) -> View {
        let nothing = || Reading { content: Content::Absent(None), stamps: [None, None] };
        let ids = match wanted {
            Wanted::All => BTreeSet::new(),
            Wanted::These(ids) => ids.clone(),
        };
        let records = ids.into_iter().map(|id| (id, nothing())).collect();
        View { records, intent: None, due: Vec::new(), intent_stamp: None }
    }

    fn read_once(root: &Root, wanted: Wanted<'_>) -> Result<View, StoreError> {
        let sidecar = root.find_directory(sidecar::NAME)?;
        let intent_stamp = sidecar.as_ref().and_then(|sidecar| find_stamp(sidecar, INTENT));
        let intent = match sidecar.as_ref().map(|sidecar| read_file(sidecar, INTENT)) {
            None | Some(Content::Absent(_)) => None,
            Some(Content::Text(text)) => Some(Intent::decode(&text.bytes)),
            Some(Content::Unreadable(why)) => Some(Err(why)),
        };
        let sessions = root.find_directory(SESSIONS)?;
        let mut ids = list(root, sessions.as_ref(), wanted)?;
        if let Some(Ok(intent)) = &intent {
            ids.extend(intent.files.iter().map(|file| file.session.clone()));
        }
        let reading = |id: SessionId| (id.clone(), Reading::of(sessions.as_ref(), &id));
        let records = ids.into_iter().map(reading).collect();
        Ok(View { records, intent, due: Vec::new(), intent_stamp })
    }

    /// Returns whether nothing has changed since it was read.
    fn is_consistent(&self, root: &Root, wanted: Wanted<'_>) -> Result<bool, StoreError> {
        let sidecar = root.find_directory(sidecar::NAME)?;
        if sidecar.as_ref().and_then(|sidecar| find_stamp(sidecar, INTENT)) != self.intent_stamp {
            return Ok(false);
        }
        let sessions = root.find_directory(SESSIONS)?;
        let ids = list(root, sessions.as_ref(), wanted)?;
        Ok(ids.iter().all(|id| self.records.contains_key(id)) && self.is_unchanged(sessions.as_ref()))
    }

    /// Returns whether no file was changed since it was read.
    pub(crate) fn is_unchanged(&self, sessions: Option<&OwnedFd>) -> bool {
        self.records.iter().all(|(id, reading)| Reading::stamps(sessions, id) == reading.stamps)
    }

    /// Returns the view with a batch in progress applied.
    fn with_intent_applied(mut self) -> View {
        if let Some(Ok(intent)) = &self.intent {
            self.due = intent.due(|id| self.records.get(id).and_then(Reading::text));
        }
        for (id, due) in &self.due {
            let (Due::Put(after), Some(reading)) = (due, self.records.get_mut(id)) else { continue };
            reading.content = match (after, &reading.content) {
                (None, _) => Content::Absent(None),
                (Some(text), Content::Text(now)) => {
                    Content::Text(FileText { bytes: text.clone().into(), ..now.clone() })
                }
                (Some(text), _) => Content::Text(FileText {
                    bytes: text.clone().into(),
                    modified: Time::from(Timestamp::now()),
                    mode: 0o600,
                    owner: None,
                }),
            };
        }
        self
    }

    /// Returns the damage of the intent itself.
    pub(crate) fn find_damage(&self) -> Option<Damage> {
        let Some(Err(why)) = &self.intent else { return None };
        Some(Damage {
            place: format!("{}/{INTENT}", sidecar::NAME),
            what: format!(
                "the intent of an unacknowledged batch is unreadable ({why}); the next write quarantines it"
            ),
            harmless: true,
        })
    }
}

impl Reading {
    /// Returns the present text. For a file that cannot be read, the text matches no planned one.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.content {
            Content::Absent(_) => None,
            Content::Text(text) => Some(String::from_utf8_lossy(&text.bytes).into_owned()),
            Content::Unreadable(why) => Some(why.clone()),
        }
    }
}

/// Pauses Sexton's writers by taking the kernel lock, if it exists and can be acquired.
fn pause_writers(path: &Path) -> Option<FileLock> {
    let lock = sidecar::path_of(path, KERNEL_LOCK);
    // A reader creates no files.
    let there = lock.symlink_metadata().is_ok();
    if there { FileLock::acquire_within(&lock, PAUSE_WAIT).ok().flatten() } else { None }
}

fn list(
    root: &Root,
    sessions: Option<&OwnedFd>,
    wanted: Wanted<'_>,
) -> Result<BTreeSet<SessionId>, StoreError> {
    match wanted {
        Wanted::All => root.list_ids(sessions),
        Wanted::These(ids) => Ok(ids.clone()),
    }
}
