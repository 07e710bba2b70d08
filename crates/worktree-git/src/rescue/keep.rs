//! Objects that only this worktree still reaches: staged content, commits of its own, what its state names.
//! A rescue makes them reachable, and durable too: git does not sync the loose objects that it writes, so
//! those are copied into the rescue's pack.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use flate2::bufread::ZlibDecoder;
use git2::{ErrorCode, ObjectType, Odb, Oid, Repository};

use crate::absence::require_absent;
use crate::pack::PackWriter;
use crate::scan::Subject;
use crate::scan::commits::own_commits;
use crate::scan::index::GITLINK;
use crate::tree::{self, DIRECTORY, FILE, Item};

/// What must stay reachable.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Commits that exist nowhere else, those of HEAD included.
    pub(crate) own: Vec<Oid>,
    /// Those of them that neither HEAD nor another one leads to.
    pub(crate) tips: Vec<Oid>,
    /// Blobs and trees.
    pub(crate) items: Vec<Item>,
    /// Annotated tags, which neither a commit nor a tree can hold: they are saved as bytes.
    pub(crate) tags: Vec<Oid>,
    /// Objects that are named but are not there.
    pub(crate) missing: Vec<Oid>,
}

impl Kept {
    /// Finds what to keep of `staged` blobs and of objects that the state names.
    pub(crate) fn find(
        subject: &Subject,
        staged: impl IntoIterator<Item = Oid>,
        named: impl IntoIterator<Item = Oid>,
    ) -> Result<Kept, git2::Error> {
        let repository = &subject.repository;
        let odb = repository.odb()?;
        let head = subject.head.commit.map(|(commit, _)| commit);
        let mut kept = Kept::default();
        let mut commits: Vec<Oid> = head.into_iter().collect();
        for oid in staged {
            kept.sort_in(repository, &odb, oid, true, &mut commits)?;
        }
        for oid in named {
            kept.sort_in(repository, &odb, oid, false, &mut commits)?;
        }
        kept.tags.sort_unstable();
        kept.tags.dedup();
        kept.own = own_commits(repository, &commits, subject.head.branch.as_deref())?;
        kept.tips = find_tips(repository, &kept.own, head)?;
        Ok(kept)
    }

    fn sort_in(
        &mut self,
        repository: &Repository,
        odb: &Odb<'_>,
        oid: Oid,
        required: bool,
        commits: &mut Vec<Oid>,
    ) -> Result<(), git2::Error> {
        let kind = match odb.read_header(oid) {
            Ok((_, kind)) => kind,
            Err(error) if error.code() == ErrorCode::NotFound => {
                require_absent(repository, oid)?;
                // What a state file names need not be an object: any forty digits look like one.
                if required {
                    self.missing.push(oid);
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        match kind {
            ObjectType::Commit => commits.push(oid),
            ObjectType::Tag => {
                self.tags.push(oid);
                let target = repository.find_tag(oid)?.target_id();
                self.sort_in(repository, odb, target, false, commits)?;
            }
            ObjectType::Tree => self.items.push(Item { mode: DIRECTORY, oid }),
            _ => self.items.push(Item { mode: FILE, oid }),
        }
        Ok(())
    }
}

/// The commits, of some that are sorted children first, that no other of them and not `head` leads to.
fn find_tips(repository: &Repository, own: &[Oid], head: Option<Oid>) -> Result<Vec<Oid>, git2::Error> {
    let mut covered: HashSet<Oid> = head.into_iter().collect();
    let mut tips = Vec::new();
    for oid in own {
        if !covered.contains(oid) {
            tips.push(*oid);
        }
        covered.extend(repository.find_commit(*oid)?.parent_ids());
    }
    tips.sort_unstable();
    Ok(tips)
}

/// Copies objects that lie loose into a pack.
pub(crate) struct Copier<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) odb: &'a Odb<'a>,
    /// The repository's `objects`.
    pub(crate) objects: PathBuf,
    pub(crate) done: HashSet<Oid>,
}

impl Copier<'_> {
    /// Copies what `kept` needs.
    pub(crate) fn copy(&mut self, kept: &Kept, pack: &mut PackWriter) -> io::Result<()> {
        for oid in &kept.own {
            let commit = self.repository.find_commit(*oid).map_err(io::Error::other)?;
            self.copy_loose(*oid, pack)?;
            let parent = commit.parent(0).ok().map(|parent| parent.tree_id());
            self.copy_tree(parent, commit.tree_id(), pack)?;
        }
        for item in &kept.items {
            if item.mode == DIRECTORY {
                self.copy_tree(None, item.oid, pack)?;
            } else {
                self.copy_loose(item.oid, pack)?;
            }
        }
        Ok(())
    }

    /// Copies what `tree` has and `base`, which exists elsewhere, has not.
    fn copy_tree(&mut self, base: Option<Oid>, tree: Oid, pack: &mut PackWriter) -> io::Result<()> {
        if base == Some(tree) || !self.done.insert(tree) {
            return Ok(());
        }
        self.copy_loose(tree, pack)?;
        let base = tree::load_maybe(self.odb, base).map_err(io::Error::other)?;
        for (name, item) in tree::load(self.odb, tree).map_err(io::Error::other)? {
            let old = base.get(&name).map(|item| item.oid);
            if item.mode == DIRECTORY {
                let old = base.get(&name).filter(|item| item.mode == DIRECTORY).map(|item| item.oid);
                self.copy_tree(old, item.oid, pack)?;
            } else if item.mode != GITLINK && old != Some(item.oid) {
                self.copy_loose(item.oid, pack)?;
            }
        }
        Ok(())
    }

    /// Copies one object, in pieces, where it is loose: a pack was synced by whoever wrote it.
    fn copy_loose(&mut self, oid: Oid, pack: &mut PackWriter) -> io::Result<()> {
        if !pack.wants(oid) {
            return Ok(());
        }
        let name = oid.to_string();
        let file = match File::open(self.objects.join(&name[..2]).join(&name[2..])) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut content = BufReader::new(ZlibDecoder::new(BufReader::new(file)));
        let (kind, size) = read_header(&mut content)?;
        if pack.add_stream(kind, size, &mut content)? != oid {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("object {oid} is damaged")));
        }
        Ok(())
    }
}

/// The kind and size at the front of a loose object.
fn read_header(content: &mut impl BufRead) -> io::Result<(ObjectType, u64)> {
    let mut header = Vec::new();
    content.take(64).read_until(0, &mut header)?;
    let parsed = || {
        let text = std::str::from_utf8(header.strip_suffix(b"\0")?).ok()?;
        let (kind, size) = text.split_once(' ')?;
        Some((ObjectType::from_str(kind)?, size.parse().ok()?))
    };
    parsed().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a loose object is damaged"))
}
