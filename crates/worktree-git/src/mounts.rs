//! Mount points inside a directory. Deleting across one would delete the mounted files.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use sexton_core::WorktreeError;

use crate::fault::failed;

/// The kernel's list of the mounts that this process sees.
const MOUNTS: &str = "/proc/self/mountinfo";

/// The current mount points.
pub(crate) struct Mounts {
    points: Vec<PathBuf>,
}

impl Mounts {
    /// Reads the current mount points.
    pub(crate) fn load() -> Result<Mounts, WorktreeError> {
        let failed = |error: io::Error| failed("reading", Path::new(MOUNTS), error);
        let points = parse(&std::fs::read(MOUNTS).map_err(failed)?);
        // Every process has a root mount, so an empty list is invalid.
        if points.is_empty() {
            return Err(failed(io::ErrorKind::InvalidData.into()));
        }
        Ok(Mounts { points })
    }

    /// Returns a mount point that is `directory` or is inside it.
    pub(crate) fn find_inside(&self, directory: &Path) -> Option<&Path> {
        if sexton_mutant::is("no_mount_check") {
            return None;
        }
        self.points.iter().find(|point| point.starts_with(directory)).map(PathBuf::as_path)
    }
}

/// The fifth word of each line is the mount point.
fn parse(list: &[u8]) -> Vec<PathBuf> {
    let point = |line: &[u8]| Some(unescape(line.split(|byte| *byte == b' ').nth(4)?));
    list.split(|byte| *byte == b'\n').filter_map(point).collect()
}

/// Decodes the kernel's escapes: space, tab, newline and backslash are written as three octal digits.
fn unescape(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let escaped = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        rest = if escaped.is_some() { &after[3..] } else { after };
        bytes.push(escaped.unwrap_or(byte));
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] = b"22 1 8:1 / / rw - ext4 /dev/sda rw\n\
        30 22 0:5 /x /worktrees/s1/a\\040b rw shared:1 - tmpfs none rw\n";

    #[test]
    fn mount_inside_a_directory_is_found_by_its_unescaped_name() {
        let mounts = Mounts { points: parse(LIST) };
        assert_eq!(mounts.find_inside(Path::new("/worktrees/s1")), Some(Path::new("/worktrees/s1/a b")));
        assert_eq!(mounts.find_inside(Path::new("/worktrees/s1/a b")), Some(Path::new("/worktrees/s1/a b")));
        assert_eq!(mounts.find_inside(Path::new("/worktrees/s")), None);
        assert_eq!(mounts.find_inside(Path::new("/worktrees/s1/a")), None);
    }

    #[test]
    fn root_mount_is_listed() {
        assert!(Mounts::load().unwrap().find_inside(Path::new("/")).is_some());
    }
}
