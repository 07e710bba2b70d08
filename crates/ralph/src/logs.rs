//! Captured output: `<logs>/<ticket>.jsonl` is always that of the last attempt, byte for byte.
//!
//! Each attempt has its own file `<ticket>@<number>.jsonl`, and `<ticket>.jsonl` is a link to the last one. So the
//! output of two attempts is never mixed, and the log path in a record stays valid.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sexton_durable::create_private_dir;

use crate::ticket::Ticket;

/// The directory of captured output.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    directory: PathBuf,
}

impl Logs {
    pub(crate) fn at(directory: PathBuf) -> Logs {
        Logs { directory }
    }

    /// Returns the log file of attempt `serial`, after linking `<ticket>.jsonl` to it.
    pub(crate) fn open(&self, ticket: &Ticket, serial: u64) -> io::Result<PathBuf> {
        create_private_dir(&self.directory)?;
        // A ticket cannot contain `@`.
        let name = format!("{ticket}@{serial}.jsonl");
        let link = self.directory.join(format!("{ticket}.jsonl"));
        let fresh = self.directory.join(format!(".{ticket}.new"));
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(&name, &fresh)?;
        fs::rename(&fresh, &link)?;
        Ok(self.directory.join(name))
    }

    /// Removes files last written more than `age` ago, and dangling links.
    pub(crate) fn prune(&self, age: Duration) {
        let Some(limit) = SystemTime::now().checked_sub(age) else { return };
        // Errors are ignored, because the next loop tries again.
        let entries =
            || fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let ours = |path: &Path| path.extension().is_some_and(|extension| extension == "jsonl");
        for path in entries().filter(|path| ours(path)) {
            let found = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file);
            if found.and_then(|found| found.modified().ok()).is_some_and(|written| written < limit) {
                let _ = fs::remove_file(&path);
            }
        }
        for path in entries().filter(|path| ours(path) && path.is_symlink() && !path.exists()) {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn link_points_to_last_attempt_and_earlier_logs_are_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let logs = Logs::at(directory.path().join("logs"));
        let ticket: Ticket = "T-1".parse().unwrap();
        let (first, second) = (logs.open(&ticket, 3).unwrap(), logs.open(&ticket, 9).unwrap());
        assert_ne!(first, second);
        fs::write(&first, "first").unwrap();
        fs::write(&second, "second").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("logs/T-1.jsonl")).unwrap(), "second");
        assert_eq!(fs::read_to_string(first).unwrap(), "first");
    }

    #[test]
    fn old_logs_are_removed_with_their_links() {
        let directory = tempfile::tempdir().unwrap();
        let logs = Logs::at(directory.path().to_owned());
        let day = Duration::from_secs(86_400);
        for (ticket, age) in [("old", 8 * day), ("new", day)] {
            let path = logs.open(&ticket.parse().unwrap(), 1).unwrap();
            let mut file = fs::File::create(path).unwrap();
            file.write_all(b"x").unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        fs::write(directory.path().join("note"), "mine").unwrap();
        logs.prune(7 * day);
        let mut left: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["new.jsonl", "new@1.jsonl", "note"]);
    }
}
