//! A file that is mostly valid: a template, and the changes that an input makes to it. So each byte of an
//! input matters, and the file can have many pages.

use std::collections::BTreeSet;

use crate::{split_number, split_piece};

/// The size of a page.
pub const PAGE: usize = 4096;

/// A changed template.
pub struct Edited {
    /// The file.
    pub file: Vec<u8>,
    /// Its write-ahead log.
    pub log: Vec<u8>,
    /// The pages of the file that differ, without those in the log.
    pub pages: BTreeSet<usize>,
    /// Whether the log, or the length of the file, was changed.
    pub beyond_pages: bool,
}

/// Changes `file` and `log` as `input` selects: bytes are overwritten, pages copied, ends truncated.
pub fn edit(file: &[u8], log: &[u8], mut input: &[u8]) -> Edited {
    let mut edited =
        Edited { file: file.to_vec(), log: log.to_vec(), pages: BTreeSet::new(), beyond_pages: false };
    while let Some((kind, rest)) = crate::split_kind(input) {
        let (at, rest) = split_number::<3>(rest);
        input = match kind % 8 {
            0..=3 => {
                let (bytes, rest) = split_piece::<1>(rest);
                let at = at % edited.file.len().max(1);
                let end = (at + bytes.len()).min(edited.file.len());
                edited.file[at..end].copy_from_slice(&bytes[..end - at]);
                edited.pages.extend(at / PAGE..=end.saturating_sub(1).max(at) / PAGE);
                rest
            }
            4 | 5 => {
                let (bytes, rest) = split_piece::<1>(rest);
                let at = at % edited.log.len().max(1);
                let end = (at + bytes.len()).min(edited.log.len());
                edited.log[at..end].copy_from_slice(&bytes[..end - at]);
                edited.beyond_pages = true;
                rest
            }
            6 => {
                let (from, to) = (at & 0xff, at >> 8 & 0xff);
                let pages = edited.file.len() / PAGE;
                if pages > 0 {
                    let (from, to) = (from % pages, to % pages);
                    edited.file.copy_within(from * PAGE..(from + 1) * PAGE, to * PAGE);
                    edited.pages.insert(to);
                }
                rest
            }
            _ => {
                let whole = if at & 1 == 0 { &mut edited.file } else { &mut edited.log };
                whole.truncate(at >> 1);
                edited.beyond_pages = true;
                rest
            }
        };
    }
    edited
}
