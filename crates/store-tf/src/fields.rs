//! A JSON object whose fields keep their order and their bytes.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of an object, as written in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(pub(crate) Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Returns the value of `name`, as text.
    pub(crate) fn find(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns the value of `name` read as a `T`; `None` if it is missing or null.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        let Some(value) = self.find(name) else { return Ok(None) };
        serde_json::from_str(value.get()).map_err(|_| format!("its `{name}` is {}", shorten(value.get())))
    }

    /// Returns the first field with a repeated name.
    pub(crate) fn find_duplicate(&self) -> Option<&str> {
        let duplicate =
            |(at, (name, _)): &(usize, &(String, _))| self.0[..*at].iter().any(|(one, _)| one == name);
        self.0.iter().enumerate().find(duplicate).map(|(_, (name, _))| name.as_str())
    }

    /// Sets `name` to another value; a new field is appended.
    pub(crate) fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, present)) => *present = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Formats the object on one line, or with each field on its own line after `indent` and the closing
    /// brace after `outer`.
    pub(crate) fn write(&self, style: Layout<'_>) -> String {
        let field = |(name, value): &(String, Box<RawValue>)| {
            format!("{}: {}", serde_json::Value::from(name.as_str()), value.get())
        };
        let fields: Vec<String> = self.0.iter().map(field).collect();
        match style {
            Layout::Line => format!("{{{}}}", fields.join(", ")),
            Layout::Lines { indent, outer } => {
                format!("{{\n{indent}{}\n{outer}}}", fields.join(&format!(",\n{indent}")))
            }
        }
    }
}

/// The layout of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout<'a> {
    /// On one line.
    Line,
    /// One line per field.
    Lines {
        /// The indentation of a field.
        indent: &'a str,
        /// The indentation of the closing brace.
        outer: &'a str,
    },
}

/// Shortens a text for a message.
pub(crate) fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Converts `value` to the text of a field.
///
/// # Panics
/// Never: numbers, strings, null and JSON values can be serialized.
pub(crate) fn raw(value: impl serde::Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(&value).expect("a plain value can be serialized")
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_their_bytes() {
        let text = r#"{"z": 1.50, "a": {"deep":  [1e400, 18446744073709551616]}, "ü": "\ud800"}"#;
        let mut fields: Fields = serde_json::from_str(text).unwrap();
        assert_eq!(fields.write(Layout::Line), text);
        fields.set("a", raw(2));
        fields.set("new", raw("x"));
        let lines = fields.write(Layout::Lines { indent: "  ", outer: "" });
        assert_eq!(lines, "{\n  \"z\": 1.50,\n  \"a\": 2,\n  \"ü\": \"\\ud800\",\n  \"new\": \"x\"\n}");
    }

    #[test]
    fn a_duplicate_field_is_found() {
        let fields: Fields = serde_json::from_str(r#"{"a": 1, "b": 2, "a": 1}"#).unwrap();
        assert_eq!(fields.find_duplicate(), Some("a"));
    }
}
