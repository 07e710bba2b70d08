//! The file as it was at one moment.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sexton_core::StoreError;
use sexton_core::store::Damage;
use sexton_durable::FileStamp;

use crate::document::{Content, Document, VERSION};
use crate::project::Project;

/// The largest file that is read. One hundred thousand sessions take a tenth of it.
const LARGEST: u64 = 512 << 20;

/// A file that was written no longer ago than this may be written again without a new time: clocks of file
/// systems are coarse.
const SETTLED: Duration = Duration::from_secs(2);

/// What was found at the store's path.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    path: PathBuf,
    bytes: Arc<Vec<u8>>,
    /// Which file it was, where that can be told from another by a look.
    stamp: Option<FileStamp>,
    pub(crate) state: State,
    findings: Vec<Damage>,
}

/// What is there.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// Nothing.
    Absent,
    /// This.
    Present(Content),
    /// A file that is too large to be read.
    TooLarge(u64),
}

impl Snapshot {
    /// Reads the file at `path`; what `known` has read of it already is not read again.
    pub(crate) fn take(path: &Path, known: Option<&Snapshot>) -> Result<Snapshot, StoreError> {
        let failed = |source| StoreError::Io { action: "cannot read", path: path.to_owned(), source };
        if let Some(known) = known.filter(|known| known.stamp.is_some())
            && FileStamp::of(path).ok() == known.stamp
        {
            return Ok(known.clone());
        }
        let project = Project::around(path);
        let findings = project.findings.clone();
        let found = |bytes, stamp, state| Snapshot { path: path.to_owned(), bytes, stamp, state, findings };
        let began = SystemTime::now();
        let bytes = match load(path).map_err(failed)? {
            Loaded::Nothing => return Ok(found(Arc::default(), None, State::Absent)),
            Loaded::TooLarge(size) => return Ok(found(Arc::default(), None, State::TooLarge(size))),
            Loaded::Bytes(bytes, modified) => {
                let settled = began.duration_since(modified).is_ok_and(|age| age > SETTLED);
                let stamp = FileStamp::of(path).ok().filter(|_| settled);
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

    /// What somebody has just written at `path`.
    pub(crate) fn of_written(path: &Path, bytes: Vec<u8>, document: Document) -> Snapshot {
        let findings = Project::around(path).findings;
        let state = State::Present(Content::Document(document));
        // It may be written again at once: the bytes are compared, not the time.
        Snapshot { path: path.to_owned(), bytes: Arc::new(bytes), stamp: None, state, findings }
    }

    /// Whether it is half of what somebody is writing, or was.
    pub(crate) fn is_torn(&self) -> bool {
        matches!(self.state, State::Present(Content::Torn(..)))
    }

    /// What can be read.
    pub(crate) fn document(&self) -> Option<&Document> {
        match &self.state {
            State::Present(Content::Document(document) | Content::Torn(_, document)) => Some(document),
            State::Present(Content::Newer(_)) | State::Absent | State::TooLarge(_) => None,
        }
    }

    /// What is wrong with it.
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
                vec![whole(format!("it has {size} bytes, more than is read ({LARGEST})"))]
            }
        };
        damage.extend(self.document().map(Document::findings).unwrap_or_default());
        damage.extend(self.findings.iter().cloned());
        damage
    }

    /// Refuses a file that may not be written, and gives what may.
    pub(crate) fn require_sound(&self) -> Result<Document, StoreError> {
        self.require_known_version()?;
        let damage: Vec<_> = self.damage().into_iter().filter(|damage| !damage.harmless).collect();
        if !damage.is_empty() {
            return Err(StoreError::Damaged { path: self.path.clone(), damage });
        }
        Ok(self.document().cloned().unwrap_or_else(Document::empty))
    }

    /// Refuses a file of a newer version.
    pub(crate) fn require_known_version(&self) -> Result<(), StoreError> {
        match self.state {
            State::Present(Content::Newer(found)) => {
                Err(StoreError::NewerFormat { path: self.path.clone(), found, supported: VERSION })
            }
            _ => Ok(()),
        }
    }

    /// The bytes that were read.
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
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::Nothing),
        other => other?,
    };
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let file = match File::open(path) {
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
