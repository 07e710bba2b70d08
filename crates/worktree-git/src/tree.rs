//! Tree objects, read and written as bytes. Names need not be UTF-8.

use std::collections::BTreeMap;

use git2::{ObjectType, Odb, Oid};

/// A directory's mode in a tree.
pub(crate) const DIRECTORY: u32 = 0o040_000;
/// A symlink's mode in a tree.
pub(crate) const SYMLINK: u32 = 0o120_000;
/// An executable file's mode in a tree.
pub(crate) const EXECUTABLE: u32 = 0o100_755;
/// Any other file's mode in a tree.
pub(crate) const FILE: u32 = 0o100_644;

/// An entry of a tree, without its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) mode: u32,
    pub(crate) oid: Oid,
}

/// The entries of a tree by name.
pub(crate) type Names = BTreeMap<Vec<u8>, Item>;

/// Reads one tree.
pub(crate) fn load(odb: &Odb<'_>, oid: Oid) -> Result<Names, git2::Error> {
    let object = odb.read(oid)?;
    if object.kind() != ObjectType::Tree {
        return Err(git2::Error::from_str(&format!("{oid} is not a tree")));
    }
    parse(object.data()).ok_or_else(|| git2::Error::from_str(&format!("tree {oid} is damaged")))
}

fn parse(mut bytes: &[u8]) -> Option<Names> {
    let mut names = Names::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ')?;
        let mode = u32::from_str_radix(std::str::from_utf8(&bytes[..space]).ok()?, 8).ok()?;
        let end = space + bytes[space..].iter().position(|byte| *byte == 0)?;
        let (oid, rest) = bytes[end + 1..].split_at_checked(20)?;
        let item = Item { mode: usual(mode), oid: Oid::from_bytes(oid).ok()? };
        names.insert(bytes[space + 1..end].to_vec(), item);
        bytes = rest;
    }
    Some(names)
}

/// Normalizes a mode. Old repositories have files of mode 664, which has the same meaning as 644.
fn usual(mode: u32) -> u32 {
    match mode {
        mode if mode & 0o170_000 != 0o100_000 => mode,
        mode if mode & 0o100 != 0 => EXECUTABLE,
        _ => FILE,
    }
}

/// Returns the bytes of a tree in git's order: a directory sorts as if its name ended in a slash.
pub(crate) fn encode(names: &Names) -> Vec<u8> {
    let mut sorted: Vec<(Vec<u8>, &[u8], Item)> = names
        .iter()
        .map(|(name, item)| {
            let mut key = name.clone();
            if item.mode == DIRECTORY {
                key.push(b'/');
            }
            (key, name.as_slice(), *item)
        })
        .collect();
    sorted.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let mut bytes = Vec::new();
    for (_, name, item) in sorted {
        bytes.extend_from_slice(format!("{:o} ", item.mode).as_bytes());
        bytes.extend_from_slice(name);
        bytes.push(0);
        bytes.extend_from_slice(item.oid.as_bytes());
    }
    bytes
}

/// Calls `each` for every path below a tree that is not itself a tree.
pub(crate) fn for_each_leaf(
    odb: &Odb<'_>,
    tree: Oid,
    prefix: &[u8],
    each: &mut dyn FnMut(Vec<u8>, Item),
) -> Result<(), git2::Error> {
    for (name, item) in load(odb, tree)? {
        let mut path = prefix.to_vec();
        path.extend_from_slice(&name);
        if item.mode == DIRECTORY {
            path.push(b'/');
            for_each_leaf(odb, item.oid, &path, each)?;
        } else {
            each(path, item);
        }
    }
    Ok(())
}

/// Returns a tree's entries; none if there is no tree.
pub(crate) fn load_maybe(odb: &Odb<'_>, oid: Option<Oid>) -> Result<Names, git2::Error> {
    oid.map_or_else(|| Ok(Names::new()), |oid| load(odb, oid))
}

/// A path that differs between two trees, with its entry on the left and on the right.
pub(crate) type Difference = (Vec<u8>, Option<Item>, Option<Item>);

/// Returns every path that differs between two trees, sorted. Equal subtrees are not read.
pub(crate) fn differences(
    odb: &Odb<'_>,
    left: Option<Oid>,
    right: Option<Oid>,
) -> Result<Vec<Difference>, git2::Error> {
    let mut found = Vec::new();
    compare(odb, left, right, b"", &mut found)?;
    found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

fn compare(
    odb: &Odb<'_>,
    left: Option<Oid>,
    right: Option<Oid>,
    prefix: &[u8],
    found: &mut Vec<Difference>,
) -> Result<(), git2::Error> {
    if left == right {
        return Ok(());
    }
    let (left, mut right) = (load_maybe(odb, left)?, load_maybe(odb, right)?);
    let mut pairs: Vec<(Vec<u8>, Option<Item>, Option<Item>)> = Vec::new();
    for (name, item) in left {
        let other = right.remove(&name);
        pairs.push((name, Some(item), other));
    }
    pairs.extend(right.into_iter().map(|(name, item)| (name, None, Some(item))));
    let is_tree = |item: &Item| item.mode == DIRECTORY;
    for (name, left, right) in pairs {
        let mut path = prefix.to_vec();
        path.extend_from_slice(&name);
        let leaves = (left.filter(|item| !is_tree(item)), right.filter(|item| !is_tree(item)));
        if leaves.0 != leaves.1 {
            found.push((path.clone(), leaves.0, leaves.1));
        }
        let trees = (left.filter(is_tree), right.filter(is_tree));
        if trees != (None, None) {
            path.push(b'/');
            compare(odb, trees.0.map(|tree| tree.oid), trees.1.map(|tree| tree.oid), &path, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_sorts_as_if_its_name_ended_in_a_slash() {
        let item = |mode| Item { mode, oid: Oid::ZERO_SHA1 };
        let names = Names::from([
            (b"a".to_vec(), item(DIRECTORY)),
            (b"a.b".to_vec(), item(FILE)),
            (b"a-b".to_vec(), item(FILE)),
        ]);
        let bytes = encode(&names);
        let positions: Vec<usize> = [&b"a-b\0"[..], b"a.b\0", b" a\0"]
            .iter()
            .map(|name| bytes.windows(name.len()).position(|window| window == *name).unwrap())
            .collect();
        assert!(positions.is_sorted(), "{positions:?}");
        assert_eq!(parse(&bytes).unwrap(), names);
    }

    #[test]
    fn truncated_tree_is_rejected() {
        assert!(parse(b"100644 name\0short").is_none());
    }
}
