//! The configuration: every setting declared once, resolved in one place for every caller.
//!
//! Layers, each over the one before: defaults, the user's file, the repository's `.sexton.toml`, the
//! environment, flags. Reading those is the caller's business; here they are text and values.

mod layers;
mod settings;
mod value;

pub use layers::{ConfigError, FileLayer, ForeignLayer, IgnoredKey, Layers, Origin, RepoLayer, Setting};
pub use settings::{Config, SettingInfo, ShownSetting};
pub use value::{
    ByteSize, Containment, OrAuto, OrOff, Secret, SettingValue, StoreUrl, Switch, TextList, Uncommitted,
};
