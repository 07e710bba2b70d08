//! Reads the refs of a repository without libgit2, which omits a ref that it cannot read or returns an older
//! value for it. An omitted ref would make its commits look unreachable.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use git2::Oid;
use sexton_durable::{LARGE_FILE, SMALL_FILE, find, read_regular};

/// The value of a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An object.
    Object(Oid),
    /// Another ref.
    Name(Vec<u8>),
    /// A value that git would not write.
    Broken,
}

/// Returns every ref below `folders` of a repository's common directory, by its full name.
pub(crate) fn list(common: &Path, folders: &[&str]) -> io::Result<BTreeMap<Vec<u8>, Target>> {
    let mut refs = BTreeMap::new();
    // Loose refs first: a ref that is packed in the meantime is then found in `packed-refs`, so none is
    // missed.
    for folder in folders {
        list_loose(common, folder.as_bytes(), &mut refs)?;
    }
    for (name, target) in load_packed(common)? {
        let is_below =
            |folder: &&str| name.strip_prefix(folder.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"));
        if folders.iter().any(is_below) {
            refs.entry(name).or_insert(target);
        }
    }
    Ok(refs)
}

/// Returns one ref by its full name.
pub(crate) fn find_one(common: &Path, name: &[u8]) -> io::Result<Option<Target>> {
    match load_loose(&common.join(OsStr::from_bytes(name))) {
        // A directory that contains other refs.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
        loose => {
            if let Some(target) = loose? {
                return Ok(Some(target));
            }
        }
    }
    Ok(load_packed(common)?.into_iter().find(|(packed, _)| packed == name).map(|(_, target)| target))
}

fn list_loose(common: &Path, folder: &[u8], refs: &mut BTreeMap<Vec<u8>, Target>) -> io::Result<()> {
    let Some(entries) = find(fs::read_dir(common.join(OsStr::from_bytes(folder))))? else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let name = [folder, b"/", entry.file_name().as_bytes()].concat();
        if entry.file_type()?.is_dir() {
            list_loose(common, &name, refs)?;
        } else if !name.ends_with(b".lock")
            && let Some(target) = load_loose(&entry.path())?
        {
            refs.insert(name, target);
        }
    }
    Ok(())
}

fn load_loose(file: &Path) -> io::Result<Option<Target>> {
    let Some(text) = find(read_regular(file, SMALL_FILE))? else { return Ok(None) };
    let text = text.trim_ascii();
    Ok(Some(match text.strip_prefix(b"ref:") {
        Some(name) => Target::Name(name.trim_ascii().to_vec()),
        None => parse_object(text),
    }))
}

fn load_packed(common: &Path) -> io::Result<Vec<(Vec<u8>, Target)>> {
    let text = find(read_regular(&common.join("packed-refs"), LARGE_FILE))?.unwrap_or_default();
    let lines =
        text.split(|byte| *byte == b'\n').filter(|line| !matches!(line.first(), None | Some(b'#' | b'^')));
    let parts = lines.filter_map(|line| Some(line.split_at(line.iter().position(|byte| *byte == b' ')?)));
    Ok(parts.map(|(object, name)| (name[1..].to_vec(), parse_object(object))).collect())
}

fn parse_object(text: &[u8]) -> Target {
    let text = str::from_utf8(text).ok().filter(|text| text.len() == 40);
    text.and_then(|text| Oid::from_str(text).ok()).map_or(Target::Broken, Target::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(digit: char) -> Target {
        Target::Object(Oid::from_str(&digit.to_string().repeat(40)).unwrap())
    }

    fn repository() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("refs/heads/main", format!("{}\n", "a".repeat(40)));
        write("refs/heads/deep/one", format!("{}\n", "b".repeat(40)));
        write("refs/heads/main.lock", String::new());
        write("refs/heads/torn", String::new());
        write("refs/remotes/origin/HEAD", "ref: refs/remotes/origin/main\n".to_owned());
        let packed = [
            "# pack-refs with: peeled fully-peeled sorted ".to_owned(),
            format!("{} refs/heads/main", "c".repeat(40)),
            format!("{} refs/heads/packed", "d".repeat(40)),
            format!("{} refs/tags/v1", "e".repeat(40)),
            format!("^{}", "f".repeat(40)),
        ];
        write("packed-refs", packed.join("\n") + "\n");
        directory
    }

    #[test]
    fn loose_refs_override_packed_ones_and_only_requested_folders_are_listed() {
        let directory = repository();
        let refs = list(directory.path(), &["refs/heads", "refs/remotes"]).unwrap();
        let expected = [
            ("refs/heads/deep/one", object('b')),
            ("refs/heads/main", object('a')),
            ("refs/heads/packed", object('d')),
            ("refs/heads/torn", Target::Broken),
            ("refs/remotes/origin/HEAD", Target::Name(b"refs/remotes/origin/main".to_vec())),
        ];
        let expected = expected.map(|(name, target)| (name.as_bytes().to_vec(), target));
        assert_eq!(refs, BTreeMap::from(expected));
        assert_eq!(find_one(directory.path(), b"refs/heads/main").unwrap(), Some(object('a')));
        assert_eq!(find_one(directory.path(), b"refs/tags/v1").unwrap(), Some(object('e')));
        assert_eq!(find_one(directory.path(), b"refs/heads/deep").unwrap(), None);
        assert_eq!(find_one(directory.path(), b"refs/heads/main/below").unwrap(), None);
    }

    #[test]
    fn unreadable_refs_are_an_error() {
        let directory = repository();
        let packed = directory.path().join("packed-refs");
        fs::remove_file(&packed).unwrap();
        fs::create_dir(&packed).unwrap();
        assert!(list(directory.path(), &["refs/heads"]).is_err());
        assert!(find_one(directory.path(), b"refs/heads/none").is_err());
        assert_eq!(find_one(directory.path(), b"refs/heads/main").unwrap(), Some(object('a')));
    }
}
