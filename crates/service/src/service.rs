//! A configuration and the backends that it selects.

use std::path::{Path, PathBuf};

use sexton_core::config::{Config, Layers};
use sexton_core::plugin::{Registry, StoreOptions, StorePlugin};
use sexton_core::resume::Dialect;
use sexton_core::store::{Access, Durability, StoreInfo};
use sexton_core::worktree::WorktreeOptions;
use sexton_core::{OsText, ProcessProbe, Session, Store, StoreError, WorktreeCleaner};
use sexton_supervise::{PendingExits, StateDir, Supervision};

use crate::error::ServiceError;
use crate::state_dir::{require_safe, require_state_dir};

/// A configuration and the backends that it selects. Creating one opens nothing; any number of threads may
/// use it.
pub struct Service {
    /// The configuration.
    pub config: Config,
    registry: Registry,
}

impl Service {
    /// Creates the service that `config` describes, with the backends that are linked into this program.
    pub fn new(config: Config) -> Result<Service, ServiceError> {
        Ok(Service { config, registry: Registry::linked()? })
    }

    /// Creates the service in `state_dir` with default settings, for a program without a configuration of its
    /// own. Its records are in a store of the kind `scheme`, in `file` in that directory.
    pub fn at(
        state_dir: &Path,
        (scheme, file): (&'static str, &'static str),
    ) -> Result<Service, ServiceError> {
        let absolute = std::path::absolute(state_dir)
            .map_err(ServiceError::io(format!("{}: not a usable path", state_dir.display())))?;
        let state_dir = absolute.into_os_string().into_string().map_err(|path| {
            ServiceError::BadRequest(format!("{}: a state directory's path must be UTF-8", path.display()))
        })?;
        let flags = vec![("state_dir", "the program", state_dir)];
        Service::new(Config::resolve(&Layers { flags, default_store: (scheme, file), ..Layers::default() })?)
    }

    /// Opens the configured store for reading. A damaged one is opened too: see [`Store::damage`].
    pub fn open_for_reading(&self) -> Result<Box<dyn Store>, ServiceError> {
        require_safe(self.state_dir())?;
        self.open_store_as_it_is(Access::Read)
    }

    /// Opens the configured store for writing. Refuses a damaged one, before anything is done that would have
    /// to be recorded.
    pub fn open_for_writing(&self) -> Result<Box<dyn Store>, ServiceError> {
        Ok((self.writable_store()?)()?)
    }

    /// Returns a function that opens the configured store for writing later. It also commits pending exit
    /// files.
    pub fn writable_store(
        &self,
    ) -> Result<impl FnOnce() -> Result<Box<dyn Store>, StoreError> + use<>, ServiceError> {
        require_state_dir(self.state_dir())?;
        let (plugin, options) = self.store_options(&self.config.store_url.value.0, Access::Write)?;
        let (exits, probe) = (self.pending_exits(), self.config.probe.value.clone());
        Ok(move || {
            let store = (plugin.open)(&options)?;
            let serious: Vec<_> = store.damage().into_iter().filter(|damage| !damage.harmless).collect();
            if !serious.is_empty() {
                return Err(StoreError::Damaged { path: store.describe().path, damage: serious });
            }
            commit_exits(&exits, &probe, store.as_ref())?;
            Ok(store)
        })
    }

    /// Opens the configured store, damaged or not.
    pub fn open_store_as_it_is(&self, access: Access) -> Result<Box<dyn Store>, ServiceError> {
        self.open_url(&self.config.store_url.value.0, access)
    }

    /// Returns the loop dialect of the configured store, without opening it.
    pub fn dialect(&self) -> Result<&'static Dialect, ServiceError> {
        let (plugin, _) = self.registry.require_store(&self.config.store_url.value.0)?;
        Ok(plugin.dialect)
    }

    /// Opens the store at `url`.
    pub fn open_url(&self, url: &str, access: Access) -> Result<Box<dyn Store>, ServiceError> {
        let (plugin, options) = self.store_options(url, access)?;
        Ok((plugin.open)(&options)?)
    }

    /// Returns the configured store's URL with an absolute path, for processes in other directories.
    pub fn absolute_store_url(&self) -> Result<String, ServiceError> {
        let (plugin, options) = self.store_options(&self.config.store_url.value.0, Access::Read)?;
        let path = options.path.to_str().ok_or_else(|| {
            ServiceError::BadRequest(format!("{}: a store's path must be UTF-8", options.path.display()))
        })?;
        Ok(format!("{}:{path}", plugin.name))
    }

    fn store_options(
        &self,
        url: &str,
        access: Access,
    ) -> Result<(&'static StorePlugin, StoreOptions), ServiceError> {
        let (plugin, path) = self.registry.require_store(url)?;
        let path = std::path::absolute(&path).map_err(|error| {
            ServiceError::BadRequest(format!("{}: not a usable path: {error}", path.display()))
        })?;
        let durability = self.config.durability.value;
        let trust_dir = Some(self.config.trust_dir.clone());
        Ok((plugin, StoreOptions { path, access, durability, trust_dir }))
    }

    /// Opens the configured probe.
    pub fn open_probe(&self) -> Result<Box<dyn ProcessProbe>, ServiceError> {
        Ok(self.registry.open_probe(&self.config.probe.value)?)
    }

    /// Opens the configured worktree cleaner; returns `None` in a build without one.
    pub fn find_cleaner(&self) -> Result<Option<Box<dyn WorktreeCleaner>>, ServiceError> {
        let options =
            WorktreeOptions { rescue_ignored: self.config.rescue_ignored.value.0, host: Some(self.host()) };
        Ok(self.registry.open_cleaner(&self.config.worktree_cleaner.value, &options)?)
    }

    /// Opens the worktree cleaner, for operations that need one.
    pub fn require_cleaner(&self) -> Result<Box<dyn WorktreeCleaner>, ServiceError> {
        self.find_cleaner()?.ok_or(ServiceError::NoCleaner)
    }

    /// Returns the state directory, as recovery needs it.
    pub fn state_files(&self) -> Result<StateDir, ServiceError> {
        let config = &self.config;
        let worktree_root = config.worktree_root.value.0.clone();
        let supervision = Supervision {
            store_url: self.absolute_store_url()?,
            power_safe: config.durability.value == Durability::Power,
            probe: config.probe.value.clone(),
            owner_grace: config.owner_grace.value,
            stop_grace: config.stop_grace.value,
            log_max_bytes: config.log_max_bytes.value.0.map(|size| size.0),
            notify: config.notify_command.value.0.clone().map(OsText::from),
        };
        Ok(StateDir::new(self.state_dir(), config.backup_keep.value, worktree_root).supervising(supervision))
    }

    /// Commits pending exit files to `store`.
    pub fn commit_exits(&self, store: &dyn Store) -> Result<(), ServiceError> {
        Ok(commit_exits(&self.pending_exits(), &self.config.probe.value, store)?)
    }

    /// Returns the exit files that are not committed yet.
    pub fn pending_exits(&self) -> PendingExits {
        PendingExits::of(self.state_dir())
    }

    /// Returns the session called `name`, including an end from an exit file.
    pub async fn find_session(&self, name: &str) -> Result<Session, ServiceError> {
        let store = self.open_for_reading()?;
        let mut session = sexton_core::session::find_session(store.as_ref(), name).await?;
        self.overlay_exits([&mut session]).await?;
        Ok(session)
    }

    /// Returns the state directory.
    pub fn state_dir(&self) -> &Path {
        &self.config.state_dir.value
    }

    /// Returns where this state directory keeps the backups of a store.
    pub fn backup_dir(&self, store: &StoreInfo) -> PathBuf {
        sexton_supervise::backup_dir(self.state_dir(), store)
    }
}

/// Commits the exit files. If no probe can tell whether their commands are alive, they stay pending.
fn commit_exits(exits: &PendingExits, probe: &str, store: &dyn Store) -> Result<(), StoreError> {
    if exits.list().is_ok_and(|waiting| waiting.is_empty()) {
        return Ok(());
    }
    let Ok(probe) = Registry::linked().and_then(|registry| registry.open_probe(probe)) else { return Ok(()) };
    exits.commit(store, probe.as_ref()).map(drop)
}
