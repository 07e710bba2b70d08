//! The mark: a file in a worktree's admin entry that says whose it is. Nothing without one is ever removed.
//!
//! It lies in the repository and not in the worktree, where an agent could delete or copy it unawares.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sexton_core::worktree::Plot;
use sexton_core::{OsText, SessionId, Time, WorktreeError};
use sexton_durable::sync_all;

use crate::fault::failed;

/// The file's name in the admin entry.
pub(crate) const FILE: &str = "sexton.json";

/// The format that this version writes. It reads no newer one.
const FORMAT: u32 = 1;

/// Whose worktree it is, and how it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    format: u32,
    pub(crate) store: String,
    pub(crate) session: SessionId,
    repo: OsText,
    root: OsText,
    path: OsText,
    pub(crate) made_at: Time,
    /// The branch that was made with it; `None` where something else made the worktree.
    pub(crate) branch: Option<String>,
    /// The commit it began at; `None` where something else made the worktree.
    pub(crate) base: Option<String>,
}

impl Mark {
    /// The mark of a worktree that is to be made, on a branch of its own.
    pub(crate) fn of_new(plot: &Plot, now: Time, branch: &str, base: &str) -> Mark {
        Mark { branch: Some(branch.to_owned()), base: Some(base.to_owned()), ..Mark::of_claimed(plot, now) }
    }

    /// The mark of a worktree that something else made.
    pub(crate) fn of_claimed(plot: &Plot, now: Time) -> Mark {
        Mark {
            format: FORMAT,
            store: plot.store.clone(),
            session: plot.session.clone(),
            repo: plot.repo.as_path().into(),
            root: plot.root.as_path().into(),
            path: plot.path.as_path().into(),
            made_at: now,
            branch: None,
            base: None,
        }
    }

    /// The plot that it marks.
    pub(crate) fn plot(&self) -> Plot {
        Plot {
            store: self.store.clone(),
            session: self.session.clone(),
            repo: self.repo.as_path().to_owned(),
            root: self.root.as_path().to_owned(),
            path: self.path.as_path().to_owned(),
        }
    }

    /// The yard that it lies in.
    pub(crate) fn root(&self) -> &Path {
        self.root.as_path()
    }

    /// Says why this is not the mark of `plot`. The repository may have moved since, so it does not count.
    pub(crate) fn require(&self, plot: &Plot) -> Result<(), String> {
        if self.store != plot.store {
            return Err(format!("it has the mark of another store ({})", self.store));
        }
        if self.session != plot.session {
            return Err(format!("it has the mark of session {}", self.session));
        }
        if self.root() != plot.root {
            return Err(format!("it was made in another yard ({})", self.root.display()));
        }
        if self.path.as_path() != plot.path {
            return Err(format!("it was made at another place ({})", self.path.display()));
        }
        Ok(())
    }

    /// Writes it, durably, into an admin entry that has none. The entry's name is the caller's to sync.
    pub(crate) fn write_new(&self, admin: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let mut file = File::create_new(admin.join(FILE))?;
        file.write_all(&text)?;
        sync_all(&file)
    }
}

/// What an admin entry says of its owner.
pub(crate) enum Reading {
    /// Nothing: it is not Sexton's.
    None,
    /// It is this one's.
    Mark(Mark),
    /// It is somebody's, but this cannot be read.
    Unreadable(String),
}

/// Reads the mark of an admin entry.
pub(crate) fn load(admin: &Path) -> Result<Reading, WorktreeError> {
    let path = admin.join(FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Reading::None);
        }
        Err(error) => return Err(failed("reading", &path, error)),
    };
    Ok(match serde_json::from_slice::<Mark>(&bytes) {
        Ok(mark) if mark.format == FORMAT => Reading::Mark(mark),
        _ => Reading::Unreadable(unreadable(&bytes)),
    })
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Why a mark cannot be read. One that a newer version wrote may look like anything but its format.
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

    fn plot() -> Plot {
        Plot {
            store: "0b5c".to_owned(),
            session: "s1".parse().unwrap(),
            repo: "/repo".into(),
            root: "/yard".into(),
            path: std::ffi::OsString::from_vec(b"/yard/\xff".to_vec()).into(),
        }
    }

    fn now() -> Time {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_mark_reads_back_with_a_path_that_is_not_utf8() {
        let dir = tempfile::tempdir().unwrap();
        let mark = Mark::of_new(&plot(), now(), "sexton/s1", "abc");
        mark.write_new(dir.path()).unwrap();
        let Reading::Mark(read) = load(dir.path()).unwrap() else { panic!("no mark") };
        assert_eq!(read, mark);
        assert_eq!(read.plot(), plot());
        assert_eq!(read.require(&plot()), Ok(()));
    }

    #[test]
    fn a_mark_is_never_written_over_another() {
        let dir = tempfile::tempdir().unwrap();
        let mark = Mark::of_claimed(&plot(), now());
        mark.write_new(dir.path()).unwrap();
        assert_eq!(mark.write_new(dir.path()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn the_mark_of_another_store_session_or_place_is_not_ours() {
        let mark = Mark::of_claimed(&plot(), now());
        for (other, why) in [
            (Plot { store: "other".into(), ..plot() }, "another store"),
            (Plot { session: "s2".parse().unwrap(), ..plot() }, "session s1"),
            (Plot { root: "/other".into(), ..plot() }, "another yard"),
            (Plot { path: "/yard/other".into(), ..plot() }, "another place"),
        ] {
            assert!(mark.require(&other).unwrap_err().contains(why), "{other:?}");
        }
        assert_eq!(mark.require(&Plot { repo: "/moved".into(), ..plot() }), Ok(()));
    }

    #[test]
    fn a_damaged_mark_and_a_newer_one_are_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        for (text, why) in
            [("", "damaged"), ("{}", "damaged"), (r#"{"format": 2, "new": 1}"#, "newer version")]
        {
            fs::write(dir.path().join(FILE), text).unwrap();
            let Reading::Unreadable(said) = load(dir.path()).unwrap() else { panic!("{text} was read") };
            assert!(said.contains(why), "{said}");
        }
    }
}
