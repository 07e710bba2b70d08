//! What a checkout will write, in the order of the index: data, made from trees alone.

use git2::{ErrorClass, ErrorCode, Oid, Repository, Tree};

/// What becomes of one entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Executable,
    Symlink,
    /// A submodule: an empty directory, until somebody fills it.
    Gitlink,
}

impl Kind {
    /// As trees and the index write it.
    pub(super) fn mode(self) -> u32 {
        match self {
            Kind::File => 0o100_644,
            Kind::Executable => 0o100_755,
            Kind::Symlink => 0o120_000,
            Kind::Gitlink => 0o160_000,
        }
    }

    fn of(mode: i32) -> Option<Kind> {
        match mode {
            0o100_644 | 0o100_664 => Some(Kind::File),
            0o100_755 => Some(Kind::Executable),
            0o120_000 => Some(Kind::Symlink),
            0o160_000 => Some(Kind::Gitlink),
            _ => None,
        }
    }
}

/// One entry of the index to be.
pub(super) struct Item {
    /// Its path, from the top.
    pub(super) path: Vec<u8>,
    /// Where its name begins in the path.
    pub(super) name_at: usize,
    /// Which directory it is in.
    pub(super) folder: usize,
    pub(super) oid: Oid,
    pub(super) kind: Kind,
}

impl Item {
    /// Its name in its directory.
    pub(super) fn name(&self) -> &[u8] {
        &self.path[self.name_at..]
    }
}

/// One directory.
pub(super) struct Folder {
    /// Its path, from the top, which itself is empty.
    pub(super) path: Vec<u8>,
    /// Where its name begins in the path.
    pub(super) name_at: usize,
    /// Its tree.
    pub(super) oid: Oid,
    /// How many items are in it and below.
    pub(super) items: usize,
    /// How many directories are directly in it.
    pub(super) folders: usize,
}

/// Everything to write.
#[derive(Default)]
pub(super) struct Plan {
    /// In the order of the index.
    pub(super) items: Vec<Item>,
    /// Each before those in it; the first is the top.
    pub(super) folders: Vec<Folder>,
}

/// Plans the checkout of `tree`.
pub(super) fn plan(repo: &Repository, tree: &Tree<'_>) -> Result<Plan, git2::Error> {
    let mut plan = Plan::default();
    plan.add(repo, tree, &[], 0)?;
    Ok(plan)
}

impl Plan {
    fn add(
        &mut self,
        repo: &Repository,
        tree: &Tree<'_>,
        path: &[u8],
        name_at: usize,
    ) -> Result<(), git2::Error> {
        let (folder, before) = (self.folders.len(), self.items.len());
        self.folders.push(Folder { path: path.to_vec(), name_at, oid: tree.id(), items: 0, folders: 0 });
        for entry in tree {
            let name = entry.name_bytes();
            require_plain(name)?;
            let mut below = path.to_vec();
            if !below.is_empty() {
                below.push(b'/');
            }
            let name_at = below.len();
            below.extend_from_slice(name);
            if entry.filemode_raw() == 0o040_000 {
                self.folders[folder].folders += 1;
                self.add(repo, &repo.find_tree(entry.id())?, &below, name_at)?;
            } else {
                let kind =
                    Kind::of(entry.filemode_raw()).ok_or_else(|| refusal(&below, "has an unknown mode"))?;
                self.items.push(Item { path: below, name_at, folder, oid: entry.id(), kind });
            }
        }
        self.folders[folder].items = self.items.len() - before;
        Ok(())
    }
}

/// A name that could leave its directory, or pass for git's own, is in no tree that git would check out.
fn require_plain(name: &[u8]) -> Result<(), git2::Error> {
    let special = matches!(name, b"" | b"." | b"..") || name.eq_ignore_ascii_case(b".git");
    if special || name.contains(&b'/') { Err(refusal(name, "is no name for a file")) } else { Ok(()) }
}

fn refusal(path: &[u8], why: &str) -> git2::Error {
    let message = format!("`{}` {why}", path.escape_ascii());
    git2::Error::new(ErrorCode::InvalidSpec, ErrorClass::Checkout, message)
}
