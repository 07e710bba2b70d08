//! What the fuzz targets share: how an input says which of a target's formats it is for, and how a few bytes
//! change a large file.

pub mod edits;
pub mod zlib;

/// The letter that an input begins with, which says what the rest of it is.
pub fn split_kind(input: &[u8]) -> Option<(u8, &[u8])> {
    input.split_first().map(|(kind, rest)| (*kind, rest))
}

/// A number of `N` bytes, the lowest first, and what follows it; what is missing is zero.
pub fn split_number<const N: usize>(input: &[u8]) -> (usize, &[u8]) {
    let (number, rest) = input.split_at(N.min(input.len()));
    (number.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
}

/// A piece whose length is a number of `N` bytes before it, as far as there is so much.
pub fn split_piece<const N: usize>(input: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = split_number::<N>(input);
    rest.split_at(length.min(rest.len()))
}
