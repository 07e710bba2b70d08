//! Writes the index of a new checkout: git's format, version 2, with the tree extension, so that the first
//! `git status` compares neither files nor trees.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::Stat;
use sha1::{Digest, Sha1};

use super::plan::{Item, Plan};

/// The longest name whose length fits into an entry's flags.
const MAX_NAME_LENGTH: usize = 0xfff;
/// The length of an entry without its name.
const ENTRY_LENGTH: usize = 62;

/// The `stat` data that an index stores for a file. While it is unchanged, the content need not be read.
#[derive(Clone, Copy)]
pub(super) struct StatData {
    /// Both times, device and inode.
    before_mode: [u32; 6],
    /// Owner, group and size.
    after_mode: [u32; 3],
}

impl StatData {
    pub(super) fn of(stat: &Stat) -> StatData {
        StatData {
            before_mode: [
                low_half(stat.st_ctime.cast_unsigned()),
                low_half(stat.st_ctime_nsec),
                low_half(stat.st_mtime.cast_unsigned()),
                low_half(stat.st_mtime_nsec),
                low_half(stat.st_dev),
                low_half(stat.st_ino),
            ],
            after_mode: [stat.st_uid, stat.st_gid, low_half(stat.st_size.cast_unsigned())],
        }
    }
}

/// Writes the index of `plan`, whose items have `stats`, to a path that does not exist. It appears complete
/// or not at all: a partial index would be work that cannot be read.
pub(super) fn write(path: &Path, plan: &Plan, stats: &[StatData]) -> io::Result<()> {
    let mut bytes = encode(plan, stats)?;
    let checksum = Sha1::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    let lock = path.with_extension("lock");
    File::create_new(&lock)?.write_all(&bytes)?;
    fs::rename(&lock, path)
}

fn encode(plan: &Plan, stats: &[StatData]) -> io::Result<Vec<u8>> {
    let too_many = |_| io::Error::other("more files than an index can hold");
    let mut bytes = Vec::with_capacity(plan.items.len() * 128);
    bytes.extend_from_slice(b"DIRC\0\0\0\x02");
    bytes.extend_from_slice(&u32::try_from(plan.items.len()).map_err(too_many)?.to_be_bytes());
    for (item, stat) in plan.items.iter().zip(stats) {
        encode_item(item, stat, &mut bytes);
    }
    let trees = encode_trees(plan);
    bytes.extend_from_slice(b"TREE");
    bytes.extend_from_slice(&u32::try_from(trees.len()).map_err(too_many)?.to_be_bytes());
    bytes.extend_from_slice(&trees);
    Ok(bytes)
}

fn encode_item(item: &Item, stat: &StatData, bytes: &mut Vec<u8>) {
    let numbers = stat.before_mode.into_iter().chain([item.kind.mode()]).chain(stat.after_mode);
    numbers.for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
    bytes.extend_from_slice(item.oid.as_bytes());
    let length = u16::try_from(item.path.len().min(MAX_NAME_LENGTH)).expect("twelve bits fit into sixteen");
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&item.path);
    // At least one NUL, and as many as the next entry needs to start at a multiple of eight.
    let padding = 8 - (ENTRY_LENGTH + item.path.len()) % 8;
    bytes.resize(bytes.len() + padding, 0);
}

/// Encodes each directory before those in it: its name, how many index entries it covers, and its tree.
fn encode_trees(plan: &Plan) -> Vec<u8> {
    let mut bytes = Vec::new();
    for folder in &plan.folders {
        bytes.extend_from_slice(&folder.path[folder.name_at..]);
        bytes.extend_from_slice(format!("\0{} {}\n", folder.items, folder.folders).as_bytes());
        bytes.extend_from_slice(folder.oid.as_bytes());
    }
    bytes
}

/// Truncates a number to the 32 bits that an index stores.
fn low_half(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).expect("it was masked to 32 bits")
}
