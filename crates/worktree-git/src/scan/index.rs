//! Reads the index file. It is never written, and never read through a library that would refresh it. A
//! left-over `index.lock` does not matter, split and sparse indexes are supported, and anything unknown is an
//! error, because staged content that was not read would be lost.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use git2::Oid;
use sexton_durable::{LARGE_FILE, open_regular, read_regular, read_within};
use sha1::{Digest, Sha1};

use super::ewah::Bitmap;

/// The length of an object id.
const OID: usize = 20;
/// The length of an entry before its path.
const FIXED: usize = 40 + OID + 2;

const EXTENDED: u16 = 0x4000;
const SKIP_WORKTREE: u16 = 0x4000;
const INTENT_TO_ADD: u16 = 0x2000;

/// A directory that a sparse index represents as one entry.
pub(crate) const SPARSE_DIRECTORY: u32 = 0o040_000;
/// A submodule's commit.
pub(crate) const GITLINK: u32 = 0o160_000;

/// The part of a file's `stat` that git stores, truncated to 32 bits as git does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CachedStat {
    pub(crate) ctime: (u32, u32),
    pub(crate) mtime: (u32, u32),
    pub(crate) ino: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    path: Range<usize>,
    /// The blob, or a submodule's commit.
    pub(crate) oid: Oid,
    /// The mode, as in a tree.
    pub(crate) mode: u32,
    /// The file's `stat` when its content was last known to be `oid`.
    pub(crate) stat: CachedStat,
    /// 0, or 1 to 3 in a conflict.
    pub(crate) stage: u8,
    /// Whether it is not meant to be on disk.
    pub(crate) skip_worktree: bool,
    /// Whether it was added with `git add -N`, without content.
    pub(crate) intent_to_add: bool,
}

/// The tree that a directory of the index would be written as, if git still knows it.
#[derive(Debug, Default)]
pub(crate) struct CacheTree {
    /// `None` if something below has changed since.
    pub(crate) oid: Option<Oid>,
    children: Vec<(Vec<u8>, CacheTree)>,
}

impl CacheTree {
    /// Returns the subtree with that name.
    pub(crate) fn find_child(&self, name: &[u8]) -> Option<&CacheTree> {
        self.children.iter().find(|(child, _)| child == name).map(|(_, tree)| tree)
    }
}

/// An index, sorted by path and stage.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) entries: Vec<Entry>,
    /// The bytes of every path.
    paths: Vec<u8>,
    /// The trees that git has cached.
    pub(crate) cache_tree: CacheTree,
    /// The blobs that conflicts were resolved from; `git checkout -m` restores them.
    pub(crate) resolve_undo: Vec<Oid>,
    /// When it was written: an entry that is not older could have changed without a difference in its `stat`.
    pub(crate) written: (u32, u32),
    /// The file's bytes; `None` if there is no index.
    pub(crate) raw: Option<Vec<u8>>,
}

/// Truncates seconds and nanoseconds to what an index stores.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "git truncates them the same way"
)]
pub(crate) fn cut_time(seconds: i64, nanoseconds: i64) -> (u32, u32) {
    (seconds as u32, nanoseconds as u32)
}

impl Index {
    /// Reads the index of a worktree's git directory; returns an empty one if there is none.
    pub(crate) fn load(admin: &Path) -> io::Result<Index> {
        let path = admin.join("index");
        let file = match open_regular(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Index::default()),
            Err(error) => return Err(error),
        };
        // The metadata of the open file: another file may take its name in the meantime.
        let metadata = file.metadata()?;
        let raw = read_within(&file, LARGE_FILE)?;
        let mut index = parse(&raw, Some(admin))?;
        index.written = cut_time(metadata.mtime(), metadata.mtime_nsec());
        index.raw = Some(raw);
        Ok(index)
    }

    /// Returns the paths, in the bytes of an index, that are not meant to be on disk. A shared index is read
    /// from `admin`.
    pub(crate) fn find_skipped(raw: &[u8], admin: &Path) -> io::Result<HashSet<Vec<u8>>> {
        let index = parse(raw, Some(admin))?;
        let skipped =
            index.entries.iter().filter(|entry| entry.skip_worktree && entry.mode != SPARSE_DIRECTORY);
        Ok(skipped.map(|entry| index.path(entry).to_vec()).collect())
    }

    /// Parses the bytes of an index without their checksum.
    #[cfg(fuzzing)]
    pub(super) fn parse_unsummed(body: &[u8]) -> io::Result<Index> {
        parse_body(body, None)
    }

    /// Returns an entry's path.
    pub(crate) fn path(&self, entry: &Entry) -> &[u8] {
        &self.paths[entry.path.clone()]
    }

    /// Adds an entry that is not in the file, for a path that need not be on disk. The caller must call
    /// [`Index::sort`] afterwards.
    pub(crate) fn push_skipped(&mut self, path: &[u8], oid: Oid, mode: u32) {
        let start = self.paths.len();
        self.paths.extend_from_slice(path);
        self.entries.push(Entry {
            path: start..self.paths.len(),
            oid,
            mode,
            stat: CachedStat::default(),
            stage: 0,
            skip_worktree: true,
            intent_to_add: false,
        });
    }

    /// Sorts the entries in git's order.
    pub(crate) fn sort(&mut self) {
        let Index { entries, paths, .. } = self;
        entries.sort_by(|one, other| {
            (&paths[one.path.clone()], one.stage).cmp(&(&paths[other.path.clone()], other.stage))
        });
    }

    /// Returns the entries within `among` whose path starts with `prefix`.
    pub(crate) fn below(&self, among: Range<usize>, prefix: &[u8]) -> Range<usize> {
        let entries = &self.entries[among.clone()];
        let start = entries.partition_point(|entry| self.path(entry) < prefix);
        let rest = &entries[start..];
        let length = rest.partition_point(|entry| self.path(entry).starts_with(prefix));
        among.start + start..among.start + start + length
    }

    /// Like [`at`](Index::at), but faster if the entry is next to `last`: a file system usually lists a
    /// directory in the order in which it was filled, or in the reverse order.
    pub(crate) fn at_near(&self, last: usize, among: Range<usize>, path: &[u8]) -> Range<usize> {
        let is_whole = |position: usize| {
            among.contains(&position)
                && self.entries[position].stage == 0
                && self.path(&self.entries[position]) == path
        };
        let near = [last.wrapping_add(1), last.wrapping_sub(1)].into_iter().find(|near| is_whole(*near));
        near.map_or_else(|| self.at(among.clone(), path), |near| near..near + 1)
    }

    /// Returns the entries within `among` with exactly this path: one, or up to three in a conflict.
    pub(crate) fn at(&self, among: Range<usize>, path: &[u8]) -> Range<usize> {
        let entries = &self.entries[among.clone()];
        let start = entries.partition_point(|entry| self.path(entry) < path);
        let length = entries[start..].iter().take_while(|entry| self.path(entry) == path).count();
        among.start + start..among.start + start + length
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the index is damaged: {what}"))
}

/// Reads from front to back, and fails if the data ends too early.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) =
            self.bytes.split_at_checked(length).ok_or_else(|| damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn number(&mut self) -> io::Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn short(&mut self) -> io::Result<u16> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn oid(&mut self) -> io::Result<Oid> {
        Oid::from_bytes(self.take(OID)?).map_err(io::Error::other)
    }

    /// Returns everything up to `end`, and skips `end`.
    fn until(&mut self, end: u8) -> io::Result<&'a [u8]> {
        let length = self.bytes.iter().position(|byte| *byte == end);
        let taken = self.take(length.ok_or_else(|| damaged("it ends inside a string"))?)?;
        self.take(1)?;
        Ok(taken)
    }

    fn decimal(&mut self, end: u8) -> io::Result<i64> {
        let digits = self.until(end)?;
        std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| damaged("a number is invalid"))
    }

    /// Reads the number encoding of pack offsets, which version 4 uses for shared path prefixes.
    fn varint(&mut self) -> io::Result<usize> {
        let mut byte = self.take(1)?[0];
        let mut value = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.take(1)?[0];
            value = value
                .checked_add(1)
                .and_then(|value| value.checked_shl(7))
                .ok_or_else(|| damaged("a number is too large"))?
                | usize::from(byte & 0x7f);
        }
        Ok(value)
    }
}

fn parse(raw: &[u8], shared_in: Option<&Path>) -> io::Result<Index> {
    let (body, checksum) =
        raw.split_at_checked(raw.len().saturating_sub(OID)).ok_or_else(|| damaged("it is empty"))?;
    // All zeros means that git did not compute a checksum (`index.skipHash`).
    if checksum.iter().any(|byte| *byte != 0) && Sha1::digest(body)[..] != *checksum {
        return Err(damaged("its checksum is wrong"));
    }
    parse_body(body, shared_in)
}

fn parse_body(body: &[u8], shared_in: Option<&Path>) -> io::Result<Index> {
    let mut reader = Reader { bytes: body };
    if reader.take(4)? != b"DIRC" {
        return Err(damaged("its signature is wrong"));
    }
    let version = reader.number()?;
    if !(2..=4).contains(&version) {
        return Err(damaged(&format!("version {version} is not supported")));
    }
    let count = reader.number()?;
    let mut index = Index { paths: Vec::with_capacity(body.len() / 2), ..Index::default() };
    // The count is not trusted: no more than the data has space for.
    index.entries.reserve_exact(usize::try_from(count).map_err(io::Error::other)?.min(body.len() / FIXED));
    for _ in 0..count {
        let entry = parse_entry(&mut reader, version, &mut index)?;
        index.entries.push(entry);
    }
    let mut link = None;
    while !reader.bytes.is_empty() {
        let signature = reader.take(4)?;
        let length = reader.number()?;
        let content = reader.take(usize::try_from(length).map_err(io::Error::other)?)?;
        match signature {
            b"TREE" => index.cache_tree = parse_cache_tree(&mut Reader { bytes: content }, 0)?.1,
            b"REUC" => index.resolve_undo = parse_resolve_undo(&mut Reader { bytes: content })?,
            b"link" => link = Some(content),
            b"sdir" => {}
            [b'A'..=b'Z', ..] => {}
            other => {
                let name = String::from_utf8_lossy(other);
                return Err(damaged(&format!("it needs the extension `{name}`, which is not supported")));
            }
        }
    }
    match (link, shared_in) {
        (Some(link), Some(directory)) => join_shared(index, link, directory),
        (Some(_), None) => Err(damaged("a shared index is itself split")),
        (None, _) => Ok(index),
    }
}

fn parse_entry(reader: &mut Reader<'_>, version: u32, index: &mut Index) -> io::Result<Entry> {
    let whole = reader.bytes;
    let ctime = (reader.number()?, reader.number()?);
    let mtime = (reader.number()?, reader.number()?);
    let (_dev, ino, mode) = (reader.number()?, reader.number()?, reader.number()?);
    let (uid, gid, size) = (reader.number()?, reader.number()?, reader.number()?);
    let oid = reader.oid()?;
    let flags = reader.short()?;
    let more = if version >= 3 && flags & EXTENDED != 0 { reader.short()? } else { 0 };
    let start = index.paths.len();
    if version == 4 {
        let shared = index.entries.last().map_or(0..0, |last| last.path.clone());
        let strip = reader.varint()?;
        let keep = shared.len().checked_sub(strip).ok_or_else(|| damaged("a path is cut too short"))?;
        index.paths.extend_from_within(shared.start..shared.start + keep);
        index.paths.extend_from_slice(reader.until(0)?);
    } else {
        index.paths.extend_from_slice(reader.until(0)?);
        let length = whole.len() - reader.bytes.len();
        reader.take(length.next_multiple_of(8) - length)?;
    }
    Ok(Entry {
        path: start..index.paths.len(),
        oid,
        mode,
        stat: CachedStat { ctime, mtime, ino, uid, gid, size },
        stage: u8::try_from(flags >> 12 & 3).expect("two bits"),
        skip_worktree: more & SKIP_WORKTREE != 0,
        intent_to_add: more & INTENT_TO_ADD != 0,
    })
}

/// Deeper than any path can be.
const MAX_DEPTH: usize = 2048;

fn parse_cache_tree(reader: &mut Reader<'_>, depth: usize) -> io::Result<(Vec<u8>, CacheTree)> {
    if depth > MAX_DEPTH {
        return Err(damaged("its trees are deeper than any path"));
    }
    let name = reader.until(0)?.to_vec();
    let entries = reader.decimal(b' ')?;
    let subtrees = reader.decimal(b'\n')?;
    let oid = if entries < 0 { None } else { Some(reader.oid()?) };
    let mut children = Vec::new();
    for _ in 0..subtrees {
        children.push(parse_cache_tree(reader, depth + 1)?);
    }
    Ok((name, CacheTree { oid, children }))
}

fn parse_resolve_undo(reader: &mut Reader<'_>) -> io::Result<Vec<Oid>> {
    let mut blobs = Vec::new();
    while !reader.bytes.is_empty() {
        reader.until(0)?;
        let mut present = 0;
        for _ in 0..3 {
            present += usize::from(reader.until(0)?.iter().any(|digit| *digit != b'0'));
        }
        for _ in 0..present {
            blobs.push(reader.oid()?);
        }
    }
    Ok(blobs)
}

/// Joins a split index: the shared index without the deleted entries, with the replaced ones (entries without
/// a path, in order) and the added ones.
fn join_shared(split: Index, link: &[u8], directory: &Path) -> io::Result<Index> {
    let mut reader = Reader { bytes: link };
    let base = reader.oid()?;
    if base.is_zero() {
        return Ok(split);
    }
    let raw = read_regular(&directory.join(format!("sharedindex.{base}")), LARGE_FILE)?;
    let mut joined = parse(&raw, None)?;
    let count = joined.entries.len();
    let (deleted, replaced) = match reader.bytes {
        [] => (Bitmap::default(), Bitmap::default()),
        bitmaps => {
            let (deleted, rest) =
                Bitmap::parse(bitmaps, count).ok_or_else(|| damaged("its link extension is invalid"))?;
            let (replaced, _) =
                Bitmap::parse(rest, count).ok_or_else(|| damaged("its link extension is invalid"))?;
            (deleted, replaced)
        }
    };
    let mut replacements = split.entries.iter().filter(|entry| entry.path.is_empty());
    for position in replaced.ones() {
        let entry =
            joined.entries.get_mut(position).ok_or_else(|| damaged("its link extension is invalid"))?;
        let replacement = replacements.next().ok_or_else(|| damaged("its link extension is invalid"))?;
        *entry = Entry { path: entry.path.clone(), ..replacement.clone() };
    }
    let mut position = 0;
    let deleted: HashSet<usize> = deleted.ones().collect();
    joined.entries.retain(|_| {
        position += 1;
        !deleted.contains(&(position - 1))
    });
    for added in split.entries.iter().filter(|entry| !entry.path.is_empty()) {
        let start = joined.paths.len();
        joined.paths.extend_from_slice(split.path(added));
        joined.entries.push(Entry { path: start..joined.paths.len(), ..added.clone() });
    }
    joined.cache_tree = split.cache_tree;
    joined.resolve_undo = split.resolve_undo;
    joined.sort();
    Ok(joined)
}

// The layout is fixed by git; this checks the constant.
const _: () = assert!(FIXED == 62);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_near_finds_the_same_entries_as_at() {
        let mut index = Index::default();
        for path in ["a/1", "a/2", "a/3", "b/1", "b/2"] {
            index.push_skipped(path.as_bytes(), Oid::ZERO_SHA1, 0o100_644);
        }
        // In a conflict, one path has several entries.
        for stage in 1..=3 {
            index.push_skipped(b"b/3", Oid::ZERO_SHA1, 0o100_644);
            index.entries.last_mut().unwrap().stage = stage;
        }
        index.push_skipped(b"b/4", Oid::ZERO_SHA1, 0o100_644);
        for among in [0..9, 3..9, 0..3, 4..4] {
            for last in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, usize::MAX] {
                for path in ["a/1", "a/2", "a/3", "b/1", "b/2", "b/3", "b/4", "a/0", "b/9"] {
                    let found = index.at_near(last, among.clone(), path.as_bytes());
                    assert_eq!(found, index.at(among.clone(), path.as_bytes()), "{path} near {last}");
                }
            }
        }
    }

    /// Returns an index without entries, whose trees are nested `depth` levels deep.
    fn nested(depth: usize) -> Vec<u8> {
        let trees = [b"d\x00-1 1\n".repeat(depth), b"d\x00-1 0\n".to_vec()].concat();
        let length = u32::try_from(trees.len()).unwrap().to_be_bytes();
        [b"DIRC\0\0\0\x02\0\0\0\0TREE", &length[..], &trees, &[0; OID]].concat()
    }

    #[test]
    fn cache_trees_deeper_than_any_path_are_rejected_without_exhausting_the_stack() {
        assert!(parse(&nested(MAX_DEPTH), None).is_ok());
        let error = parse(&nested(1_000_000), None).unwrap_err();
        assert!(error.to_string().contains("deeper than any path"), "{error}");
    }
}
