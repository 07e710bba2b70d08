//! The tree of a rescue: HEAD's tree with the changes applied. Only directories that contain a change are
//! read and written.

use std::collections::BTreeMap;
use std::io;

use git2::{ObjectType, Odb, Oid};

use crate::pack::PackWriter;
use crate::tree::{self, DIRECTORY, Item};

/// A path and its new content; `None` if it is deleted.
pub(crate) type Change = (Vec<u8>, Option<Item>);

/// The changes at and below one name.
#[derive(Default)]
struct Node {
    leaf: Option<Option<Item>>,
    below: BTreeMap<Vec<u8>, Node>,
}

/// Writes the tree that results from applying `changes` to `base`.
pub(crate) fn write(
    odb: &Odb<'_>,
    base: Option<Oid>,
    changes: &[Change],
    pack: &mut PackWriter,
) -> io::Result<Oid> {
    let mut top = Node::default();
    for (path, item) in changes {
        let node = path
            .split(|byte| *byte == b'/')
            .fold(&mut top, |node, name| node.below.entry(name.to_vec()).or_default());
        node.leaf = Some(*item);
    }
    match rebuild(odb, base, &top, pack)? {
        Some(tree) => Ok(tree),
        None => pack.add(ObjectType::Tree, b""),
    }
}

/// Returns the new tree of one directory; `None` if it becomes empty.
fn rebuild(odb: &Odb<'_>, base: Option<Oid>, node: &Node, pack: &mut PackWriter) -> io::Result<Option<Oid>> {
    if node.below.is_empty() {
        return Ok(base);
    }
    let mut names = tree::load_maybe(odb, base).map_err(io::Error::other)?;
    for (name, child) in &node.below {
        let old = names.remove(name);
        let directory = old.filter(|item| item.mode == DIRECTORY).map(|item| item.oid);
        let leaf = child.leaf.unwrap_or(old.filter(|item| item.mode != DIRECTORY));
        let new = match (rebuild(odb, directory, child, pack)?, leaf) {
            // With a sparse checkout, a file can exist where HEAD has a directory. A tree cannot contain
            // both.
            (Some(_), Some(_)) => return Err(two_things(name)),
            (Some(oid), None) => Some(Item { mode: DIRECTORY, oid }),
            (None, leaf) => leaf,
        };
        if let Some(item) = new {
            names.insert(name.clone(), item);
        }
    }
    if names.is_empty() {
        return Ok(None);
    }
    pack.add(ObjectType::Tree, &tree::encode(&names)).map(Some)
}

fn two_things(name: &[u8]) -> io::Error {
    let name = String::from_utf8_lossy(name);
    io::Error::other(format!("{name} is a file here and a directory in a part that is not checked out"))
}
