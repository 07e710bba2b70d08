//! The checksum in every row. SQLite detects a broken tree, but not a changed value.

use rusqlite::types::Value;

/// Returns the checksum of a row of `table`. It covers the type and length of each value, so that a byte that
/// moves to another column is detected.
pub(crate) fn of_row(table: &str, values: &[Value]) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    let mut add = |kind: u8, bytes: &[u8]| {
        hasher.update(&[kind]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(b't', table.as_bytes());
    for value in values {
        match value {
            Value::Null => add(b'n', &[]),
            Value::Integer(number) => add(b'i', &number.to_le_bytes()),
            Value::Real(number) => add(b'r', &number.to_le_bytes()),
            Value::Text(text) => add(b's', text.as_bytes()),
            Value::Blob(bytes) => add(b'b', bytes),
        }
    }
    i64::from(hasher.finalize())
}

/// Removes the checksum, the last column of every table; `None` if it does not match the rest of the row.
pub(crate) fn verify(table: &str, mut values: Vec<Value>) -> Option<Vec<Value>> {
    let checksum = values.pop()?;
    let fits = checksum == Value::Integer(of_row(table, &values));
    (fits || sexton_mutant::is("no_checksum")).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_a_byte_to_another_column_changes_the_checksum() {
        let text = |text: &str| Value::Text(text.to_owned());
        let one = of_row("t", &[text("ab"), text("c")]);
        assert_ne!(one, of_row("t", &[text("a"), text("bc")]));
        assert_ne!(one, of_row("t", &[text("ab"), text("c"), Value::Null]));
        assert_ne!(one, of_row("u", &[text("ab"), text("c")]));
    }

    #[test]
    fn a_row_with_a_wrong_checksum_is_rejected() {
        let row = vec![Value::Integer(7), Value::Integer(of_row("t", &[Value::Integer(7)]))];
        assert_eq!(verify("t", row.clone()), Some(vec![Value::Integer(7)]));
        assert_eq!(verify("u", row), None);
        assert_eq!(verify("t", Vec::new()), None);
    }
}
