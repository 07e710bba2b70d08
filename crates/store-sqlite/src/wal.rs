//! Reads the write-ahead log without SQLite. SQLite's recovery stops at the first bad frame and ignores
//! everything after it; only the log itself shows that there was more.

use std::collections::BTreeMap;

use crate::page::{PAGE_SIZE, be32};

pub(crate) const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
pub(crate) const FRAME: usize = FRAME_HEADER + PAGE_SIZE;

/// The log's first bytes, without the last bit, which is the byte order of its checksums.
const MAGIC: u32 = 0x377f_0682;

/// A parsed log.
#[derive(Debug, Default)]
pub(crate) struct Wal {
    bytes: Vec<u8>,
    /// Whether the header is intact.
    pub(crate) header_is_whole: bool,
    /// The number of frames that SQLite applies: up to the last commit of the unbroken chain.
    committed: usize,
    /// Later frames that are intact, although the chain to them is broken. Some may be from an interrupted
    /// write that was partly overwritten.
    detached: Vec<usize>,
}

impl Wal {
    /// Parses the content of a log.
    pub(crate) fn parse(bytes: Vec<u8>) -> Wal {
        let mut wal = Wal { bytes, ..Wal::default() };
        let count = wal.bytes.len().saturating_sub(HEADER) / FRAME;
        if count == 0 && wal.bytes.len() < HEADER {
            return wal;
        }
        let big_endian = be32(&wal.bytes, 0) == Some(MAGIC | 1);
        let header_sum = checksum(big_endian, (0, 0), &wal.bytes[..HEADER - 8]);
        wal.header_is_whole = be32(&wal.bytes, 0).is_some_and(|magic| magic & !1 == MAGIC)
            && be32(&wal.bytes, 8).is_some_and(|size| size as usize == PAGE_SIZE)
            && wal.sum_at(HEADER - 8) == header_sum;
        // The first frame always belongs to the current log, so its salt replaces that of a broken header.
        let salt_at = if wal.header_is_whole || count == 0 { 16 } else { HEADER + 8 };
        let salt = wal.bytes[salt_at..salt_at + 8].to_vec();
        let mut chained = wal.header_is_whole;
        let mut is_broken = !wal.header_is_whole;
        for index in 0..count {
            let frame = wal.frame(index);
            let this_round = frame[8..16] == *salt;
            let (whole, ends_commit) = (wal.is_whole(index, big_endian), be32(frame, 4) != Some(0));
            chained &= whole && this_round;
            is_broken |= !chained && this_round;
            if chained && ends_commit {
                wal.committed = index + 1;
                wal.detached.clear();
            } else if whole && this_round {
                wal.detached.push(index);
            }
        }
        if !is_broken {
            // The rest is a write without a commit.
            wal.detached.clear();
        }
        wal
    }

    /// Returns the newest content of each page in the part that SQLite applies, and the database size in
    /// pages after it; `None` if that part is empty.
    pub(crate) fn committed(&self) -> Option<(BTreeMap<u32, &[u8]>, u32)> {
        let last = self.frame(self.committed.checked_sub(1)?);
        Some(((0..self.committed).filter_map(|index| self.page(index)).collect(), be32(last, 4)?))
    }

    /// Returns the pages after that part, oldest first.
    pub(crate) fn detached(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.detached.iter().filter_map(|index| self.page(*index))
    }

    /// Returns whether the frame is intact. Each checksum continues from the one stored in the previous
    /// frame, so that one bad frame does not invalidate those after it.
    fn is_whole(&self, index: usize, big_endian: bool) -> bool {
        let start = HEADER + index * FRAME;
        let seed = if index == 0 { self.sum_at(HEADER - 8) } else { self.sum_at(start - FRAME + 16) };
        let frame = self.frame(index);
        let sum = checksum(big_endian, checksum(big_endian, seed, &frame[..8]), &frame[FRAME_HEADER..]);
        self.sum_at(start + 16) == sum
    }

    fn page(&self, index: usize) -> Option<(u32, &[u8])> {
        let frame = self.frame(index);
        Some((be32(frame, 0)?, &frame[FRAME_HEADER..]))
    }

    fn frame(&self, index: usize) -> &[u8] {
        let start = HEADER + index * FRAME;
        &self.bytes[start..start + FRAME]
    }

    fn sum_at(&self, at: usize) -> (u32, u32) {
        (be32(&self.bytes, at).unwrap_or(0), be32(&self.bytes, at + 4).unwrap_or(0))
    }
}

/// Returns SQLite's checksum of the log, continued from `seed`.
pub(crate) fn checksum(big_endian: bool, seed: (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let word = |bytes: &[u8]| {
        let bytes = bytes.try_into().expect("chunks of eight are split in two halves of four");
        if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    bytes.chunks_exact(8).fold(seed, |(first, second), chunk| {
        let first = first.wrapping_add(word(&chunk[..4])).wrapping_add(second);
        let second = second.wrapping_add(word(&chunk[4..])).wrapping_add(first);
        (first, second)
    })
}
