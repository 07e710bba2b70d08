//! The admin entry of a restored worktree, with git's state from the rescue.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Tree};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use sexton_core::{SessionId, WorktreeError};
use sexton_durable::{LARGE_FILE, read_regular, sync_parent};

use super::Restoration;
use super::head::Head;
use crate::entry;
use crate::entry_plan::Links;
use crate::fault::failed;

/// An entry that git does not see yet. It is deleted when dropped, unless it was published.
pub(super) struct Draft {
    path: PathBuf,
    published: bool,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Draft {
    fn make(
        restoration: &Restoration<'_>,
        head: &Head,
        more: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Draft, WorktreeError> {
        let staging = entry::staging(restoration.common);
        let draft =
            Draft { path: staging.join(format!("restore-{}", SessionId::random())), published: false };
        entry::inside(&staging, || fs::create_dir(&draft.path))
            .and_then(|()| more(&draft.path))
            .and_then(|()| fs::create_dir_all(draft.path.join("refs")))
            .and_then(|()| fs::write(draft.path.join("HEAD"), head.text()))
            .and_then(|()| fs::write(draft.path.join("commondir"), "../..\n"))
            .map_err(|error| failed("writing", &draft.path, error))?;
        Ok(draft)
    }

    /// Writes git's state and the index as the rescue has them, but with `head` as HEAD.
    pub(super) fn write(restoration: &Restoration<'_>, head: &Head) -> Result<Draft, WorktreeError> {
        Draft::make(restoration, head, |path| {
            if let Some(state) = find_in(restoration, "state")? {
                write_tree(restoration, state, path)?;
            }
            if let Some(tags) = find_in(restoration, "tags")? {
                make_tags(restoration, tags)?;
            }
            write_index(restoration, path)
        })
    }

    /// Creates an entry only for the checkout of HEAD, with the sparse checkout settings of `admin`.
    pub(super) fn for_checkout(restoration: &Restoration<'_>, admin: &Path) -> Result<Draft, WorktreeError> {
        Draft::make(restoration, &Head::Detached(restoration.stored.base), |path| {
            fs::create_dir(path.join("info"))?;
            for settings in ["config.worktree", "info/sparse-checkout"] {
                if admin.join(settings).exists() {
                    fs::write(path.join(settings), read_regular(&admin.join(settings), LARGE_FILE)?)?;
                }
            }
            Ok(())
        })
    }

    /// Returns its current path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it to a name that git sees, and links the directory to it.
    pub(super) fn publish(mut self, restoration: &Restoration<'_>) -> Result<(), WorktreeError> {
        let links = Links::of(restoration.repository)
            .map_err(|error| failed("reading the configuration of", restoration.common, error))?;
        let dot_git = restoration.into.join(".git");
        let publish = || -> io::Result<PathBuf> {
            for attempt in 0.. {
                let admin = entry::all(restoration.common).join(name(restoration.into, attempt));
                let back = links.write(&admin, &dot_git);
                fs::write(self.path.join("gitdir"), entry::line("", &back))?;
                fs::write(&dot_git, entry::line("gitdir: ", &links.write(restoration.into, &admin)))?;
                let mut taken = false;
                entry::inside(&entry::all(restoration.common), || {
                    match renameat_with(CWD, &self.path, CWD, &admin, RenameFlags::NOREPLACE) {
                        Err(Errno::EXIST | Errno::NOTEMPTY) => taken = true,
                        renamed => renamed?,
                    }
                    Ok(())
                })?;
                if !taken {
                    sync_parent(&admin)?;
                    return Ok(admin);
                }
            }
            unreachable!("the loop above does not end")
        };
        publish().map_err(|error| failed("registering", restoration.into, error))?;
        self.published = true;
        Ok(())
    }
}

/// Returns the name of an entry: like git, that of its directory, with a number if it is taken.
fn name(into: &Path, attempt: usize) -> String {
    let plain = into.file_name().unwrap_or(OsStr::new("restored")).to_string_lossy();
    let keep = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let plain: String = plain.chars().map(|letter| if keep(letter) { letter } else { '-' }).collect();
    if attempt == 0 { plain } else { format!("{plain}{attempt}") }
}

/// Writes the index of the rescue into an entry, byte for byte.
pub(super) fn write_index(restoration: &Restoration<'_>, admin: &Path) -> io::Result<()> {
    match restoration.stored.index {
        Some(blob) => fs::write(admin.join("index"), load_blob(restoration, blob)?),
        None => Ok(()),
    }
}

fn find_in(restoration: &Restoration<'_>, name: &str) -> io::Result<Option<Oid>> {
    let tree = restoration.repository.find_tree(restoration.stored.state_tree).map_err(io::Error::other)?;
    Ok(tree.get_name(name).map(|entry| entry.id()))
}

fn write_tree(restoration: &Restoration<'_>, tree: Oid, into: &Path) -> io::Result<()> {
    let tree: Tree<'_> = restoration.repository.find_tree(tree).map_err(io::Error::other)?;
    for entry in &tree {
        let name = entry.name_bytes();
        if matches!(name, b"." | b".." | b"") || name.contains(&b'/') {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the rescue contains an invalid file name",
            ));
        }
        let path = into.join(OsStr::from_bytes(name));
        match entry.kind() {
            Some(ObjectType::Tree) => {
                fs::create_dir(&path)?;
                write_tree(restoration, entry.id(), &path)?;
            }
            _ => fs::write(&path, load_blob(restoration, entry.id())?)?,
        }
    }
    Ok(())
}

/// Recreates the annotated tags that the state names.
fn make_tags(restoration: &Restoration<'_>, tags: Oid) -> io::Result<()> {
    let odb = restoration.repository.odb().map_err(io::Error::other)?;
    for entry in &restoration.repository.find_tree(tags).map_err(io::Error::other)? {
        let bytes = load_blob(restoration, entry.id())?;
        odb.write(ObjectType::Tag, &bytes).map_err(io::Error::other)?;
    }
    Ok(())
}

fn load_blob(restoration: &Restoration<'_>, oid: Oid) -> io::Result<Vec<u8>> {
    let blob = restoration.repository.find_blob(oid).map_err(io::Error::other)?;
    Ok(blob.content().to_vec())
}
