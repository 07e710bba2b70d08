//! Writes files: a single file directly, several after an intent. Each is synced, renamed, and its directory
//! synced; with `Durability::Process` nothing is synced.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, fchmod, fchown, openat, renameat, unlinkat};
use rustix::io::Errno;
use sexton_core::store::Durability;
use sexton_core::{SessionId, StoreError};
use sexton_durable::sync_all;

use crate::claim::Held;
use crate::dir::{
    Content, FileText, SESSIONS, STATE_FILE, io_error, make_dir, require_dir, require_session_dir,
};
use crate::foreign::temporary_name;
use crate::intent::{Due, Intent, Planned};
use crate::sidecar::{self, INTENT, QUARANTINE};
use crate::view::{View, Wanted};

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Everything is in place.
    Done,
    /// Another program changed a file, or broke the lock, before anything was written: read again.
    Disturbed,
}

/// A file in the temporary directory.
struct Staged {
    name: String,
}

impl Held<'_> {
    /// Changes `files`, which were read as in `view`, all or nothing.
    pub(crate) fn write(&mut self, files: Vec<Planned>, view: &View) -> Result<Written, StoreError> {
        let sessions = self.require_sessions()?;
        let staged = self.stage_all(&files, view)?;
        let intent = Intent::new(files);
        let plan = match intent.files.len() {
            0 => return Ok(Written::Done),
            1 => None,
            _ => Some(self.stage(intent.encode().as_bytes(), None)?),
        };
        if !self.is_secure() || !view.is_unchanged(Some(&sessions)) {
            self.sidecar.sweep(&self.root.path);
            return Ok(Written::Disturbed);
        }
        if let Some(plan) = &plan {
            self.publish_intent(plan)?;
        }
        for (file, staged) in intent.files.iter().zip(&staged) {
            self.place(&sessions, &file.session, staged.as_ref())?;
        }
        if plan.is_some() {
            self.drop_intent()?;
        }
        Ok(Written::Done)
    }

    /// Completes a batch that a killed writer left, so that all of it counts or nothing.
    pub(crate) fn complete_intent(&mut self) -> Result<(), StoreError> {
        self.secure()?;
        let view = View::load(&self.root.path, Wanted::These(&BTreeSet::new()))?;
        match &view.intent {
            None => return Ok(()),
            Some(Err(_)) => return self.quarantine_intent(),
            Some(Ok(_)) => {}
        }
        let sessions = self.require_sessions()?;
        // Even a file with the right content is written again: its sync may have failed.
        for (id, due) in &view.due {
            let Due::Put(content) = due else { continue };
            let staged = match content {
                Some(text) => Some(self.stage(text.as_bytes(), find_text(&view, id))?),
                None => None,
            };
            self.place(&sessions, id, staged.as_ref())?;
        }
        self.drop_intent()
    }

    /// Opens the directory of sessions, creating it if missing.
    pub(crate) fn require_sessions(&self) -> Result<OwnedFd, StoreError> {
        let path = self.root.path.join(SESSIONS);
        let made = make_dir(&self.root.fd, SESSIONS).map_err(io_error("cannot create", &path))?;
        if made {
            self.sync(&self.root.fd).map_err(io_error("cannot sync", &self.root.path))?;
        }
        require_dir(&self.root.fd, SESSIONS).map_err(io_error("cannot open", &path))
    }

    fn stage_all(&self, files: &[Planned], view: &View) -> Result<Vec<Option<Staged>>, StoreError> {
        let stage = |file: &Planned| match &file.after {
            Some(text) => self.stage(text.as_bytes(), find_text(view, &file.session)).map(Some),
            None => Ok(None),
        };
        files.iter().map(stage).collect()
    }

    /// Writes a temporary file with the same permissions as the one that it will replace.
    fn stage(&self, bytes: &[u8], replaced: Option<&FileText>) -> Result<Staged, StoreError> {
        let name = temporary_name("file");
        let path = sidecar::path_of(&self.root.path, sidecar::TEMPORARY).join(&name);
        let write = || -> io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let fd = openat(&self.sidecar.temporary, name.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
            let mut file = File::from(fd);
            file.write_all(bytes)?;
            if let Some(replaced) = replaced {
                fchmod(&file, Mode::from_raw_mode(replaced.mode))?;
            }
            if let Some((user, group)) = replaced.and_then(|replaced| replaced.owner) {
                // Only root can change the owner, and only root needs to.
                let _ = fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
            }
            self.sync(&file)
        };
        write().map_err(io_error("cannot write", &path))?;
        Ok(Staged { name })
    }

    fn place(&self, sessions: &OwnedFd, id: &SessionId, staged: Option<&Staged>) -> Result<(), StoreError> {
        let path = self.root.path.join(SESSIONS).join(id.as_str()).join(STATE_FILE);
        let place = || match staged {
            Some(staged) => {
                let (directory, made) = require_session_dir(sessions, id)?;
                renameat(&self.sidecar.temporary, staged.name.as_str(), &directory, STATE_FILE)?;
                if made {
                    self.sync(sessions)?;
                }
                self.sync(&directory)
            }
            None => self.remove(sessions, id),
        };
        place().map_err(io_error("cannot write", &path))
    }

    fn remove(&self, sessions: &OwnedFd, id: &SessionId) -> io::Result<()> {
        let directory = match require_dir(sessions, id.as_str()) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        match unlinkat(&directory, STATE_FILE, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        self.sync(&directory)?;
        // If the session's directory is empty, it is removed too.
        let _ = unlinkat(sessions, id.as_str(), AtFlags::REMOVEDIR);
        Ok(())
    }

    /// Publishes the intent. From here on the batch counts.
    fn publish_intent(&self, staged: &Staged) -> Result<(), StoreError> {
        let path = sidecar::path_of(&self.root.path, INTENT);
        let publish = || -> io::Result<()> {
            renameat(&self.sidecar.temporary, staged.name.as_str(), &self.sidecar.fd, INTENT)?;
            self.sync(&self.sidecar.fd)
        };
        publish().map_err(io_error("cannot write", &path))
    }

    /// Deletes the intent durably: an intent that reappeared after a power cut would be applied to files that
    /// have changed since.
    fn drop_intent(&self) -> Result<(), StoreError> {
        let path = sidecar::path_of(&self.root.path, INTENT);
        let drop = || -> io::Result<()> {
            unlinkat(&self.sidecar.fd, INTENT, AtFlags::empty())?;
            self.sync(&self.sidecar.fd)
        };
        drop().map_err(io_error("cannot remove", &path))
    }

    fn quarantine_intent(&self) -> Result<(), StoreError> {
        let path = sidecar::path_of(&self.root.path, INTENT);
        let quarantine = sidecar::path_of(&self.root.path, QUARANTINE);
        let aside = sexton_durable::set_aside(&path, &quarantine, "unreadable");
        aside.map(drop).map_err(io_error("cannot quarantine", &path))
    }

    fn sync(&self, file: impl AsFd) -> io::Result<()> {
        match self.durability {
            Durability::Power => sync_all(&File::from(file.as_fd().try_clone_to_owned()?)),
            Durability::Process => Ok(()),
        }
    }
}

fn find_text<'v>(view: &'v View, id: &SessionId) -> Option<&'v FileText> {
    match &view.records.get(id)?.content {
        Content::Text(text) => Some(text),
        Content::Absent(_) | Content::Unreadable(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::claim::Claim;
    use crate::foreign;

    const OLD: &str = "{\"active\": true}";

    fn state_file(root: &Path, id: &str) -> std::path::PathBuf {
        root.join(SESSIONS).join(id).join(STATE_FILE)
    }

    /// Returns a directory in which the session `old` was to hand its loop to `new` after `operation`, and
    /// the result of that write.
    fn disturbed_by(operation: impl FnOnce(&Path)) -> (TempDir, Written) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("sessions/old")).unwrap();
        fs::write(state_file(root, "old"), OLD).unwrap();
        let claim = Claim::acquire(root, Durability::Process).unwrap();
        let mut held = claim.enter().unwrap();
        let planned = |id: &str, before: Option<&str>, after: &str| Planned {
            session: id.parse().unwrap(),
            before: before.map(str::to_owned),
            after: Some(after.to_owned()),
        };
        let files = vec![planned("old", Some(OLD), "{}"), planned("new", None, OLD)];
        let ids = files.iter().map(|file| file.session.clone()).collect();
        let view = View::load(root, Wanted::These(&ids)).unwrap();
        operation(root);
        let written = held.write(files, &view).unwrap();
        drop(held);
        drop(claim);
        (dir, written)
    }

    fn text(dir: &TempDir, id: &str) -> Option<String> {
        fs::read_to_string(state_file(dir.path(), id)).ok()
    }

    #[test]
    fn an_undisturbed_batch_is_written() {
        let (dir, written) = disturbed_by(|_| {});
        assert_eq!(written, Written::Done);
        assert_eq!((text(&dir, "old").as_deref(), text(&dir, "new").as_deref()), (Some("{}"), Some(OLD)));
    }

    #[test]
    fn nothing_is_written_if_a_file_changed_after_it_was_read() {
        let theirs = "{\"active\": true, \"iteration\": 4}";
        let (dir, written) = disturbed_by(|root| fs::write(state_file(root, "old"), theirs).unwrap());
        assert_eq!(written, Written::Disturbed);
        assert_eq!((text(&dir, "old").as_deref(), text(&dir, "new")), (Some(theirs), None));
        // The same text in another file: its writer may have read the rest meanwhile.
        let (dir, written) = disturbed_by(|root| {
            fs::write(root.join("copy"), OLD).unwrap();
            fs::rename(root.join("copy"), state_file(root, "old")).unwrap();
        });
        assert_eq!((written, text(&dir, "new")), (Written::Disturbed, None));
        let (dir, written) = disturbed_by(|root| {
            fs::create_dir_all(root.join("sessions/new")).unwrap();
            fs::write(state_file(root, "new"), theirs).unwrap();
        });
        assert_eq!((written, text(&dir, "old").as_deref()), (Written::Disturbed, Some(OLD)));
    }

    #[test]
    fn nothing_is_written_after_the_lock_was_broken() {
        let (dir, written) = disturbed_by(|root| fs::remove_dir_all(root.join(foreign::NAME)).unwrap());
        assert_eq!(written, Written::Disturbed);
        assert_eq!((text(&dir, "old").as_deref(), text(&dir, "new")), (Some(OLD), None));
        assert_eq!(fs::read_dir(dir.path().join(".sexton/tmp")).unwrap().count(), 0);
    }
}
