//! The kinds of values that a setting can have, from text and from TOML, and back.

use std::path::PathBuf;

use crate::store::Durability;

/// A value that can be written in a file, in the environment and as a flag.
pub trait SettingValue: Sized {
    /// What an error says was expected.
    const EXPECTED: &'static str;

    /// Reads it from a flag or an environment variable.
    fn from_text(text: &str) -> Option<Self>;

    /// Reads it from a TOML file, where most values are strings.
    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    /// Writes it as `sexton config` shows it.
    fn to_json(&self) -> serde_json::Value;
}

/// A store's URL: `SCHEME:PATH`. Which schemes there are is the registry's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl(pub String);

impl SettingValue for StoreUrl {
    const EXPECTED: &'static str = "a store URL such as `sqlite:PATH` or `json:PATH`";

    fn from_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| StoreUrl(text.to_owned()))
    }

    fn to_json(&self) -> serde_json::Value {
        self.0.clone().into()
    }
}

impl SettingValue for PathBuf {
    const EXPECTED: &'static str = "an absolute path";

    fn from_text(text: &str) -> Option<Self> {
        Some(PathBuf::from(text)).filter(|path| path.is_absolute())
    }

    fn to_json(&self) -> serde_json::Value {
        self.display().to_string().into()
    }
}

impl SettingValue for String {
    const EXPECTED: &'static str = "a word";

    fn from_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn to_json(&self) -> serde_json::Value {
        self.clone().into()
    }
}

impl SettingValue for usize {
    const EXPECTED: &'static str = "a whole number";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_integer().and_then(|number| usize::try_from(number).ok())
    }

    fn to_json(&self) -> serde_json::Value {
        (*self).into()
    }
}

impl SettingValue for Durability {
    const EXPECTED: &'static str = "`power` or `process`";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "power" => Some(Durability::Power),
            "process" => Some(Durability::Process),
            _ => None,
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Durability::Power => "power",
            Durability::Process => "process",
        }
        .into()
    }
}
