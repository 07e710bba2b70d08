//! The quarantine for bad data: `<journal>.quarantine/`, in which nothing is ever replaced or deleted.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sexton_core::StoreError;
use sexton_durable::{create_private_dir, sync_all, sync_parent};

use crate::journal::{beside, io_error};

/// The quarantine of one journal.
pub(crate) struct Quarantine {
    directory: PathBuf,
    name: String,
}

impl Quarantine {
    /// Returns the quarantine of the journal at `path` without creating it.
    pub(crate) fn of(path: &Path) -> Quarantine {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Quarantine { directory: beside(path, ".quarantine"), name }
    }

    /// Stores `bytes` durably and returns the path.
    pub(crate) fn keep(&self, bytes: &[u8], label: &str) -> Result<PathBuf, StoreError> {
        create_private_dir(&self.directory).map_err(io_error("cannot create", &self.directory))?;
        let kept = self.claim(label, |target| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
            let written = file.write_all(bytes).and_then(|()| sync_all(&file));
            if written.is_err() {
                // A partial copy would be taken for evidence.
                let _ = fs::remove_file(target);
            }
            written
        });
        kept.map_err(io_error("cannot write into", &self.directory))
    }

    /// Tries numbered names until one is free.
    fn claim(&self, label: &str, make: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
        for attempt in 0.. {
            let suffix = if attempt == 0 { String::new() } else { format!(".{attempt}") };
            let target = self.directory.join(format!("{}.{label}{suffix}", self.name));
            match make(&target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => return sync_parent(&target).map(|()| target),
            }
        }
        unreachable!("the loop above has no end")
    }
}
