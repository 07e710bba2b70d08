//! Reads entries of a file that cannot be parsed as a whole: an interrupted write, or a partial write over
//! another.

use serde_json::value::RawValue;

/// The field name of the list.
const LIST: &[u8] = b"\"sessions\"";

/// Returns the entries that can be read in sequence from the start of the list. What follows the first
/// unreadable one is ignored: it may be the rest of an older file.
pub(crate) fn entries(text: &[u8]) -> Vec<Box<RawValue>> {
    let Some(mut rest) = list(text) else { return Vec::new() };
    let mut entries = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<Box<RawValue>>();
        match values.next() {
            Some(Ok(entry)) if entry.get().starts_with('{') => entries.push(entry),
            _ => return entries,
        }
        rest = rest[values.byte_offset()..].trim_ascii_start();
        match rest.strip_prefix(b",") {
            Some(more) => rest = more,
            None => return entries,
        }
    }
}

/// Returns the content of the list, as far as it exists.
fn list(text: &[u8]) -> Option<&[u8]> {
    let name = text.windows(LIST.len()).position(|window| window == LIST)?;
    let rest = text[name + LIST.len()..].trim_ascii_start().strip_prefix(b":")?;
    rest.trim_ascii_start().strip_prefix(b"[")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_file_gives_the_entries_before_the_cut() {
        let whole = br#"{"version": 1, "sessions": [{"a": "]}"}, {"b": [1, {"c": 2}]}, {"d": 3}], "x": 1}"#;
        let mut most = 0;
        for length in 0..=whole.len() {
            let found = entries(&whole[..length]);
            assert!(found.len() >= most, "{length} bytes give less than fewer bytes did");
            most = found.len();
            for (entry, expected) in
                found.iter().zip([r#"{"a": "]}"}"#, r#"{"b": [1, {"c": 2}]}"#, r#"{"d": 3}"#])
            {
                assert_eq!(entry.get(), expected, "at {length}");
            }
        }
        assert_eq!(most, 3);
        assert_eq!(entries(b"not this").len(), 0);
    }
}
