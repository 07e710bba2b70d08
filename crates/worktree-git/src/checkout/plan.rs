//! What a checkout will write, in the order of the index: plain data, computed from trees only.

use git2::{ErrorClass, ErrorCode, Oid, Repository, Tree};

/// The kind of one entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Executable,
    Symlink,
    /// A submodule: an empty directory until it is checked out.
    Gitlink,
}

impl Kind {
    /// Returns the mode as trees and the index store it.
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

/// One entry of the new index.
pub(super) struct Item {
    /// Its path from the top.
    pub(super) path: Vec<u8>,
    /// The offset of its name in the path.
    pub(super) name_at: usize,
    /// The index of its directory in [`Plan::folders`].
    pub(super) folder: usize,
    pub(super) oid: Oid,
    pub(super) kind: Kind,
}

impl Item {
    /// Returns its name in its directory.
    pub(super) fn name(&self) -> &[u8] {
        &self.path[self.name_at..]
    }
}

/// One directory.
pub(super) struct Folder {
    /// Its path from the top; empty for the top itself.
    pub(super) path: Vec<u8>,
    /// The offset of its name in the path.
    pub(super) name_at: usize,
    /// Its tree.
    pub(super) oid: Oid,
    /// The number of items in it and below.
    pub(super) items: usize,
    /// The number of directories directly in it.
    pub(super) folders: usize,
}

/// Everything to write.
#[derive(Default)]
pub(super) struct Plan {
    /// In the order of the index.
    pub(super) items: Vec<Item>,
    /// Each directory before those in it; the first is the top.
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

/// Fails for a name that could leave its directory or be confused with `.git`. git checks out no tree that
/// contains such a name.
fn require_plain(name: &[u8]) -> Result<(), git2::Error> {
    let special = matches!(name, b"" | b"." | b"..") || name.eq_ignore_ascii_case(b".git");
    if special || name.contains(&b'/') { Err(refusal(name, "is not a valid file name")) } else { Ok(()) }
}

fn refusal(path: &[u8], why: &str) -> git2::Error {
    let message = format!("`{}` {why}", path.escape_ascii());
    git2::Error::new(ErrorCode::InvalidSpec, ErrorClass::Checkout, message)
}
