//! Reading several files as if they were one: as they all were at one moment, with a batch under way seen
//! as done.
//!
//! Everything is read, and then looked at once more. Where nothing has changed in between, all of it was so
//! at the moment in the middle. The intent is looked at first and, the second time, before the files: a batch
//! that began and ended between the two looks has changed its files by then, and is noticed there. Where
//! writers are so busy that there is no such moment, they are asked for one.

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

/// How often a view is taken before writers are asked to wait.
const PROMPT_LOOKS: u32 = 10;
/// How often it is taken at all.
const LOOKS: u32 = 500;
/// How long the writers are waited for, each time. One that was stopped changes nothing, and is seen as it is.
const CALM_WAIT: Duration = Duration::from_millis(100);

/// State files as they were at one moment.
#[derive(Debug)]
pub(crate) struct View {
    /// What was read of each, the intent already looked through.
    pub(crate) records: BTreeMap<SessionId, Reading>,
    /// The intent of a batch under way.
    pub(crate) intent: Option<Result<Intent, String>>,
    /// What is left to be done of it.
    pub(crate) due: Vec<(SessionId, Due)>,
    intent_stamp: Option<Stamp>,
}

/// Which files are wanted.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// All of them.
    All,
    /// These, whether they are there or not.
    These(&'a BTreeSet<SessionId>),
}

impl View {
    /// Reads what is wanted.
    pub(crate) fn load(path: &Path, wanted: Wanted<'_>) -> Result<View, StoreError> {
        for look in 0..LOOKS {
            let _calm = if look < PROMPT_LOOKS { None } else { find_calm(path) };
            let Some(root) = Root::find(path)? else { return Ok(View::empty(wanted)) };
            let view = View::look(&root, wanted)?;
            if view.still_holds(&root, wanted)? {
                return Ok(view.looking_through());
            }
        }
        let busy = io::Error::new(io::ErrorKind::TimedOut, "it does not stop changing");
        Err(io_error("cannot read", path)(busy))
    }

    /// Reads every file for itself, whatever happens to the others meanwhile.
    pub(crate) fn glance(path: &Path) -> Result<View, StoreError> {
        match Root::find(path)? {
            Some(root) => Ok(View::look(&root, Wanted::All)?.looking_through()),
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

    fn look(root: &Root, wanted: Wanted<'_>) -> Result<View, StoreError> {
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

    /// Whether everything is still as it was when it was read.
    fn still_holds(&self, root: &Root, wanted: Wanted<'_>) -> Result<bool, StoreError> {
        let sidecar = root.find_directory(sidecar::NAME)?;
        if sidecar.as_ref().and_then(|sidecar| find_stamp(sidecar, INTENT)) != self.intent_stamp {
            return Ok(false);
        }
        let sessions = root.find_directory(SESSIONS)?;
        let ids = list(root, sessions.as_ref(), wanted)?;
        Ok(ids.iter().all(|id| self.records.contains_key(id)) && self.is_unchanged(sessions.as_ref()))
    }

    /// Whether no file was changed since it was read.
    pub(crate) fn is_unchanged(&self, sessions: Option<&OwnedFd>) -> bool {
        self.records.iter().all(|(id, reading)| Reading::stamps(sessions, id) == reading.stamps)
    }

    /// The view with a batch under way seen as done.
    fn looking_through(mut self) -> View {
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

    /// What is wrong with the intent itself.
    pub(crate) fn find_damage(&self) -> Option<Damage> {
        let Some(Err(why)) = &self.intent else { return None };
        Some(Damage {
            place: format!("{}/{INTENT}", sidecar::NAME),
            what: format!(
                "the plan of a batch that was never acknowledged cannot be read ({why}); the next write sets it aside"
            ),
            harmless: true,
        })
    }
}

impl Reading {
    /// The text that is there. A file that is not UTF-8 is like nobody's.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.content {
            Content::Absent(_) => None,
            Content::Text(text) => Some(String::from_utf8_lossy(&text.bytes).into_owned()),
            Content::Unreadable(why) => Some(why.clone()),
        }
    }
}

/// A moment in which no Sexton writes: the kernel lock, where there is one and it can be had.
fn find_calm(path: &Path) -> Option<FileLock> {
    let lock = sidecar::path_of(path, KERNEL_LOCK);
    // Nobody who only reads makes anything.
    let there = lock.symlink_metadata().is_ok();
    if there { FileLock::acquire_within(&lock, CALM_WAIT).ok().flatten() } else { None }
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
