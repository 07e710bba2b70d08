//! The file as it was at one time.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sexton_core::StoreError;
use sexton_core::store::Damage;
use sexton_durable::{FileStamp, open_regular};

use crate::document::{Content, Document, VERSION};
use crate::project::Place;

/// The size limit of a file that is read. One hundred thousand sessions take a tenth of it.
const LARGEST: u64 = 512 << 20;

/// A file younger than this may be written again without a new modification time: file system clocks are
/// coarse.
const MIN_STAMP_AGE: Duration = Duration::from_secs(2);

/// The state found at the store's path.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    path: PathBuf,
    bytes: Arc<Vec<u8>>,
    /// The stamp of the file, if it is old enough to detect a change.
    stamp: Option<FileStamp>,
    pub(crate) state: State,
    findings: Vec<Damage>,
}

/// The state of the file.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// No file.
    Absent,
    /// A file with this content.
    Present(Content),
    /// A file that is too large to be read.
    TooLarge(u64),
}

impl Snapshot {
    /// Reads the file, unless `known` is still current.
    pub(crate) fn take(place: &Place, known: Option<&Snapshot>) -> Result<Snapshot, StoreError> {
        let path = &place.path;
        let failed = |source| StoreError::Io { action: "cannot read", path: path.clone(), source };
        if let Some(known) = known.filter(|known| known.stamp.is_some())
            && FileStamp::of(path).ok() == known.stamp
        {
            return Ok(known.clone());
        }
        let project = place.project();
        let findings = project.findings.clone();
        let found = |bytes, stamp, state| Snapshot { path: path.clone(), bytes, stamp, state, findings };
        let began = SystemTime::now();
        let bytes = match load(path).map_err(failed)? {
            Loaded::Nothing => return Ok(found(Arc::default(), None, State::Absent)),
            Loaded::TooLarge(size) => return Ok(found(Arc::default(), None, State::TooLarge(size))),
            Loaded::Bytes(bytes, modified) => {
                let is_old_enough = began.duration_since(modified).is_ok_and(|age| age > MIN_STAMP_AGE);
                let stamp = FileStamp::of(path).ok().filter(|_| is_old_enough);
                match known {
                    Some(known) if *known.bytes == bytes => return Ok(Snapshot { stamp, ..known.clone() }),
                    _ => (bytes, stamp),
                }
            }
        };
        let (bytes, stamp) = bytes;
        let content = Document::read(&bytes, &project);
        Ok(found(Arc::new(bytes), stamp, State::Present(content)))
    }

    /// Returns the snapshot of what was just written.
    pub(crate) fn of_written(place: &Place, bytes: Vec<u8>, document: Document) -> Snapshot {
        let findings = place.project().findings;
        let state = State::Present(Content::Document(document));
        // The file may be written again at once, so the bytes are compared and not the time.
        Snapshot { path: place.path.clone(), bytes: Arc::new(bytes), stamp: None, state, findings }
    }

    /// Returns whether it is an incomplete write.
    pub(crate) fn is_torn(&self) -> bool {
        matches!(self.state, State::Present(Content::Torn(..)))
    }

    /// Returns the readable content.
    pub(crate) fn document(&self) -> Option<&Document> {
        match &self.state {
            State::Present(Content::Document(document) | Content::Torn(_, document)) => Some(document),
            State::Present(Content::Newer(_)) | State::Absent | State::TooLarge(_) => None,
        }
    }

    /// Returns the damage.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        let whole = |what| Damage { place: "the file".to_owned(), what, harmless: false };
        let mut damage = match &self.state {
            State::Absent => return self.findings.clone(),
            State::Present(Content::Newer(found)) => vec![whole(format!(
                "it has version {found}, newer than the supported {VERSION}; none of it is read"
            ))],
            State::Present(Content::Torn(damage, _)) => vec![damage.clone()],
            State::Present(Content::Document(_)) => Vec::new(),
            State::TooLarge(size) => {
                vec![whole(format!("it has {size} bytes, more than the limit of {LARGEST}"))]
            }
        };
        damage.extend(self.document().map(Document::findings).unwrap_or_default());
        damage.extend(self.findings.iter().cloned());
        damage
    }

    /// Returns the document, or an error for a file that must not be written.
    pub(crate) fn require_sound(&self) -> Result<Document, StoreError> {
        self.require_known_version()?;
        let damage: Vec<_> = self.damage().into_iter().filter(|damage| !damage.harmless).collect();
        if !damage.is_empty() {
            return Err(StoreError::Damaged { path: self.path.clone(), damage });
        }
        Ok(self.document().cloned().unwrap_or_else(Document::empty))
    }

    /// Returns an error for a file of a newer version.
    pub(crate) fn require_known_version(&self) -> Result<(), StoreError> {
        match self.state {
            State::Present(Content::Newer(found)) => {
                Err(StoreError::newer_format(&self.path, (found, VERSION), []))
            }
            _ => Ok(()),
        }
    }

    /// Returns the bytes that were read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

enum Loaded {
    Nothing,
    Bytes(Vec<u8>, SystemTime),
    TooLarge(u64),
}

fn load(path: &Path) -> io::Result<Loaded> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::Nothing),
        other => other?,
    };
    let (size, modified) = (file.metadata()?.len(), file.metadata()?.modified()?);
    let mut bytes = Vec::new();
    if size <= LARGEST {
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    }
    let size = size.max(bytes.len() as u64);
    Ok(if size > LARGEST { Loaded::TooLarge(size) } else { Loaded::Bytes(bytes, modified) })
}
