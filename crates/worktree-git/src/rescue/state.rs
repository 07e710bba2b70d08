//! What git stores about a worktree in the worktree's own git directory: HEAD, an unfinished merge or rebase,
//! per-worktree refs, the reflog. All of it is saved, except what depends on the location or can be
//! recreated.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::Oid;
use sexton_durable::{LARGE_FILE, read_regular};

use crate::mark;

/// Files that identify the location or the owner, or that are saved separately. A lock file belongs to a
/// process that has exited.
const NOT_STATE: [&str; 6] = ["commondir", "gitdir", "index", "locked", "modules", mark::FILE];

/// How the name of a mark begins that was being written.
const MARK_IN_PROGRESS: &[u8] = b".sexton.json.tmp-";

/// The files of a worktree's git directory, each with its path there and its bytes; sorted.
pub(crate) type StateFiles = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads the state of a worktree.
pub(crate) fn load(admin: &Path) -> io::Result<StateFiles> {
    let mut files = StateFiles::new();
    collect(admin, b"", &mut files)?;
    files.sort_unstable();
    Ok(files)
}

fn collect(directory: &Path, prefix: &[u8], files: &mut StateFiles) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_bytes();
        if prefix.is_empty() && NOT_STATE.iter().any(|other| name == other.as_bytes())
            || prefix.is_empty() && name.starts_with(MARK_IN_PROGRESS)
            || name.ends_with(b".lock")
        {
            continue;
        }
        let path = [prefix, name].concat();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &[&path[..], b"/"].concat(), files)?;
        } else if kind.is_file() {
            files.push((path, read_regular(&entry.path(), LARGE_FILE)?));
        }
    }
    Ok(())
}

/// Returns every object that the state names. They must stay reachable as long as the rescue exists.
pub(crate) fn find_named_objects(files: &StateFiles) -> BTreeSet<Oid> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let words = files.iter().flat_map(|(_, bytes)| bytes.split(move |byte| !is_digit(byte)));
    words
        .filter(|word| word.len() == 40 && word.iter().any(|digit| *digit != b'0'))
        .filter_map(|word| Oid::from_str(std::str::from_utf8(word).ok()?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_named_in_the_state_are_found() {
        let one = "1".repeat(40);
        let two = "abcdef0123".repeat(4);
        let line = format!("{} {one} A <a@b> 0 +0000\tcommit: {two}x\n", "0".repeat(40));
        let files = vec![(b"logs/HEAD".to_vec(), line.into_bytes())];
        let found: Vec<String> = find_named_objects(&files).iter().map(ToString::to_string).collect();
        assert_eq!(found, [one, two]);
    }
}
