//! The types of settings, and their conversion from and to text and TOML.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration::{format_duration, parse_duration};
use crate::store::Durability;

/// A value that can be written in a file, in the environment and as a flag.
pub trait SettingValue: Sized {
    /// What an error names as expected.
    const EXPECTED: &'static str;

    /// Whether it must not be printed, not even in an error.
    const SECRET: bool = false;

    /// Parses it from a flag or an environment variable.
    fn from_text(text: &str) -> Option<Self>;

    /// Parses it from a TOML file, in which most values are strings.
    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_str().and_then(Self::from_text)
    }

    /// Converts it to the form that `sexton config` prints.
    fn to_json(&self) -> serde_json::Value;
}

/// A store's URL: `SCHEME:PATH`. The registry knows the schemes.
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
    const EXPECTED: &'static str = "a non-empty string";

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

impl SettingValue for Duration {
    const EXPECTED: &'static str = "a duration such as `250ms`, `5s`, `30m`, `12h` or `7d`";

    fn from_text(text: &str) -> Option<Self> {
        parse_duration(text).ok()
    }

    fn to_json(&self) -> serde_json::Value {
        format_duration(*self).into()
    }
}

/// A setting that can be switched off: `off`, or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrOff<T>(pub Option<T>);

impl SettingValue for OrOff<ByteSize> {
    const EXPECTED: &'static str = "`off`, or a size such as `64MiB`";

    fn from_text(text: &str) -> Option<Self> {
        if text == "off" {
            Some(OrOff(None))
        } else {
            ByteSize::from_text(text).map(|size| OrOff(Some(size)))
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.0.map_or_else(|| "off".into(), |size| size.to_json())
    }
}

impl SettingValue for OrOff<String> {
    const EXPECTED: &'static str = "`off`, or a command";

    fn from_text(text: &str) -> Option<Self> {
        if text == "off" { Some(OrOff(None)) } else { String::from_text(text).map(|text| OrOff(Some(text))) }
    }

    fn to_json(&self) -> serde_json::Value {
        self.0.clone().unwrap_or_else(|| "off".to_owned()).into()
    }
}

impl SettingValue for OrOff<Duration> {
    const EXPECTED: &'static str = "`off`, or a duration such as `90d`";

    fn from_text(text: &str) -> Option<Self> {
        if text == "off" {
            Some(OrOff(None))
        } else {
            Duration::from_text(text).map(|span| OrOff(Some(span)))
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.0.map_or_else(|| "off".into(), |span| span.to_json())
    }
}

/// A value that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The shortest secret: a shorter one could be guessed.
const MIN_SECRET: usize = 16;

impl Secret {
    /// Returns the value, for a comparison.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl SettingValue for OrOff<Secret> {
    const EXPECTED: &'static str = "`off`, or at least 16 characters without blanks";
    const SECRET: bool = true;

    fn from_text(text: &str) -> Option<Self> {
        if text == "off" {
            return Some(OrOff(None));
        }
        let usable = text.len() >= MIN_SECRET && text.bytes().all(|byte| byte.is_ascii_graphic());
        usable.then(|| OrOff(Some(Secret(text.to_owned()))))
    }

    fn to_json(&self) -> serde_json::Value {
        if self.0.is_some() { "set".into() } else { "off".into() }
    }
}

/// A list of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextList(pub Vec<String>);

impl SettingValue for TextList {
    const EXPECTED: &'static str = "a list of strings such as `[\"cargo *\"]`";

    fn from_text(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| TextList(vec![text.to_owned()]))
    }

    fn from_toml(value: &toml::Value) -> Option<Self> {
        let texts = value.as_array()?.iter().map(|one| one.as_str().map(str::to_owned));
        texts.collect::<Option<Vec<_>>>().map(TextList)
    }

    fn to_json(&self) -> serde_json::Value {
        self.0.clone().into()
    }
}

/// A value that is determined automatically unless it is set: `auto`, or the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrAuto<T>(pub Option<T>);

impl SettingValue for OrAuto<PathBuf> {
    const EXPECTED: &'static str = "`auto`, or an absolute path";

    fn from_text(text: &str) -> Option<Self> {
        if text == "auto" {
            Some(OrAuto(None))
        } else {
            PathBuf::from_text(text).map(|path| OrAuto(Some(path)))
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.0.as_ref().map_or_else(|| "auto".into(), SettingValue::to_json)
    }
}

impl SettingValue for OrAuto<String> {
    const EXPECTED: &'static str = "`auto`, or a string";

    fn from_text(text: &str) -> Option<Self> {
        if text == "auto" {
            Some(OrAuto(None))
        } else {
            String::from_text(text).map(|text| OrAuto(Some(text)))
        }
    }

    fn to_json(&self) -> serde_json::Value {
        self.0.clone().unwrap_or_else(|| "auto".to_owned()).into()
    }
}

/// `on` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

impl SettingValue for Switch {
    const EXPECTED: &'static str = "`on` or `off`";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "on" | "true" => Some(Switch(true)),
            "off" | "false" => Some(Switch(false)),
            _ => None,
        }
    }

    fn from_toml(value: &toml::Value) -> Option<Self> {
        value.as_bool().map(Switch).or_else(|| value.as_str().and_then(Self::from_text))
    }

    fn to_json(&self) -> serde_json::Value {
        if self.0 { "on".into() } else { "off".into() }
    }
}

/// A number of bytes, written with its unit: `512KiB`, `64MiB`, `2GiB`, or bare bytes as `4096B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

const BYTE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl SettingValue for ByteSize {
    const EXPECTED: &'static str = "a size such as `512KiB`, `64MiB` or `2GiB`";

    fn from_text(text: &str) -> Option<Self> {
        let (number, factor) =
            BYTE_UNITS.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
        let number: u64 = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
        number.checked_mul(factor).map(ByteSize)
    }

    fn to_json(&self) -> serde_json::Value {
        let fits = |factor: u64| self.0.is_multiple_of(factor);
        let (unit, factor) =
            BYTE_UNITS.into_iter().find(|(_, factor)| fits(*factor)).unwrap_or(BYTE_UNITS[3]);
        format!("{}{unit}", self.0 / factor).into()
    }
}

/// How a session's processes are contained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Containment {
    /// A control group if one can be created, otherwise a scope of the service manager if the user lingers,
    /// otherwise the tree.
    #[default]
    Auto,
    /// A control group; an error if none can be created.
    Cgroup,
    /// A transient scope of the service manager; an error if none is available.
    Systemd,
    /// Only cookie, limit mark and descent.
    Tree,
}

impl SettingValue for Containment {
    const EXPECTED: &'static str = "`auto`, `cgroup`, `systemd` or `tree`";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Containment::Auto),
            "cgroup" => Some(Containment::Cgroup),
            "systemd" => Some(Containment::Systemd),
            "tree" => Some(Containment::Tree),
            _ => None,
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Containment::Auto => "auto",
            Containment::Cgroup => "cgroup",
            Containment::Systemd => "systemd",
            Containment::Tree => "tree",
        }
        .into()
    }
}

/// What happens to changes that a successful agent left uncommitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncommitted {
    /// They are committed on its branch: the agent reported that it was done with them.
    Commit,
    /// They are rescued with its worktree.
    Rescue,
}

impl SettingValue for Uncommitted {
    const EXPECTED: &'static str = "`commit` or `rescue`";

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "commit" => Some(Uncommitted::Commit),
            "rescue" => Some(Uncommitted::Rescue),
            _ => None,
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Uncommitted::Commit => "commit",
            Uncommitted::Rescue => "rescue",
        }
        .into()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_accepts_toml_booleans() {
        for (value, on) in [(toml::Value::Boolean(true), true), (toml::Value::String("off".into()), false)] {
            assert_eq!(Switch::from_toml(&value), Some(Switch(on)));
        }
        assert_eq!(Switch::from_toml(&toml::Value::Integer(1)), None);
    }

    #[test]
    fn size_requires_a_unit_and_round_trips() {
        for (text, bytes) in [("64MiB", 64 << 20), ("512KiB", 512 << 10), ("2GiB", 2 << 30), ("100B", 100)] {
            assert_eq!(ByteSize::from_text(text), Some(ByteSize(bytes)));
            assert_eq!(ByteSize(bytes).to_json(), text);
        }
        for text in ["64", "MiB", "-1MiB", "1.5GiB", "64MB", "99999999999999GiB"] {
            assert_eq!(ByteSize::from_text(text), None, "{text}");
        }
    }
}
