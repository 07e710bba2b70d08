//! A random identifier for a store (RFC 9562, version 4).

/// A new identifier.
///
/// # Panics
/// Where the operating system has no randomness to give, which no supported one does.
pub(crate) fn random() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]].map(<[String]>::concat).join("-")
}
