//! Random identifiers (RFC 9562, version 4) for stores and their writers.

/// Returns a new identifier.
///
/// # Panics
/// If the operating system provides no random bytes, which does not happen on a supported one.
pub fn random_uuid() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]].map(<[String]>::concat).join("-")
}

#[cfg(test)]
mod tests {
    #[test]
    fn identifiers_are_unique_version_4_uuids() {
        let (one, other) = (super::random_uuid(), super::random_uuid());
        assert_ne!(one, other);
        let lengths: Vec<_> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(&one[14..15], "4");
    }
}
