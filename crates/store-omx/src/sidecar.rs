//! Sexton's own files beside those of oh-my-codex, all in `.sexton/`: its lock, its identifier, the intent of
//! a batch in progress, and temporary files. oh-my-codex never reads them.

use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, unlinkat};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sexton_core::StoreError;
use sexton_core::store::Damage;
use sexton_durable::{create_private_dir, replace_file, sync_parent};

use crate::dir::{Content, Root, io_error, make_dir, read_file, require_dir};
use sexton_durable::random_uuid;

/// The directory.
pub(crate) const NAME: &str = ".sexton";
/// The file with the store's identifier.
const META: &str = "store.json";
/// The file of a batch in progress.
pub(crate) const INTENT: &str = "intent.json";
/// Temporary files, which are unused when the kernel lock is free.
pub(crate) const TEMPORARY: &str = "tmp";
/// Files that a repair moved there.
pub(crate) const QUARANTINE: &str = "quarantine";

/// The version of this directory's content.
pub(crate) const FORMAT: u64 = 1;

/// The identity of the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// The version of this directory's content.
    pub(crate) format: u64,
    /// The store's identifier; a newer format may not have one.
    #[serde(default)]
    pub(crate) store: Option<String>,
}

impl Meta {
    /// Loads the identity of the store; `None` if Sexton never wrote to it.
    pub(crate) fn find(root: &Root) -> Result<Option<Meta>, StoreError> {
        let Some(sidecar) = root.find_directory(NAME)? else { return Ok(None) };
        let path = path_of(&root.path, META);
        match read_file(&sidecar, META) {
            Content::Absent(_) => Ok(None),
            Content::Text(text) => serde_json::from_slice(&text.bytes)
                .map(Some)
                .map_err(|error| io_error("cannot read", &path)(error.into())),
            Content::Unreadable(why) => Err(io_error("cannot read", &path)(io::Error::other(why))),
        }
    }

    /// Creates an identifier if the store has none. Needs no lock: of two concurrent attempts, one finds the
    /// other's.
    pub(crate) fn make(root: &Path) -> Result<(), StoreError> {
        make_dirs(root)?;
        let path = path_of(root, META);
        let name = random_uuid();
        let temporary = path_of(root, &format!(".{META}.{name}"));
        let text = format!("{}\n", json!(Meta { format: FORMAT, store: Some(name) }));
        let make = || {
            replace_file(&temporary, |file| file.write_all(text.as_bytes()))?;
            // A link fails if the name exists; a rename would replace another identifier.
            let linked = fs::hard_link(&temporary, &path).and_then(|()| sync_parent(&path));
            fs::remove_file(&temporary)?;
            match linked {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                other => other,
            }
        };
        make().map_err(io_error("cannot write", &path))
    }

    /// Returns an error for a newer format.
    pub(crate) fn require_known(&self, root: &Path) -> Result<(), StoreError> {
        if self.format > FORMAT {
            return Err(StoreError::newer_format(root, (self.format, FORMAT), []));
        }
        Ok(())
    }

    /// Returns the finding for a newer format.
    pub(crate) fn find_damage(&self) -> Option<Damage> {
        (self.format > FORMAT).then(|| Damage {
            place: format!("{NAME}/{META}"),
            what: format!(
                "it has format {}, newer than the supported {FORMAT}; a newer version of Sexton may write here",
                self.format
            ),
            harmless: false,
        })
    }
}

/// Returns the path of a file in the sidecar, for messages and functions that take paths.
pub(crate) fn path_of(root: &Path, name: &str) -> PathBuf {
    root.join(NAME).join(name)
}

/// Creates the directory.
pub(crate) fn make_dirs(root: &Path) -> Result<(), StoreError> {
    let path = root.join(NAME);
    create_private_dir(&path).map_err(io_error("cannot create", &path))
}

/// The sidecar's two directories, open.
#[derive(Debug)]
pub(crate) struct Sidecar {
    /// The directory itself.
    pub(crate) fd: OwnedFd,
    /// The directory for temporary files.
    pub(crate) temporary: OwnedFd,
}

impl Sidecar {
    /// Opens the sidecar, which must exist.
    pub(crate) fn open(root: &Root) -> Result<Sidecar, StoreError> {
        let path = path_of(&root.path, TEMPORARY);
        let fd = root.find_directory(NAME)?;
        let open = || {
            let fd = fd.ok_or(io::ErrorKind::NotFound)?;
            make_dir(&fd, TEMPORARY)?;
            let temporary = require_dir(&fd, TEMPORARY)?;
            Ok(Sidecar { fd, temporary })
        };
        open().map_err(io_error("cannot create", &path))
    }

    /// Deletes leftovers of killed writers. The caller holds the kernel lock, so they are unused. Files that
    /// cannot be deleted do no harm.
    pub(crate) fn sweep(&self, root: &Path) {
        let names = Dir::read_from(&self.temporary).into_iter().flatten().flatten();
        for name in names.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned)) {
            if name == "." || name == ".." {
                continue;
            }
            if unlinkat(&self.temporary, name.as_str(), AtFlags::empty()).is_err() {
                let _ = std::fs::remove_dir_all(path_of(root, TEMPORARY).join(name));
            }
        }
    }
}
