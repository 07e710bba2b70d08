//! The mark: a file in a worktree's admin entry that names its owner. A worktree without a mark is never
//! removed.
//!
//! It is stored in the repository and not in the worktree, where an agent could delete or copy it by
//! accident.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sexton_core::worktree::WorktreeLocation;
use sexton_core::{Host, OsText, SessionId, Time, WorktreeError};
use sexton_durable::{SMALL_FILE, create_file, read_regular};

use crate::fault::failed;

/// The file's name in the admin entry.
pub(crate) const FILE: &str = "sexton.json";

/// The format that this version writes. Newer formats are not read.
const FORMAT: u32 = 1;

/// The owner of a worktree, and how it was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    format: u32,
    pub(crate) store: String,
    pub(crate) session: SessionId,
    repo: OsText,
    root: OsText,
    path: OsText,
    pub(crate) made_at: Time,
    /// The branch that was created with it; `None` if another program created the worktree.
    pub(crate) branch: Option<String>,
    /// The commit it started at; `None` if another program created the worktree.
    pub(crate) base: Option<String>,
    /// The host that it was created on; `None` in marks of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<Host>,
}

impl Mark {
    /// Returns the mark for a worktree that is about to be created, on its own branch.
    pub(crate) fn of_new(location: &WorktreeLocation, now: Time, branch: &str, base: &str) -> Mark {
        Mark {
            branch: Some(branch.to_owned()),
            base: Some(base.to_owned()),
            ..Mark::of_claimed(location, now)
        }
    }

    /// Returns the mark for a worktree that another program created.
    pub(crate) fn of_claimed(location: &WorktreeLocation, now: Time) -> Mark {
        Mark {
            format: FORMAT,
            store: location.store.clone(),
            session: location.session.clone(),
            repo: location.repo.as_path().into(),
            root: location.root.as_path().into(),
            path: location.path.as_path().into(),
            made_at: now,
            branch: None,
            base: None,
            host: None,
        }
    }

    /// Returns the same mark with `host`.
    pub(crate) fn on(self, host: Option<&Host>) -> Mark {
        Mark { host: host.cloned(), ..self }
    }

    /// Returns the worktree location that it marks.
    pub(crate) fn location(&self) -> WorktreeLocation {
        WorktreeLocation {
            store: self.store.clone(),
            session: self.session.clone(),
            repo: self.repo.as_path().to_owned(),
            root: self.root.as_path().to_owned(),
            path: self.path.as_path().to_owned(),
        }
    }

    /// Returns the worktree root that contains the worktree.
    pub(crate) fn root(&self) -> &Path {
        self.root.as_path()
    }

    /// Fails with the reason if this is not the mark of `location`. The repository is not compared: it may
    /// have moved.
    pub(crate) fn require(&self, location: &WorktreeLocation) -> Result<(), String> {
        if self.store != location.store {
            return Err(format!("it has the mark of another store ({})", self.store));
        }
        if self.session != location.session {
            return Err(format!("it has the mark of session {}", self.session));
        }
        if self.root() != location.root {
            return Err(format!("it was made in another worktree root ({})", self.root.display()));
        }
        if self.path.as_path() != location.path {
            return Err(format!("it was made at another path ({})", self.path.display()));
        }
        Ok(())
    }

    /// Writes the mark durably into an admin entry that has none, completely or not at all: after a crash a
    /// damaged mark would keep the worktree for ever.
    pub(crate) fn write_new(&self, admin: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        create_file(&admin.join(FILE), |file| file.write_all(&text))
    }
}

/// The result of reading the mark of an admin entry.
pub(crate) enum Reading {
    /// There is no mark: the worktree is not Sexton's.
    None,
    Mark(Box<Mark>),
    /// There is a mark, but it cannot be read.
    Unreadable(String),
}

/// Reads the mark of an admin entry.
pub(crate) fn load(admin: &Path) -> Result<Reading, WorktreeError> {
    let path = admin.join(FILE);
    let bytes = match read_regular(&path, SMALL_FILE) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Reading::None);
        }
        Err(error) => return Err(failed("reading", &path, error)),
    };
    // A claim of version 0.1.0 that was killed left an empty file.
    if bytes.is_empty() {
        return Ok(Reading::None);
    }
    Ok(match serde_json::from_slice::<Mark>(&bytes) {
        Ok(mark) if mark.format == FORMAT => Reading::Mark(Box::new(mark)),
        _ => Reading::Unreadable(unreadable(&bytes)),
    })
}

/// Deletes what a killed claim left in an admin entry that has no mark.
pub(crate) fn remove_leftovers(admin: &Path) -> io::Result<()> {
    let path = admin.join(FILE);
    if fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() == 0) {
        fs::remove_file(&path)?;
    }
    sexton_durable::remove_leftovers(&path)
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Returns why a mark cannot be read. In a mark of a newer version, only the format field can be relied on.
fn unreadable(bytes: &[u8]) -> String {
    match serde_json::from_slice(bytes) {
        Ok(Format { format }) if format > FORMAT => {
            format!("its mark has format {format}, of a newer version")
        }
        _ => "its mark is damaged".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn location() -> WorktreeLocation {
        WorktreeLocation {
            store: "0b5c".to_owned(),
            session: "s1".parse().unwrap(),
            repo: "/repo".into(),
            root: "/worktrees".into(),
            path: std::ffi::OsString::from_vec(b"/worktrees/\xff".to_vec()).into(),
        }
    }

    fn now() -> Time {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn mark_with_non_utf8_path_round_trips() {
        let dir = tempfile::tempdir().unwrap();
        let mark = Mark::of_new(&location(), now(), "sexton/s1", "abc");
        mark.write_new(dir.path()).unwrap();
        let Reading::Mark(read) = load(dir.path()).unwrap() else { panic!("no mark") };
        assert_eq!(*read, mark);
        assert_eq!(read.location(), location());
        assert_eq!(read.require(&location()), Ok(()));
    }

    #[test]
    fn existing_mark_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let mark = Mark::of_claimed(&location(), now());
        mark.write_new(dir.path()).unwrap();
        assert_eq!(mark.write_new(dir.path()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn i7_what_a_killed_claim_left_is_no_mark_and_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "").unwrap();
        fs::write(dir.path().join(format!(".{FILE}.tmp-1-0")), "{").unwrap();
        assert!(matches!(load(dir.path()).unwrap(), Reading::None));
        remove_leftovers(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        Mark::of_claimed(&location(), now()).write_new(dir.path()).unwrap();
        remove_leftovers(dir.path()).unwrap();
        assert!(matches!(load(dir.path()).unwrap(), Reading::Mark(_)));
    }

    #[test]
    fn mark_of_another_store_session_or_path_is_rejected() {
        let mark = Mark::of_claimed(&location(), now());
        for (other, why) in [
            (WorktreeLocation { store: "other".into(), ..location() }, "another store"),
            (WorktreeLocation { session: "s2".parse().unwrap(), ..location() }, "session s1"),
            (WorktreeLocation { root: "/other".into(), ..location() }, "another worktree root"),
            (WorktreeLocation { path: "/worktrees/other".into(), ..location() }, "another path"),
        ] {
            assert!(mark.require(&other).unwrap_err().contains(why), "{other:?}");
        }
        assert_eq!(mark.require(&WorktreeLocation { repo: "/moved".into(), ..location() }), Ok(()));
    }

    #[test]
    fn damaged_and_newer_marks_are_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        for (text, why) in
            [("{", "damaged"), ("{}", "damaged"), (r#"{"format": 2, "new": 1}"#, "newer version")]
        {
            fs::write(dir.path().join(FILE), text).unwrap();
            let Reading::Unreadable(reason) = load(dir.path()).unwrap() else { panic!("{text} was read") };
            assert!(reason.contains(why), "{reason}");
        }
    }
}
