//! Where the index differs from HEAD. Directories whose tree id git has cached are compared by that id, so
//! that a worktree with nothing staged costs nothing here.

use std::collections::BTreeMap;
use std::ops::Range;

use git2::{Odb, Oid};

use super::index::{CacheTree, Index, SPARSE_DIRECTORY};
use crate::tree::{self, DIRECTORY, Item, Names};

/// Every path where the index differs from HEAD, with what HEAD has there.
pub(crate) type Staged = BTreeMap<Vec<u8>, Option<Item>>;

/// Compares the index with HEAD's tree, which is `None` for a HEAD without a commit.
pub(crate) fn find_staged(odb: &Odb<'_>, index: &Index, head: Option<Oid>) -> Result<Staged, git2::Error> {
    let mut comparison = Comparison { odb, index, staged: Staged::new() };
    comparison.compare(b"", head, 0..index.entries.len(), Some(&index.cache_tree))?;
    Ok(comparison.staged)
}

struct Comparison<'a> {
    odb: &'a Odb<'a>,
    index: &'a Index,
    staged: Staged,
}

/// What the index has under one name of a directory.
#[derive(Default)]
struct Child {
    /// A file that is not in conflict and has content.
    leaf: Option<Item>,
    /// Whether there is a file at all.
    is_file: bool,
    below: Option<Range<usize>>,
}

impl Comparison<'_> {
    fn compare(
        &mut self,
        prefix: &[u8],
        head: Option<Oid>,
        range: Range<usize>,
        known: Option<&CacheTree>,
    ) -> Result<(), git2::Error> {
        if head.is_some() && known.and_then(|tree| tree.oid) == head {
            return Ok(());
        }
        let mut names = tree::load_maybe(self.odb, head)?;
        for (name, child) in self.children(prefix, range) {
            let head = names.remove(&name);
            let mut path = [prefix, &name].concat();
            let file = head.filter(|item| item.mode != DIRECTORY);
            if child.is_file && (child.leaf.is_none() || child.leaf != file)
                || !child.is_file && file.is_some()
            {
                self.staged.insert(path.clone(), file);
            }
            let tree = head.filter(|item| item.mode == DIRECTORY).map(|item| item.oid);
            path.push(b'/');
            match child.below {
                Some(below) => {
                    let known = known.and_then(|tree| tree.find_child(&name));
                    self.compare(&path, tree, below, known)?;
                }
                None => self.only_in_head(&path, tree)?,
            }
        }
        self.all_only_in_head(prefix, names)
    }

    fn children(&self, prefix: &[u8], range: Range<usize>) -> BTreeMap<Vec<u8>, Child> {
        let mut children = BTreeMap::<Vec<u8>, Child>::new();
        let mut position = range.start;
        while position < range.end {
            let entry = &self.index.entries[position];
            let rest = &self.index.path(entry)[prefix.len()..];
            if let Some(length) = rest.iter().position(|byte| *byte == b'/') {
                let directory = [prefix, &rest[..=length]].concat();
                let below = self.index.below(position..range.end, &directory);
                position = below.end;
                children.entry(rest[..length].to_vec()).or_default().below = Some(below);
            } else {
                let child = children.entry(rest.to_vec()).or_default();
                child.is_file = true;
                let whole = entry.stage == 0 && !entry.intent_to_add;
                child.leaf = whole.then_some(Item { mode: entry.mode, oid: entry.oid });
                position += 1;
            }
        }
        children
    }

    fn all_only_in_head(&mut self, prefix: &[u8], names: Names) -> Result<(), git2::Error> {
        for (name, item) in names {
            let mut path = [prefix, &name].concat();
            if item.mode == DIRECTORY {
                path.push(b'/');
                self.only_in_head(&path, Some(item.oid))?;
            } else {
                self.staged.insert(path, Some(item));
            }
        }
        Ok(())
    }

    fn only_in_head(&mut self, prefix: &[u8], tree: Option<Oid>) -> Result<(), git2::Error> {
        let Some(tree) = tree else { return Ok(()) };
        let staged = &mut self.staged;
        tree::for_each_leaf(self.odb, tree, prefix, &mut |path, item| {
            staged.insert(path, Some(item));
        })
    }
}

/// Replaces every directory that a sparse index stores as one entry with its files, so that files that are on
/// disk there can be compared.
pub(crate) fn expand_sparse_directories(odb: &Odb<'_>, index: &mut Index) -> Result<(), git2::Error> {
    let sparse: Vec<(Vec<u8>, Oid)> = index
        .entries
        .iter()
        .filter(|entry| entry.mode == SPARSE_DIRECTORY)
        .map(|entry| (index.path(entry).to_vec(), entry.oid))
        .collect();
    if sparse.is_empty() {
        return Ok(());
    }
    index.entries.retain(|entry| entry.mode != SPARSE_DIRECTORY);
    for (path, oid) in sparse {
        tree::for_each_leaf(odb, oid, &path, &mut |path, item| {
            index.push_skipped(&path, item.oid, item.mode);
        })?;
    }
    index.sort();
    Ok(())
}
