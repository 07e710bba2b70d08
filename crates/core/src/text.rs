//! Text from the operating system: arguments, paths, names. It need not be UTF-8, and records keep it
//! unchanged.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes that are usually text. In JSON a string if they are UTF-8, otherwise `{"bytes": base64}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OsText(OsString);

impl OsText {
    /// Returns the text in the form that the operating system uses.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// Returns the text as a path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// Returns the text for display, with replacement characters if it is not UTF-8.
    pub fn display(&self) -> impl fmt::Display + '_ {
        self.0.display()
    }
}

impl fmt::Debug for OsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<OsString> for OsText {
    fn from(text: OsString) -> Self {
        OsText(text)
    }
}

impl From<PathBuf> for OsText {
    fn from(path: PathBuf) -> Self {
        OsText(path.into_os_string())
    }
}

impl From<&Path> for OsText {
    fn from(path: &Path) -> Self {
        OsText(path.as_os_str().to_owned())
    }
}

impl From<&str> for OsText {
    fn from(text: &str) -> Self {
        OsText(text.into())
    }
}

impl From<String> for OsText {
    fn from(text: String) -> Self {
        OsText(text.into())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    bytes: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Encoded(Encoded),
}

impl Serialize for OsText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => Encoded { bytes: STANDARD.encode(self.0.as_bytes()) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Text(text) => Ok(text.into()),
            Written::Encoded(Encoded { bytes }) => {
                let bytes = STANDARD.decode(bytes).map_err(de::Error::custom)?;
                Ok(OsText(OsString::from_vec(bytes)))
            }
        }
    }
}

impl JsonSchema for OsText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OsText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a string, or its bytes in base64 where it is not UTF-8",
            "oneOf": [
                {"type": "string"},
                {"type": "object", "properties": {"bytes": {"type": "string", "contentEncoding": "base64"}},
                 "required": ["bytes"], "additionalProperties": false},
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_is_serialized_as_plain_string() {
        assert_eq!(serde_json::to_string(&OsText::from("grüß dich")).unwrap(), "\"grüß dich\"");
    }

    #[test]
    fn non_utf8_bytes_round_trip() {
        let text = OsText(OsString::from_vec(vec![b'a', 0xff, 0xfe, b'\n']));
        let json = serde_json::to_string(&text).unwrap();
        assert_eq!(json, r#"{"bytes":"Yf/+Cg=="}"#);
        assert_eq!(serde_json::from_str::<OsText>(&json).unwrap(), text);
    }

    #[test]
    fn invalid_base64_is_an_error() {
        assert!(serde_json::from_str::<OsText>(r#"{"bytes":"%%"}"#).is_err());
    }
}
