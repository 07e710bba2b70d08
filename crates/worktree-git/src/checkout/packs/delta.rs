//! An object that is stored as a delta: its difference from another one.

use super::MAX_OBJECT;

/// Applies `delta` to `base`; `None` if it does not fit.
pub(super) fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut delta = Bytes(delta);
    if delta.size()? != base.len() {
        return None;
    }
    let size = delta.size().filter(|size| *size <= MAX_OBJECT)?;
    let mut result = Vec::new();
    result.try_reserve_exact(size).ok()?;
    while let Some(command) = delta.next() {
        let piece = if command & 0x80 != 0 {
            let from = delta.sparse(command, 4)?;
            let length = match delta.sparse(command >> 4, 3)? {
                0 => 0x1_0000,
                length => length,
            };
            if sexton_mutant::is("believe_deltas") {
                &base[from..from + length]
            } else {
                base.get(from..from.checked_add(length)?)?
            }
        } else if command != 0 {
            delta.take(usize::from(command))?
        } else {
            return None;
        };
        if result.len() + piece.len() > size {
            return None;
        }
        result.extend_from_slice(piece);
    }
    (result.len() == size).then_some(result)
}

/// The remaining bytes of a delta.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a size: seven bits per byte, the lowest first.
    fn size(&mut self) -> Option<usize> {
        let (mut size, mut shift) = (0u64, 0);
        loop {
            let byte = self.next()?;
            size |= u64::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 57)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return usize::try_from(size).ok();
            }
        }
    }

    /// Reads a number of up to `count` bytes, the lowest first; a byte without its bit in `which` is zero.
    fn sparse(&mut self, which: u8, count: u32) -> Option<usize> {
        let mut number = 0;
        for place in (0..count).filter(|place| which & 1 << place != 0) {
            number |= usize::from(self.next()?) << (8 * place);
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delta_copies_and_inserts_pieces() {
        // 10 bytes become 9: three from the fourth on, two inserted, four from the start.
        let delta = [10, 9, 0x91, 3, 3, 2, b'x', b'y', 0x90, 4];
        assert_eq!(apply(b"0123456789", &delta).unwrap(), b"345xy0123");
    }

    #[test]
    fn copy_length_of_zero_means_the_maximum() {
        let base = vec![5; 0x1_0000];
        let delta = [0x80, 0x80, 4, 0x80, 0x80, 4, 0x80];
        assert!(apply(&base, &delta).unwrap() == base);
    }

    #[test]
    fn delta_that_does_not_fit_is_rejected() {
        let base = b"0123456789";
        for delta in [
            &[9, 3, 0x90, 3][..],
            &[10, 4, 0x90, 3],
            &[10, 2, 0x90, 3],
            &[10, 3, 0x91, 8, 3],
            &[10, 3, 3, b'a'],
            &[10, 0, 0],
            &[10, 3, 0x91],
            &[10],
            // Larger than the maximum.
            &[10, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x90, 3],
            &[0x80; 20],
            &[],
        ] {
            assert_eq!(apply(base, delta), None, "{delta:?}");
        }
    }
}
