//! A configuration, and the backends that it chooses.

use std::path::{Path, PathBuf};

use sexton_core::config::{Config, Layers};
use sexton_core::plugin::{Registry, StoreOptions, StorePlugin};
use sexton_core::resume::Dialect;
use sexton_core::store::{Access, Durability, StoreInfo};
use sexton_core::worktree::WorktreeOptions;
use sexton_core::{OsText, ProcessProbe, Session, Store, StoreError, WorktreeCleaner};
use sexton_supervise::{PendingExits, StateDir, Supervision};

use crate::error::HouseError;
use crate::state_dir::{require_safe, require_state_dir};

/// A configuration, and the backends that it chooses. Opening one touches nothing; any number of threads
/// may use it.
pub struct House {
    /// The configuration.
    pub config: Config,
    registry: Registry,
}

impl House {
    /// The house that `config` describes, with the backends that are linked into this program.
    pub fn new(config: Config) -> Result<House, HouseError> {
        Ok(House { config, registry: Registry::linked()? })
    }

    /// The house in `state_dir`, with every setting at its default, for a program that has no configuration
    /// of its own. Its records are in the store `scheme`, in `file` there.
    pub fn at(state_dir: &Path, (scheme, file): (&'static str, &'static str)) -> Result<House, HouseError> {
        let absolute = std::path::absolute(state_dir)
            .map_err(HouseError::io(format!("{}: not a usable path", state_dir.display())))?;
        let state_dir = absolute.into_os_string().into_string().map_err(|path| {
            HouseError::BadRequest(format!("{}: a state directory's path must be UTF-8", path.display()))
        })?;
        let flags = vec![("state_dir", "the program", state_dir)];
        House::new(Config::resolve(&Layers { flags, default_store: (scheme, file), ..Layers::default() })?)
    }

    /// Opens the configured store for reading. One that is damaged is opened too: see
    /// [`Store::damage`].
    pub fn open_for_reading(&self) -> Result<Box<dyn Store>, HouseError> {
        require_safe(self.state_dir())?;
        self.open_store_as_it_is(Access::Read)
    }

    /// Opens the configured store for writing. A damaged one is refused here, before anything else is
    /// done that would have to be recorded.
    pub fn open_for_writing(&self) -> Result<Box<dyn Store>, HouseError> {
        Ok((self.writable_store()?)()?)
    }

    /// What opens the configured store for writing, when its time has come. Commits the exit files that
    /// wait for a writer.
    pub fn writable_store(
        &self,
    ) -> Result<impl FnOnce() -> Result<Box<dyn Store>, StoreError> + use<>, HouseError> {
        require_state_dir(self.state_dir())?;
        let (plugin, options) = self.store_options(&self.config.store_url.value.0, Access::Write)?;
        let exits = self.pending_exits();
        Ok(move || {
            let store = (plugin.open)(&options)?;
            let serious: Vec<_> = store.damage().into_iter().filter(|damage| !damage.harmless).collect();
            if !serious.is_empty() {
                return Err(StoreError::Damaged { path: store.describe().path, damage: serious });
            }
            exits.commit(store.as_ref())?;
            Ok(store)
        })
    }

    /// Opens the configured store, damaged or not.
    pub fn open_store_as_it_is(&self, access: Access) -> Result<Box<dyn Store>, HouseError> {
        self.open_url(&self.config.store_url.value.0, access)
    }

    /// How the configured store speaks of loops, without opening it.
    pub fn dialect(&self) -> Result<&'static Dialect, HouseError> {
        let (plugin, _) = self.registry.require_store(&self.config.store_url.value.0)?;
        Ok(plugin.dialect)
    }

    /// Opens the store that `url` names.
    pub fn open_url(&self, url: &str, access: Access) -> Result<Box<dyn Store>, HouseError> {
        let (plugin, options) = self.store_options(url, access)?;
        Ok((plugin.open)(&options)?)
    }

    /// The configured store's URL with an absolute path, for processes that work elsewhere.
    pub fn absolute_store_url(&self) -> Result<String, HouseError> {
        let (plugin, options) = self.store_options(&self.config.store_url.value.0, Access::Read)?;
        let path = options.path.to_str().ok_or_else(|| {
            HouseError::BadRequest(format!("{}: a store's path must be UTF-8", options.path.display()))
        })?;
        Ok(format!("{}:{path}", plugin.name))
    }

    fn store_options(
        &self,
        url: &str,
        access: Access,
    ) -> Result<(&'static StorePlugin, StoreOptions), HouseError> {
        let (plugin, path) = self.registry.require_store(url)?;
        let path = std::path::absolute(&path).map_err(|error| {
            HouseError::BadRequest(format!("{}: not a usable path: {error}", path.display()))
        })?;
        Ok((plugin, StoreOptions { path, access, durability: self.config.durability.value }))
    }

    /// Opens the configured probe.
    pub fn open_probe(&self) -> Result<Box<dyn ProcessProbe>, HouseError> {
        Ok(self.registry.open_probe(&self.config.probe.value)?)
    }

    /// Opens the worktree cleaner; `None` in a build without one.
    pub fn find_cleaner(&self) -> Option<Box<dyn WorktreeCleaner>> {
        let options = WorktreeOptions { rescue_ignored: self.config.rescue_ignored.value.0 };
        self.registry.open_cleaner(&options).ok()
    }

    /// Opens the worktree cleaner, for what makes no sense without one.
    pub fn require_cleaner(&self) -> Result<Box<dyn WorktreeCleaner>, HouseError> {
        self.find_cleaner().ok_or(HouseError::NoCleaner)
    }

    /// The state directory, as recovery needs it.
    pub fn premises(&self) -> Result<StateDir, HouseError> {
        let config = &self.config;
        let yard = config.worktree_root.value.0.clone();
        let supervision = Supervision {
            store_url: self.absolute_store_url()?,
            power_safe: config.durability.value == Durability::Power,
            probe: config.probe.value.clone(),
            owner_grace: config.owner_grace.value,
            stop_grace: config.stop_grace.value,
            log_max_bytes: config.log_max_bytes.value.0.map(|size| size.0),
            notify: config.notify_command.value.0.clone().map(OsText::from),
        };
        Ok(StateDir::new(self.state_dir(), config.backup_keep.value, yard).supervising(supervision))
    }

    /// Ends that wait for a writer.
    pub fn pending_exits(&self) -> PendingExits {
        PendingExits::of(self.state_dir())
    }

    /// The session called `name`, as it stands, with an end that waits in an exit file.
    pub async fn find_session(&self, name: &str) -> Result<Session, HouseError> {
        let store = self.open_for_reading()?;
        let mut session = sexton_core::session::find_session(store.as_ref(), name).await?;
        crate::overlay_exits(&self.pending_exits(), [&mut session])?;
        Ok(session)
    }

    /// The state directory.
    pub fn state_dir(&self) -> &Path {
        &self.config.state_dir.value
    }

    /// Where this state directory keeps the backups of a store.
    pub fn backup_dir(&self, store: &StoreInfo) -> PathBuf {
        sexton_supervise::backup_dir(self.state_dir(), store)
    }
}
