//! Resolution of layers into settings: files are flattened to dotted keys, unknown keys are errors, and an
//! untrusted repository may set only what has no effect outside of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::settings::SettingInfo;
use super::value::SettingValue;

/// All layers, as the caller read them.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// The user's `config.toml`.
    pub user: Option<FileLayer>,
    /// The repository's configuration of another tool, translated to our settings.
    pub foreign: Option<ForeignLayer>,
    /// The repository's `.sexton.toml`.
    pub repo: Option<RepoLayer>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The given flags, by the key that they set: `("store.url", "--store", "json:/x")`.
    pub flags: Vec<(&'static str, &'static str, String)>,
    /// The default store: its scheme, and its file in the state directory.
    pub default_store: (&'static str, &'static str),
}

/// A configuration file.
#[derive(Clone, Debug)]
pub struct FileLayer {
    /// Where it is, for messages.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

/// A repository's configuration file.
#[derive(Clone, Debug)]
pub struct RepoLayer {
    /// The file.
    pub file: FileLayer,
    /// Whether the user trusted exactly this content with `sexton trust`.
    pub trusted: bool,
}

/// A repository's configuration of another tool, translated to our settings.
#[derive(Clone, Debug)]
pub struct ForeignLayer {
    /// Where it is, for messages.
    pub path: PathBuf,
    /// Whether the user trusted exactly this content with `sexton trust`.
    pub trusted: bool,
    /// Whether the configured store is that tool's own file in the same repository. Then its settings for the
    /// retention of those records apply without trust, since they affect nothing else.
    pub own_store: bool,
    /// The values that it sets, by our keys, in the form of a flag's value.
    pub values: Vec<(&'static str, String)>,
}

/// The settings that another tool's configuration may set for its own records.
const OF_OWN_STORE: [&str; 2] = ["retention.ttl", "recover.min_age"];

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Its origin.
    pub origin: Origin,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was not set.
    Default,
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Env(&'static str),
    /// A flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => path.display().fmt(f),
            Origin::Env(name) => write!(f, "${name}"),
            Origin::Flag(flag) => f.write_str(flag),
        }
    }
}

/// A key that an untrusted repository's file tried to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredKey {
    /// The file.
    pub path: PathBuf,
    /// The key.
    pub key: &'static str,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file is not TOML.
    #[error("{}: not valid TOML", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The position and the error.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// A file has an unknown key.
    #[error("{}: unknown key `{}`{}", .path.display(), .key.escape_debug(), suggestion(.nearest.as_ref()))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The key that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A value does not have its setting's type.
    #[error("{origin}: `{key}` is {value} but must be {expected}")]
    BadValue {
        /// Where it was given.
        origin: Origin,
        /// The setting.
        key: &'static str,
        /// The given value.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
    /// There is no home directory to keep state in.
    #[error("there is no directory for state: neither HOME nor XDG_STATE_HOME is an absolute path")]
    NoStateDir,
}

fn suggestion(nearest: Option<&&'static str>) -> String {
    nearest.map(|key| format!(" (did you mean `{key}`?)")).unwrap_or_default()
}

impl RepoLayer {
    fn may_set(&self, info: &SettingInfo) -> bool {
        self.trusted || !info.needs_trust()
    }
}

impl ForeignLayer {
    fn may_set(&self, info: &SettingInfo) -> bool {
        self.trusted || !info.needs_trust() || (self.own_store && OF_OWN_STORE.contains(&info.key))
    }

    fn texts(&self, key: &'static str) -> impl Iterator<Item = (&ForeignLayer, &str)> {
        let values = self.values.iter().filter(move |(set, _)| *set == key);
        values.map(move |(_, text)| (self, text.as_str()))
    }
}

type Values = BTreeMap<&'static str, toml::Value>;

pub(super) struct Resolver<'a> {
    layers: &'a Layers,
    known: &'static [SettingInfo],
    user: Values,
    repo: Values,
    ignored: RefCell<Vec<IgnoredKey>>,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(layers: &'a Layers, known: &'static [SettingInfo]) -> Result<Self, ConfigError> {
        let user = layers.user.as_ref().map(|file| flatten(file, known)).transpose()?;
        let repo = layers.repo.as_ref().map(|layer| flatten(&layer.file, known)).transpose()?;
        let (user, repo) = (user.unwrap_or_default(), repo.unwrap_or_default());
        Ok(Resolver { layers, known, user, repo, ignored: RefCell::default() })
    }

    /// Returns the value of the strongest layer for `key`. Weaker layers are parsed too, so that an error in a
    /// file is found even while a flag overrides it.
    pub(super) fn resolve<T: SettingValue>(
        &self,
        key: &'static str,
        default: impl FnOnce() -> Result<T, ConfigError>,
    ) -> Result<Setting<T>, ConfigError> {
        let info = self.require_info(key);
        let user = self.find_by_user_file(info)?;
        let repository = self.find_by_repository(info)?;
        let found = self.find_by_caller(info)?.or(repository).or(user);
        found.map_or_else(|| Ok(Setting { value: default()?, origin: Origin::Default }), Ok)
    }

    /// Does the same, but ignores the repository, trusted or not.
    pub(super) fn resolve_by_user<T: SettingValue>(
        &self,
        key: &'static str,
        default: impl FnOnce() -> Result<T, ConfigError>,
    ) -> Result<Setting<T>, ConfigError> {
        let info = self.require_info(key);
        let user = self.find_by_user_file(info)?;
        let found = self.find_by_caller(info)?.or(user);
        found.map_or_else(|| Ok(Setting { value: default()?, origin: Origin::Default }), Ok)
    }

    fn require_info(&self, key: &'static str) -> &'static SettingInfo {
        self.known.iter().find(|info| info.key == key).expect("the key is declared")
    }

    fn find_by_user_file<T: SettingValue>(
        &self,
        info: &SettingInfo,
    ) -> Result<Option<Setting<T>>, ConfigError> {
        let found = self.layers.user.as_ref().zip(self.user.get(info.key));
        found.map(|(file, value)| read_file_value(info, file, value)).transpose()
    }

    /// Returns the value from the repository's files if they may set it. Otherwise it is noted and not even
    /// parsed.
    fn find_by_repository<T: SettingValue>(
        &self,
        info: &SettingInfo,
    ) -> Result<Option<Setting<T>>, ConfigError> {
        let mut found = None;
        for (layer, text) in self.layers.foreign.iter().flat_map(|layer| layer.texts(info.key)) {
            if layer.may_set(info) {
                found = Some(read_text(info, Origin::File(layer.path.clone()), text)?);
            } else {
                self.ignore(&layer.path, info);
            }
        }
        if let Some((repo, value)) = self.layers.repo.as_ref().zip(self.repo.get(info.key)) {
            if repo.may_set(info) {
                found = Some(read_file_value(info, &repo.file, value)?);
            } else {
                self.ignore(&repo.file.path, info);
            }
        }
        Ok(found)
    }

    fn find_by_caller<T: SettingValue>(&self, info: &SettingInfo) -> Result<Option<Setting<T>>, ConfigError> {
        let mut found = None;
        if let Some((name, text)) = info.env.and_then(|name| Some((name, self.layers.env.get(name)?)))
            && !text.is_empty()
        {
            found = Some(read_text(info, Origin::Env(name), text)?);
        }
        for (_, flag, text) in self.layers.flags.iter().filter(|(flagged, ..)| *flagged == info.key) {
            found = Some(read_text(info, Origin::Flag(flag), text)?);
        }
        Ok(found)
    }

    fn ignore(&self, path: &Path, info: &SettingInfo) {
        self.ignored.borrow_mut().push(IgnoredKey { path: path.to_owned(), key: info.key });
    }

    pub(super) fn into_ignored(self) -> Vec<IgnoredKey> {
        self.ignored.into_inner()
    }
}

fn read_text<T: SettingValue>(
    info: &SettingInfo,
    origin: Origin,
    text: &str,
) -> Result<Setting<T>, ConfigError> {
    match T::from_text(text) {
        Some(value) => Ok(Setting { value, origin }),
        None => Err(bad_value::<T>(info, origin, format!("`{}`", text.escape_debug()))),
    }
}

fn read_file_value<T: SettingValue>(
    info: &SettingInfo,
    file: &FileLayer,
    value: &toml::Value,
) -> Result<Setting<T>, ConfigError> {
    let origin = Origin::File(file.path.clone());
    match T::from_toml(value) {
        Some(value) => Ok(Setting { value, origin }),
        None => Err(bad_value::<T>(info, origin, format!("`{value}`"))),
    }
}

fn bad_value<T: SettingValue>(info: &SettingInfo, origin: Origin, value: String) -> ConfigError {
    let value = if T::SECRET { "invalid".to_owned() } else { value };
    ConfigError::BadValue { origin, key: info.key, value, expected: T::EXPECTED }
}

/// Returns a file's values by their dotted keys. Descends into tables that are not keys themselves.
fn flatten(file: &FileLayer, known: &'static [SettingInfo]) -> Result<Values, ConfigError> {
    let table: toml::Table = file
        .text
        .parse()
        .map_err(|source| ConfigError::Syntax { path: file.path.clone(), source: Box::new(source) })?;
    let mut values = Values::new();
    let mut pending: Vec<_> = table.into_iter().collect();
    while let Some((key, value)) = pending.pop() {
        if let Some(info) = known.iter().find(|info| info.key == key) {
            values.insert(info.key, value);
            continue;
        }
        let section = format!("{key}.");
        match value {
            toml::Value::Table(inner) if known.iter().any(|info| info.key.starts_with(&section)) => {
                pending.extend(inner.into_iter().map(|(name, value)| (format!("{section}{name}"), value)));
            }
            _ => {
                let nearest = nearest_key(&key, known);
                return Err(ConfigError::UnknownKey { path: file.path.clone(), key, nearest });
            }
        }
    }
    Ok(values)
}

/// How similar two keys must be for one to be suggested for the other.
const LIKENESS: f64 = 0.5;

fn nearest_key(key: &str, known: &'static [SettingInfo]) -> Option<&'static str> {
    let likeness = |info: &SettingInfo| {
        // Users omit the section: `durability` means `store.durability`.
        let last = info.key.rsplit('.').next().unwrap_or(info.key);
        strsim::normalized_levenshtein(key, info.key).max(strsim::normalized_levenshtein(key, last))
    };
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= LIKENESS).then_some(best.key)
}
