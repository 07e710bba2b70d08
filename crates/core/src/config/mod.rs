//! The configuration: every setting is declared once and resolved in one place for every caller.
//!
//! Layers, each overriding the previous one: defaults, the user's file, the repository's `.sexton.toml`, the
//! environment, flags. The caller reads them; here they are text and values.

mod layers;
mod settings;
mod value;

pub use layers::{ConfigError, FileLayer, ForeignLayer, IgnoredKey, Layers, Origin, RepoLayer, Setting};
pub use settings::{Config, SettingInfo, ShownSetting};
pub use value::{
    ByteSize, Containment, OrAuto, OrOff, Secret, SettingValue, StoreUrl, Switch, TextList, Uncommitted,
};
