//! Changing a file all at once: sync the data, then rename, then sync the directory. Measured on ext4,
//! leaving any of the three out loses acknowledged records in a power cut.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::sync_all;

/// Puts what `write` produces in the place of `path`, durably. Readers see the old file or the new one.
///
/// A failure leaves the old file as it was and no temporary one behind. A failed sync is never tried
/// again on the same file: the kernel may have dropped the data and would report success.
pub fn replace_file(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    replace(path, write, sync_all, sync_parent)
}

/// As [`replace_file`], without waiting for the disk: what is there after a power cut may be either file.
pub fn replace_file_unsynced(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    replace(path, write, |_| Ok(()), |_| Ok(()))
}

fn replace(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
    sync: fn(&File) -> io::Result<()>,
    sync_name: fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = if sexton_mutant::is("write_in_place") {
        let _ = fs::remove_file(path);
        path.to_owned()
    } else {
        temporary_beside(path)?
    };
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&temporary)?;
    let replaced = write(&mut file)
        .and_then(|()| file.flush())
        .and_then(|()| sync(&file))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_name(path));
    if replaced.is_err() {
        // Gone already where the rename went through and only the directory could not be synced.
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

/// Makes the entry of `path` in its directory durable.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    sync_all(&File::open(parent(path)?)?)
}

/// Makes `path` and its missing parents, readable by their owner alone, and durable: a file that was synced
/// in a directory that was not is lost with it.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    missing.into_iter().rev().try_for_each(sync_parent)
}

/// Deletes what killed processes left behind of their replacements of `path`. The caller holds whatever
/// serialises those replacements, so that none of them is under way.
pub fn remove_leftovers(path: &Path) -> io::Result<()> {
    let beginning = temporary_beginning(path);
    for entry in fs::read_dir(parent(path)?)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&beginning) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Moves the file at `path` into `directory` (made where missing) under a name that is free, and returns
/// where it is now.
pub fn set_aside(path: &Path, directory: &Path, label: &str) -> io::Result<PathBuf> {
    let target = keep_aside(path, directory, label)?;
    fs::remove_file(path)?;
    sync_parent(path)?;
    Ok(target)
}

/// Gives the file at `path` a second name in `directory` (made where missing), one that is free, and
/// returns it. What replaces the file afterwards does not reach the content that is kept there; so a
/// program that is killed before the replacement has lost nothing.
pub fn keep_aside(path: &Path, directory: &Path, label: &str) -> io::Result<PathBuf> {
    create_private_dir(directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for attempt in 0.. {
        let suffix = if attempt == 0 { String::new() } else { format!(".{attempt}") };
        let target = directory.join(format!("{name}.{label}{suffix}"));
        // A link fails where the name is taken, and a rename would silently replace it.
        match fs::hard_link(path, &target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => {
                sync_parent(&target)?;
                return Ok(target);
            }
        }
    }
    unreachable!("the loop above has no end")
}

fn parent(path: &Path) -> io::Result<&Path> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Ok(Path::new(".")),
        Some(parent) => Ok(parent),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no directory")),
    }
}

/// A name beside `path` that no other process and no other thread of this one uses.
fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (directory, beginning) = (parent(path)?, temporary_beginning(path));
    loop {
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = directory.join(format!("{beginning}{}-{unique}", std::process::id()));
        // A killed process of the same pid may have left one behind; nobody else can be writing it now.
        if temporary.symlink_metadata().is_err() {
            return Ok(temporary);
        }
    }
}

fn temporary_beginning(path: &Path) -> String {
    format!(".{}.tmp-", path.file_name().unwrap_or_default().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_replaced_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "old").unwrap();
        replace_file(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "old").unwrap();
        let failed = replace_file(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["file"]);
    }

    #[test]
    fn what_a_killed_replacement_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let leftover = temporary_beside(&path).unwrap();
        let others = ["file", "other", ".other.tmp-1-0", ".file"];
        others.iter().for_each(|name| fs::write(dir.path().join(name), "").unwrap());
        fs::write(&leftover, "half").unwrap();
        remove_leftovers(&path).unwrap();
        let mut found = names(dir.path());
        found.sort();
        assert_eq!(found, [".file", ".other.tmp-1-0", "file", "other"]);
    }

    #[test]
    fn a_directory_is_made_with_its_parents_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        for _ in 0..2 {
            create_private_dir(&path).unwrap();
            for made in [path.parent().unwrap(), &path] {
                assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700);
            }
        }
    }

    #[test]
    fn what_is_set_aside_never_replaces_what_was_set_aside_before() {
        let dir = tempfile::tempdir().unwrap();
        let (path, quarantine) = (dir.path().join("file"), dir.path().join("quarantine"));
        for content in ["one", "two"] {
            fs::write(&path, content).unwrap();
            let target = set_aside(&path, &quarantine, "bad").unwrap();
            assert_eq!(fs::read_to_string(target).unwrap(), content);
            assert!(!path.exists());
        }
        assert_eq!(names(&quarantine).len(), 2);
    }

    #[test]
    fn what_is_kept_aside_stays_in_place_and_outlives_its_replacement() {
        let dir = tempfile::tempdir().unwrap();
        let (path, quarantine) = (dir.path().join("file"), dir.path().join("quarantine"));
        fs::write(&path, "old").unwrap();
        let kept = keep_aside(&path, &quarantine, "bad").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        replace_file(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(kept).unwrap(), "old");
    }
}
