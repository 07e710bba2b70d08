//! The registry of backends. A backend crate submits a plugin; the program picks one at run time.
//!
//! Architecture invariant: nothing here names a backend. The linked crates decide which backends exist, and
//! only `crates/cli/src/backends.rs` decides what is linked.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::resume::Dialect;
use crate::store::{Access, Durability};
use crate::worktree::WorktreeOptions;
use crate::{ProbeError, ProcessProbe, Store, StoreError, WorktreeCleaner, WorktreeError};

pub use inventory;

/// A kind of store, chosen by the scheme of a URL.
pub struct StorePlugin {
    /// The scheme: `sqlite` in `sqlite:PATH`.
    pub name: &'static str,
    /// One line for `sexton backends`.
    pub summary: &'static str,
    /// The dialect of its stores, known before one is opened: that of [`Store::dialect`].
    pub dialect: &'static Dialect,
    /// Opens the store at a path.
    pub open: fn(&StoreOptions) -> Result<Box<dyn Store>, StoreError>,
}

/// How and where to open a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// What follows the scheme.
    pub path: PathBuf,
    /// For reading or for writing.
    pub access: Access,
    /// What a commit must survive.
    pub durability: Durability,
    /// Where the user's trust in files of repositories is recorded, for stores that read such a file. Without
    /// it, nothing is trusted.
    pub trust_dir: Option<PathBuf>,
}

impl StoreOptions {
    /// Creates options for the store at `path` that trust no file of a repository.
    pub fn new(path: impl Into<PathBuf>, access: Access, durability: Durability) -> StoreOptions {
        StoreOptions { path: path.into(), access, durability, trust_dir: None }
    }
}

/// A kind of process probe, chosen by name or by strength.
pub struct ProbePlugin {
    /// Its name.
    pub name: &'static str,
    /// One line for `sexton backends`.
    pub summary: &'static str,
    /// Among those that work here, `auto` takes the strongest.
    pub strength: u8,
    /// Opens it, or returns why it does not work here.
    pub open: fn() -> Result<Box<dyn ProcessProbe>, ProbeError>,
}

/// A kind of worktree cleaner, chosen by name or by strength.
pub struct WorktreePlugin {
    /// Its name.
    pub name: &'static str,
    /// One line for `sexton backends`.
    pub summary: &'static str,
    /// `auto` takes the strongest.
    pub strength: u8,
    /// Opens it, or returns why it does not work here.
    pub open: fn(&WorktreeOptions) -> Result<Box<dyn WorktreeCleaner>, WorktreeError>,
}

inventory::collect!(StorePlugin);
inventory::collect!(ProbePlugin);
inventory::collect!(WorktreePlugin);

/// The name that means "the strongest that works here".
pub const AUTO: &str = "auto";

/// Why no backend could be chosen.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// Two linked backends have the same name.
    #[error("two {kind} backends are called `{name}`")]
    Duplicate {
        /// `store`, `probe` or `worktree`.
        kind: &'static str,
        /// The name.
        name: &'static str,
    },
    /// No linked backend has that name.
    #[error("there is no {kind} backend `{}` (linked in: {})", .name.escape_debug(), list(.known))]
    Unknown {
        /// `store`, `probe` or `worktree`.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The names of the linked backends.
        known: Vec<&'static str>,
    },
    /// A store's URL without a scheme.
    #[error("`{}` is not a store URL: write SCHEME:PATH (linked in: {})", .url.escape_debug(), list(.known))]
    NotAUrl {
        /// What was given.
        url: String,
        /// The schemes of the linked backends.
        known: Vec<&'static str>,
    },
    /// None of the linked probes works on this machine.
    #[error("no process probe works here ({})", .tried.join("; "))]
    NoProbe {
        /// Why each one failed.
        tried: Vec<String>,
    },
    /// The requested probe does not work here.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The worktree cleaner does not work here.
    #[error(transparent)]
    Worktree(#[from] Box<WorktreeError>),
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The backends that are linked into this program, each kind sorted by name.
pub struct Registry {
    /// The stores.
    pub stores: Vec<&'static StorePlugin>,
    /// The probes.
    pub probes: Vec<&'static ProbePlugin>,
    /// The worktree cleaners.
    pub worktrees: Vec<&'static WorktreePlugin>,
}

impl Registry {
    /// Collects the linked backends. Two with the same name are an error, because the choice would be
    /// arbitrary.
    pub fn linked() -> Result<Registry, PluginError> {
        let mut registry = Registry {
            stores: inventory::iter::<StorePlugin>.into_iter().collect(),
            probes: inventory::iter::<ProbePlugin>.into_iter().collect(),
            worktrees: inventory::iter::<WorktreePlugin>.into_iter().collect(),
        };
        registry.stores.sort_by_key(|plugin| plugin.name);
        registry.probes.sort_by_key(|plugin| plugin.name);
        registry.worktrees.sort_by_key(|plugin| plugin.name);
        require_unique("store", registry.stores.iter().map(|plugin| plugin.name))?;
        require_unique("probe", registry.probes.iter().map(|plugin| plugin.name))?;
        require_unique("worktree", registry.worktrees.iter().map(|plugin| plugin.name))?;
        Ok(registry)
    }

    /// Returns the plugin and the path that a store URL names.
    pub fn require_store(&self, url: &str) -> Result<(&'static StorePlugin, PathBuf), PluginError> {
        let known = || self.stores.iter().map(|plugin| plugin.name).collect();
        let Some((scheme, path)) = url.split_once(':').filter(|(_, path)| !path.is_empty()) else {
            return Err(PluginError::NotAUrl { url: url.to_owned(), known: known() });
        };
        let plugin = self
            .stores
            .iter()
            .find(|plugin| plugin.name == scheme)
            .ok_or_else(|| PluginError::Unknown { kind: "store", name: scheme.to_owned(), known: known() })?;
        Ok((plugin, PathBuf::from(path)))
    }

    /// Opens the probe called `name`, or with [`AUTO`] the strongest that works here.
    ///
    /// A probe that cannot work here is skipped. A probe that works here but failed just now is an error: a
    /// weaker one would take identities that prove less, without any notice.
    pub fn open_probe(&self, name: &str) -> Result<Box<dyn ProcessProbe>, PluginError> {
        if name != AUTO {
            let plugin = self.probes.iter().find(|plugin| plugin.name == name).ok_or_else(|| {
                let known = self.probes.iter().map(|plugin| plugin.name).collect();
                PluginError::Unknown { kind: "probe", name: name.to_owned(), known }
            })?;
            return Ok((plugin.open)()?);
        }
        let mut by_strength = self.probes.clone();
        by_strength.sort_by_key(|plugin| std::cmp::Reverse(plugin.strength));
        let mut tried = Vec::new();
        for plugin in by_strength {
            match (plugin.open)() {
                Ok(probe) => return Ok(probe),
                Err(error @ ProbeError::Unsupported { .. }) => tried.push(error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        Err(PluginError::NoProbe { tried })
    }

    /// Opens the worktree cleaner called `name`, or with [`AUTO`] the strongest; returns `None` if the program was
    /// built without one. A cleaner that fails is an error: a weaker one could save less.
    pub fn open_cleaner(
        &self,
        name: &str,
        options: &WorktreeOptions,
    ) -> Result<Option<Box<dyn WorktreeCleaner>>, PluginError> {
        let plugin = match name {
            AUTO => self.worktrees.iter().max_by_key(|plugin| plugin.strength),
            name => Some(self.worktrees.iter().find(|plugin| plugin.name == name).ok_or_else(|| {
                let known = self.worktrees.iter().map(|plugin| plugin.name).collect();
                PluginError::Unknown { kind: "worktree", name: name.to_owned(), known }
            })?),
        };
        Ok(plugin.map(|plugin| (plugin.open)(options)).transpose().map_err(Box::new)?)
    }
}

fn require_unique(kind: &'static str, names: impl Iterator<Item = &'static str>) -> Result<(), PluginError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(PluginError::Duplicate { kind, name });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(options: &StoreOptions) -> Result<Box<dyn Store>, StoreError> {
        Err(StoreError::ReadOnly { path: options.path.clone() })
    }

    static ONE: StorePlugin =
        StorePlugin { name: "one", summary: "", dialect: &Dialect::SEXTON, open: refuse };
    static TWO: StorePlugin =
        StorePlugin { name: "two", summary: "", dialect: &Dialect::SEXTON, open: refuse };

    fn registry() -> Registry {
        Registry { stores: vec![&ONE, &TWO], probes: Vec::new(), worktrees: Vec::new() }
    }

    #[test]
    fn url_selects_store_and_may_contain_colons() {
        let registry = registry();
        let (plugin, path) = registry.require_store("two:/a:b").ok().unwrap();
        assert_eq!((plugin.name, path), ("two", PathBuf::from("/a:b")));
    }

    #[test]
    fn unknown_store_error_lists_linked_ones() {
        let message = |url| registry().require_store(url).err().unwrap().to_string();
        assert_eq!(message("three:x"), "there is no store backend `three` (linked in: one, two)");
        assert_eq!(message("plain"), "`plain` is not a store URL: write SCHEME:PATH (linked in: one, two)");
        assert_eq!(message("one:"), "`one:` is not a store URL: write SCHEME:PATH (linked in: one, two)");
    }

    #[test]
    fn duplicate_backend_name_is_an_error() {
        let error = require_unique("store", ["a", "b", "a"].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "two store backends are called `a`");
    }

    fn fail_just_now() -> Result<Box<dyn ProcessProbe>, ProbeError> {
        let source = std::io::Error::other("too many open files");
        Err(ProbeError::Io { action: "cannot read /proc".to_owned(), source })
    }

    fn cannot_work_here() -> Result<Box<dyn ProcessProbe>, ProbeError> {
        Err(ProbeError::Unsupported { probe: "none", why: "nothing works".to_owned() })
    }

    #[test]
    fn i2_failed_probe_is_not_replaced_by_a_weaker_one() {
        static STRONG: ProbePlugin =
            ProbePlugin { name: "strong", summary: "", strength: 2, open: fail_just_now };
        static WEAK: ProbePlugin =
            ProbePlugin { name: "weak", summary: "", strength: 1, open: cannot_work_here };
        let opened = |probes| Registry { probes, ..registry() }.open_probe(AUTO).err().unwrap();
        assert!(matches!(opened(vec![&STRONG, &WEAK]), PluginError::Probe(ProbeError::Io { .. })));
        assert!(matches!(opened(vec![&WEAK]), PluginError::NoProbe { .. }));
    }

    fn refuse_worktrees(_: &WorktreeOptions) -> Result<Box<dyn WorktreeCleaner>, WorktreeError> {
        Err(WorktreeError::NoRepository { path: PathBuf::from("/none"), why: "it is missing".to_owned() })
    }

    #[test]
    fn cleaner_is_chosen_by_name_and_its_error_is_reported() {
        static GIT: WorktreePlugin =
            WorktreePlugin { name: "git", summary: "", strength: 1, open: refuse_worktrees };
        let options = WorktreeOptions { rescue_ignored: true, host: None };
        let opened = |worktrees, name| Registry { worktrees, ..registry() }.open_cleaner(name, &options);
        assert!(opened(Vec::new(), AUTO).unwrap().is_none());
        for name in [AUTO, "git"] {
            assert!(matches!(opened(vec![&GIT], name), Err(PluginError::Worktree(_))), "{name}");
        }
        let unknown = opened(vec![&GIT], "jj").err().unwrap().to_string();
        assert_eq!(unknown, "there is no worktree backend `jj` (linked in: git)");
    }

    #[test]
    fn error_without_working_probe_lists_reasons() {
        assert_eq!(registry().open_probe(AUTO).err().unwrap().to_string(), "no process probe works here ()");
    }
}
