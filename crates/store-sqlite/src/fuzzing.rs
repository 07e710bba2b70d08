//! Entry points of the fuzz target `stores`. Compiled only with `--cfg fuzzing`.

use crate::page::{PAGE_SIZE, be32};
use crate::salvage::Salvage;
use crate::wal::{FRAME, HEADER, Wal, checksum};

/// Sets the correct checksums in a log, so that a fuzzer's changes reach the parser. Frames whose checksum is
/// all ones keep it.
pub fn seal(log: &mut [u8]) {
    let Some(first) = be32(log, 0).filter(|_| log.len() >= HEADER) else { return };
    let big_endian = first & 1 == 1;
    let mut sum = checksum(big_endian, (0, 0), &log[..HEADER - 8]);
    write_sum(&mut log[HEADER - 8..HEADER], sum);
    for frame in log[HEADER..].chunks_exact_mut(FRAME) {
        if frame[16..24] != [0xff; 8] {
            sum = checksum(big_endian, checksum(big_endian, sum, &frame[..8]), &frame[FRAME - PAGE_SIZE..]);
            write_sum(&mut frame[16..24], sum);
        }
        sum = (be32(frame, 16).unwrap_or(0), be32(frame, 20).unwrap_or(0));
    }
}

fn write_sum(place: &mut [u8], (first, second): (u32, u32)) {
    place[..4].copy_from_slice(&first.to_be_bytes());
    place[4..].copy_from_slice(&second.to_be_bytes());
}

/// Reads a database and its log without SQLite. Asserts that every returned row has a valid checksum and that
/// no row is both present and lost.
pub fn salvage(database: &[u8], log: &[u8]) -> Vec<(String, u64)> {
    let wal = Wal::parse(log.to_vec());
    let salvage = Salvage::of(database, &wal);
    let of_row = |(id, row): (&sexton_core::SessionId, &crate::rows::Row)| {
        assert_eq!(row.id, *id);
        assert!(!salvage.lost.contains(id), "{id} is both present and lost");
        assert!(row.revision <= salvage.seq(), "every row belongs to a commit");
        // Whether the document is a valid record is not checked here.
        let _ = (row.parse(), row.is_finished(), row.status());
        (id.to_string(), row.revision)
    };
    salvage.rows.iter().map(of_row).collect()
}
