//! The parts of repositories that are read without libgit2: packs and their indexes, deltas, the index of a
//! worktree, patterns, and the manifest of a rescue.
//!
//! The first letter selects the format: `d` a base with its length before it, then a delta; `p` the index of
//! a pack with its length before it, then the pack; `o` a list of objects from which a pack is made; `i` the
//! index of a worktree; `b` a bitmap; `w` a pattern with its length before it, then a path; `m` a manifest.
#![no_main]

use std::fs::File;
use std::io::Write;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sexton_fuzz::{split_kind, split_number, split_piece, zlib};
use sexton_worktree_git::fuzzing as git;

fuzz_target!(|input: &[u8]| {
    let Some((kind, input)) = split_kind(input) else { return };
    match kind {
        b'p' => {
            let (index, pack) = split_piece::<2>(input);
            git::pack(index.to_vec(), in_memory(pack));
        }
        b'o' => {
            let (index, pack) = make_pack(input);
            git::pack(index, in_memory(&pack));
        }
        b'i' => git::index(input),
        b'b' => {
            let (entries, bitmap) = split_number::<2>(input);
            git::bitmap(bitmap, entries);
        }
        // Patterns of users: git's own matching does not terminate in reasonable time for some long ones.
        b'w' => {
            let (pattern, path) = split_piece::<1>(&input[..input.len().min(48)]);
            git::pattern(pattern, path);
        }
        b'm' => git::manifest(input),
        _ => {
            let (base, difference) = split_piece::<1>(input);
            git::delta(base, difference);
        }
    }
});

fn in_memory(bytes: &[u8]) -> File {
    let place = Path::new("/dev/shm");
    let place = if place.is_dir() { place.to_owned() } else { std::env::temp_dir() };
    let mut file = tempfile::tempfile_in(place).expect("a file in memory");
    file.write_all(bytes).expect("a file in memory");
    file
}

/// Returns a pack whose objects the input describes: each is a byte for its kind and how its size is wrong, a
/// byte for its base object, and its content with its length before it.
fn make_pack(mut input: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut pack = b"PACK\0\0\0\x02\0\0\0\x01".to_vec();
    let mut objects: Vec<([u8; 20], usize)> = Vec::new();
    while let (Some((kind, rest)), true) = (split_kind(input), objects.len() < 64) {
        let (base, rest) = split_number::<1>(rest);
        let (content, rest) = split_piece::<1>(rest);
        let at = pack.len();
        let size = if kind & 0x80 == 0 { content.len() } else { content.len() << (kind >> 3 & 7) };
        write_header(&mut pack, kind & 7, size);
        match kind & 7 {
            6 => {
                let before = objects.get(base % objects.len().max(1)).map_or(base, |(_, place)| at - place);
                write_distance(&mut pack, before);
            }
            7 => pack.extend([u8::try_from(base % 64).unwrap_or(0); 20]),
            _ => {}
        }
        pack.extend(zlib::store(content));
        objects.push(([u8::try_from(objects.len()).unwrap_or(0); 20], at));
        input = rest;
    }
    (make_index(&objects), pack)
}

fn write_header(pack: &mut Vec<u8>, kind: u8, size: usize) {
    let (mut byte, mut size) = (kind << 4 | (size & 0x0f) as u8, size >> 4);
    while size > 0 {
        pack.push(byte | 0x80);
        (byte, size) = ((size & 0x7f) as u8, size >> 7);
    }
    pack.push(byte);
}

fn write_distance(pack: &mut Vec<u8>, mut distance: usize) {
    let mut bytes = vec![(distance & 0x7f) as u8];
    while distance >= 0x80 {
        distance = (distance >> 7) - 1;
        bytes.push((distance & 0x7f) as u8 | 0x80);
    }
    pack.extend(bytes.into_iter().rev());
}

fn make_index(objects: &[([u8; 20], usize)]) -> Vec<u8> {
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    for first in 0..256_usize {
        index.extend(u32::try_from(objects.len().min(first + 1)).unwrap_or(0).to_be_bytes());
    }
    objects.iter().for_each(|(name, _)| index.extend(name));
    objects.iter().for_each(|_| index.extend([0; 4]));
    objects.iter().for_each(|(_, at)| index.extend(u32::try_from(*at).unwrap_or(0).to_be_bytes()));
    index.extend([0; 40]);
    index
}
