//! A state file as text with members: an unchanged member keeps its bytes, its position and its number
//! format, whether this version knows it or not.

use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON object whose members are kept as they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    members: Vec<(String, Box<RawValue>)>,
    /// Whether the text ended with a line break. Files of oh-my-codex do not; those of an editor do.
    line_break: bool,
}

impl Document {
    /// Parses the text of a state file; the error describes what is wrong with it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Document, String> {
        let text = str::from_utf8(bytes).map_err(|error| format!("it is not UTF-8: {error}"))?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let members = reader
            .deserialize_map(Members)
            .and_then(|members| reader.end().map(|()| members))
            .map_err(|error| format!("it is not a JSON object: {error}"))?;
        Ok(Document { members, line_break: text.ends_with('\n') })
    }

    /// Returns the members as they were written.
    #[cfg(fuzzing)]
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members.iter().map(|(key, raw)| (key.as_str(), raw.get()))
    }

    /// Returns the keys, each once, in the order of the text.
    pub(crate) fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = Vec::new();
        for (key, _) in &self.members {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
        }
        keys
    }

    /// Returns the value of `key`. The last of duplicate keys counts, as in JavaScript.
    pub(crate) fn find(&self, key: &str) -> Option<Value> {
        let (_, raw) = self.members.iter().rev().find(|(member, _)| member == key)?;
        serde_json::from_str(raw.get()).ok()
    }

    /// Sets `key` to a value, in place if it exists and at the end otherwise.
    ///
    /// # Panics
    /// Never: every value can be serialized.
    pub(crate) fn set(&mut self, key: &str, value: &Value) {
        let pretty = serde_json::to_string_pretty(value).expect("every value can be serialized");
        // A line break inside a string is escaped, so every one of these is layout.
        let raw = RawValue::from_string(pretty.replace('\n', "\n  ")).expect("it was just serialized");
        match self.members.iter_mut().rev().find(|(member, _)| member == key) {
            Some((_, place)) => *place = raw,
            None => self.members.push((key.to_owned(), raw)),
        }
    }

    /// Removes `key`.
    pub(crate) fn remove(&mut self, key: &str) {
        self.members.retain(|(member, _)| member != key);
    }

    /// Formats the text in the layout of oh-my-codex: one member per line, indented by two blanks.
    pub(crate) fn render(&self) -> String {
        let end = if self.line_break { "\n" } else { "" };
        if self.members.is_empty() {
            return format!("{{}}{end}");
        }
        let line =
            |(key, raw): &(String, Box<RawValue>)| format!("  {}: {}", Value::from(key.as_str()), raw.get());
        let lines: Vec<String> = self.members.iter().map(line).collect();
        format!("{{\n{}\n}}{end}", lines.join(",\n"))
    }
}

/// Reads the members in order, without parsing their values further than necessary.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, Box<RawValue>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((key, raw)) = map.next_entry::<String, Box<RawValue>>()? {
            // A value that cannot be parsed now could not be returned later: half a surrogate pair, or a
            // number out of range.
            serde_json::from_str::<Value>(raw.get()).map_err(|error| {
                A::Error::custom(format!("the value of `{}`: {error}", key.escape_debug()))
            })?;
            members.push((key, raw));
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "{\n  \"z\": 1.50,\n  \"a\": {\n    \"deep\": [1e2, \"\\u00e4\"]\n  },\n  \"big\": 18446744073709551615\n}";

    #[test]
    fn unchanged_members_keep_their_bytes() {
        let mut document = Document::parse(TEXT.as_bytes()).unwrap();
        assert_eq!(document.render(), TEXT);
        document.set("z", &json!(2));
        assert_eq!(document.render(), TEXT.replace("1.50", "2"));
        document.set("new", &json!({"list": [1]}));
        document.remove("z");
        let expected = TEXT
            .replace("  \"z\": 1.50,\n", "")
            .replace("615\n", "615,\n  \"new\": {\n    \"list\": [\n      1\n    ]\n  }\n");
        assert_eq!(document.render(), expected);
    }

    #[test]
    fn a_final_line_break_is_kept_and_none_is_added() {
        for text in ["{}", "{}\n", "{\n  \"a\": null\n}\n"] {
            assert_eq!(Document::parse(text.as_bytes()).unwrap().render(), text);
        }
    }

    #[test]
    fn the_last_of_duplicate_members_counts() {
        let mut document = Document::parse(br#"{"a": 1, "b": 2, "a": 3}"#).unwrap();
        assert_eq!(document.find("a"), Some(json!(3)));
        assert_eq!(document.keys(), ["a", "b"]);
        document.set("a", &json!(4));
        assert_eq!(document.render(), "{\n  \"a\": 1,\n  \"b\": 2,\n  \"a\": 4\n}");
        document.remove("a");
        assert_eq!(document.find("a"), None);
    }

    #[test]
    fn text_that_is_not_an_object_is_rejected_with_a_reason() {
        for text in ["", "null", "[1]", "{\"a\": 1", "{\"a\": 1} x", "{\"a\": \"\\ud800\"}", "\u{feff}{}"] {
            let error = Document::parse(text.as_bytes()).unwrap_err();
            assert!(error.starts_with("it is not a JSON object: "), "{text}: {error}");
        }
        assert!(Document::parse(b"{\"a\": \"\xff\"}").unwrap_err().starts_with("it is not UTF-8: "));
    }
}
