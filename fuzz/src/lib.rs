//! Code shared by the fuzz targets: how an input selects one of a target's formats, and how a few bytes
//! change a large file.

pub mod edits;
pub mod zlib;

/// Splits off the first byte of an input, which selects what the rest is.
pub fn split_kind(input: &[u8]) -> Option<(u8, &[u8])> {
    input.split_first().map(|(kind, rest)| (*kind, rest))
}

/// Splits off a number of `N` bytes, the lowest first; missing bytes are zero.
pub fn split_number<const N: usize>(input: &[u8]) -> (usize, &[u8]) {
    let (number, rest) = input.split_at(N.min(input.len()));
    (number.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
}

/// Splits off a piece whose length is the number of `N` bytes before it, or what is left if that is less.
pub fn split_piece<const N: usize>(input: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = split_number::<N>(input);
    rest.split_at(length.min(rest.len()))
}
