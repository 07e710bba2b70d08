//! The compressed bitmaps of a split index: runs of equal 64-bit words, and literal words between them.

/// A set of positions.
#[derive(Debug, Default)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    /// Reads the bitmap of an index with `entries` entries from the start of `bytes`, and returns it with the
    /// remaining bytes; `None` if there is none or if it is for a larger index, so that a damaged length
    /// cannot exhaust the memory.
    pub(crate) fn parse(bytes: &[u8], entries: usize) -> Option<(Bitmap, &[u8])> {
        let most_words = entries.div_ceil(64) + 1;
        let (_bits, rest) = number(bytes)?;
        let (length, rest) = number(rest)?;
        let (compressed, rest) = rest.split_at_checked(usize::try_from(length).ok()?.checked_mul(8)?)?;
        let (_last_marker, rest) = number(rest)?;
        let mut compressed = compressed
            .chunks_exact(8)
            .map(|chunk| u64::from_be_bytes(chunk.try_into().expect("chunks of eight")));
        let mut words = Vec::new();
        while let Some(marker) = compressed.next() {
            let run = usize::try_from(marker >> 1 & 0xffff_ffff).ok()?;
            let literals = usize::try_from(marker >> 33).ok()?;
            if words.len() + run + literals > most_words {
                return None;
            }
            words.resize(words.len() + run, if marker & 1 == 1 { u64::MAX } else { 0 });
            for _ in 0..literals {
                words.push(compressed.next()?);
            }
        }
        Some((Bitmap { words }, rest))
    }

    /// Returns the positions in it, ascending.
    pub(crate) fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(word, bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
        })
    }
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_literals_decode_to_positions() {
        let mut bytes = Vec::new();
        bytes.extend(200u32.to_be_bytes());
        bytes.extend(2u32.to_be_bytes());
        // One run word of ones, then one literal word.
        bytes.extend((1u64 | 1 << 1 | 1 << 33).to_be_bytes());
        bytes.extend(0b101u64.to_be_bytes());
        bytes.extend(0u32.to_be_bytes());
        bytes.extend(b"rest");
        let (bitmap, rest) = Bitmap::parse(&bytes, 200).unwrap();
        assert_eq!(bitmap.ones().collect::<Vec<_>>(), (0..64).chain([64, 66]).collect::<Vec<_>>());
        assert_eq!(rest, b"rest");
    }

    #[test]
    fn truncated_bitmap_is_rejected() {
        assert!(Bitmap::parse(&[0, 0, 0, 1, 0, 0, 0, 9, 1], 64).is_none());
    }

    #[test]
    fn run_beyond_the_index_is_rejected_without_allocating_it() {
        let mut bytes = Vec::new();
        bytes.extend(64u32.to_be_bytes());
        bytes.extend(1u32.to_be_bytes());
        bytes.extend((1u64 | 0xff_ffff << 1).to_be_bytes());
        bytes.extend(0u32.to_be_bytes());
        assert!(Bitmap::parse(&bytes, 64).is_none());
    }
}
