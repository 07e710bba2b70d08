//! Objects that only this worktree reaches: staged content, its own commits, objects that its state names. A
//! rescue makes them reachable and durable: git does not sync the loose objects that it writes, so they are
//! copied into the rescue's pack.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use flate2::bufread::ZlibDecoder;
use git2::{ErrorCode, ObjectType, Odb, Oid, Repository};
use sexton_durable::open_regular;

use crate::absence::require_absent;
use crate::pack::PackWriter;
use crate::scan::Subject;
use crate::scan::commits::own_commits;
use crate::scan::index::GITLINK;
use crate::tree::{self, DIRECTORY, FILE, Item};

/// The objects that must stay reachable.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Commits that exist nowhere else, including those of HEAD.
    pub(crate) own: Vec<Oid>,
    /// Those of `own` that neither HEAD nor another of them reaches.
    pub(crate) tips: Vec<Oid>,
    /// Blobs and trees.
    pub(crate) items: Vec<Item>,
    /// Annotated tags. Neither a commit nor a tree can reference them, so they are saved as bytes.
    pub(crate) tags: Vec<Oid>,
    /// Objects that are named but absent.
    pub(crate) missing: Vec<Oid>,
}

impl Kept {
    /// Finds what to keep of the `staged` blobs and of the objects that the state names.
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
            kept.classify(repository, &odb, oid, true, &mut commits)?;
        }
        for oid in named {
            kept.classify(repository, &odb, oid, false, &mut commits)?;
        }
        kept.tags.sort_unstable();
        kept.tags.dedup();
        kept.own = own_commits(repository, &commits, subject.head.branch.as_deref())?;
        kept.tips = find_tips(repository, &kept.own, head)?;
        Ok(kept)
    }

    fn classify(
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
                // A word in a state file need not name an object: any 40 hexadecimal digits look like one.
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
                self.classify(repository, odb, target, false, commits)?;
            }
            ObjectType::Tree => self.items.push(Item { mode: DIRECTORY, oid }),
            _ => self.items.push(Item { mode: FILE, oid }),
        }
        Ok(())
    }
}

/// Returns the commits of `own`, which is sorted children first, that neither another of them nor `head`
/// reaches.
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

/// Copies loose objects into a pack.
pub(crate) struct Copier<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) odb: &'a Odb<'a>,
    /// The repository's `objects` directory.
    pub(crate) objects: PathBuf,
    pub(crate) done: HashSet<Oid>,
}

impl Copier<'_> {
    /// Copies the loose objects that `kept` needs.
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

    /// Copies the objects that `tree` has and `base`, which exists elsewhere, does not have.
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

    /// Copies one object in pieces if it is loose. Packed objects are skipped: packs are synced when they are
    /// written.
    fn copy_loose(&mut self, oid: Oid, pack: &mut PackWriter) -> io::Result<()> {
        if !pack.needs(oid) {
            return Ok(());
        }
        let name = oid.to_string();
        let file = match open_regular(&self.objects.join(&name[..2]).join(&name[2..])) {
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

/// Reads the kind and size at the start of a loose object.
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
