//! The index of a pack, version 2: the offset of each object.

use git2::Oid;

/// The signature of the file, and the version.
const BEGINNING: &[u8] = b"\xfftOc\0\0\0\x02";
/// The length of the fan-out table: for each first byte of an id, how many objects have that byte or a lower
/// one.
const FAN: usize = 256 * 4;
const NAME: usize = 20;
/// After the fan-out table, each object has an id, a checksum and an offset.
const NAMES_AT: usize = BEGINNING.len() + FAN;
/// The length of the checksums of the pack and of the index itself.
const END: usize = 2 * NAME;
/// An offset with this bit is an index into the table of large offsets.
const LARGE: u32 = 1 << 31;

pub(super) struct PackIndex {
    bytes: Vec<u8>,
    count: usize,
}

impl PackIndex {
    /// Parses an index; `None` if it is invalid or of another version.
    pub(super) fn parse(bytes: Vec<u8>) -> Option<PackIndex> {
        if !bytes.starts_with(BEGINNING) {
            return None;
        }
        let mut index = PackIndex { bytes, count: 0 };
        let mut below = 0;
        for first in 0..256 {
            let count = index.fan(first)?;
            if count < below {
                return None;
            }
            below = count;
        }
        index.count = below;
        (index.bytes.len() >= index.offsets_at()?.checked_add(4 * below)? + END).then_some(index)
    }

    /// Returns the offset of an object in the pack.
    pub(super) fn find(&self, oid: Oid) -> Option<u64> {
        let wanted = oid.as_bytes();
        let first = usize::from(*wanted.first()?);
        let mut low = if first == 0 { 0 } else { self.fan(first - 1)? };
        let mut high = self.fan(first)?;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name(middle)?.cmp(wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.offset(middle),
            }
        }
        None
    }

    fn fan(&self, first: usize) -> Option<usize> {
        usize::try_from(self.number(BEGINNING.len() + 4 * first)?).ok()
    }

    fn name(&self, position: usize) -> Option<&[u8]> {
        let at = NAMES_AT + NAME * position;
        self.bytes.get(at..at + NAME)
    }

    fn offset(&self, position: usize) -> Option<u64> {
        let offsets = self.offsets_at()?;
        let word = self.number(offsets + 4 * position)?;
        if word & LARGE == 0 {
            return Some(u64::from(word));
        }
        let place = usize::try_from(word & !LARGE).ok()?.checked_mul(8)?;
        let at = (offsets + 4 * self.count).checked_add(place)?;
        let bytes = self.bytes[..self.bytes.len() - END].get(at..at.checked_add(8)?)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }

    /// Returns where the offsets start: after the ids and the checksums.
    fn offsets_at(&self) -> Option<usize> {
        self.count.checked_mul(NAME + 4)?.checked_add(NAMES_AT)
    }

    fn number(&self, at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes.get(at..at + 4)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(first: u8, last: u8) -> Oid {
        let mut name = [7; NAME];
        (name[0], name[NAME - 1]) = (first, last);
        Oid::from_bytes(&name).unwrap()
    }

    /// Returns the index of sorted objects, with large offsets in their own table.
    fn index(objects: &[(Oid, u64)]) -> Vec<u8> {
        let mut bytes = BEGINNING.to_vec();
        for first in 0..=255u8 {
            let count = objects.iter().filter(|(oid, _)| oid.as_bytes()[0] <= first).count();
            bytes.extend(u32::try_from(count).unwrap().to_be_bytes());
        }
        objects.iter().for_each(|(oid, _)| bytes.extend_from_slice(oid.as_bytes()));
        objects.iter().for_each(|_| bytes.extend_from_slice(b"crc!"));
        let mut large = Vec::new();
        for (_, offset) in objects {
            let word = u32::try_from(*offset).ok().filter(|offset| offset & LARGE == 0);
            bytes.extend(word.unwrap_or(LARGE | u32::try_from(large.len() / 8).unwrap()).to_be_bytes());
            if word.is_none() {
                large.extend(offset.to_be_bytes());
            }
        }
        bytes.extend(large);
        bytes.extend([0; END]);
        bytes
    }

    #[test]
    fn every_object_is_found_at_its_offset_and_no_other_is_found() {
        let objects = [
            (oid(0, 1), 12),
            (oid(0, 9), 1 << 33),
            (oid(5, 5), 77),
            (oid(255, 0), 1 << 31),
            (oid(255, 1), 4),
        ];
        let index = PackIndex::parse(index(&objects)).unwrap();
        for (oid, offset) in objects {
            assert_eq!(index.find(oid), Some(offset), "{oid}");
        }
        for missing in [oid(0, 0), oid(0, 2), oid(4, 5), oid(255, 2)] {
            assert_eq!(index.find(missing), None);
        }
    }

    #[test]
    fn truncated_or_damaged_index_is_never_read_out_of_bounds() {
        let whole = index(&[(oid(3, 1), 12), (oid(9, 9), 1 << 40)]);
        for length in 0..whole.len() {
            assert!(
                PackIndex::parse(whole[..length].to_vec())
                    .is_none_or(|index| { index.find(oid(9, 9)).is_none_or(|offset| offset == 1 << 40) })
            );
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            if let Some(index) = PackIndex::parse(damaged) {
                let _ = (index.find(oid(3, 1)), index.find(oid(9, 9)), index.find(oid(200, 0)));
            }
        }
    }
}
