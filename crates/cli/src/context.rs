//! What a command works with: the configuration, the backends, the screen and the time.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use sexton_core::config::Config;
use sexton_core::plugin::{Registry, StoreOptions, StorePlugin};
use sexton_core::store::{Access, Durability};
use sexton_core::worktree::WorktreeOptions;
use sexton_core::{OsText, ProcessProbe, Store, StoreError, Time, WorktreeCleaner};
use sexton_supervise::{PendingExits, StateDir, Supervision};

use crate::args::GlobalArgs;
use crate::failure::Failure;
use crate::layers::{Loaded, load_layers};
use crate::screen::Screen;
use crate::state_dir::{require_safe, require_state_dir};

/// What a command works with.
pub struct Context<'a> {
    /// The configuration.
    pub config: Config,
    /// Where it prints.
    pub screen: &'a mut Screen,
    /// The time at which the command began.
    pub now: Time,
    registry: Registry,
    trust_dir: PathBuf,
}

impl<'a> Context<'a> {
    /// Reads the configuration. Says what an untrusted repository wanted and did not get.
    pub fn load(global: &GlobalArgs, screen: &'a mut Screen) -> Result<Context<'a>, Failure> {
        let registry = Registry::linked()?;
        let Loaded { layers, trust_dir } = load_layers(global)?;
        let config = Config::resolve(&layers)?;
        for ignored in &config.ignored {
            let path = ignored.path.display();
            screen.warn(&format!("{path}: `{}` is ignored: this repository is not trusted", ignored.key));
        }
        if !config.ignored.is_empty() {
            screen.hint("read the file, then say `sexton trust` in that repository to allow it");
        }
        Ok(Context { config, screen, now: Timestamp::now().into(), registry, trust_dir })
    }

    /// Opens the configured store for reading. What is damaged is reported; the rest can be read.
    pub fn open_for_reading(&mut self) -> Result<Box<dyn Store>, Failure> {
        require_safe(&self.config.state_dir.value)?;
        let store = self.open_store_as_it_is(Access::Read)?;
        self.screen.report_damage(&store.describe().path, &store.damage());
        Ok(store)
    }

    /// Opens the configured store for writing. A damaged one is refused here, before anything else is
    /// done that would have to be recorded.
    pub fn open_for_writing(&mut self) -> Result<Box<dyn Store>, Failure> {
        let store = (self.writable_store()?)()?;
        self.screen.report_damage(&store.describe().path, &store.damage());
        Ok(store)
    }

    /// What opens the configured store for writing, when its time has come. Commits the exit files that
    /// wait for a writer.
    pub fn writable_store(
        &self,
    ) -> Result<impl FnOnce() -> Result<Box<dyn Store>, StoreError> + use<>, Failure> {
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

    /// Ends that wait for a writer.
    pub fn pending_exits(&self) -> PendingExits {
        PendingExits::of(self.state_dir())
    }

    /// The configured store's URL with an absolute path, for processes that work elsewhere.
    pub fn absolute_store_url(&self) -> Result<String, Failure> {
        let (plugin, options) = self.store_options(&self.config.store_url.value.0, Access::Read)?;
        let path = options.path.to_str().ok_or_else(|| {
            Failure::usage(format!("{}: a store's path must be UTF-8", options.path.display()))
        })?;
        Ok(format!("{}:{path}", plugin.name))
    }

    /// Opens the configured store, damaged or not, and says nothing about it.
    pub fn open_store_as_it_is(&self, access: Access) -> Result<Box<dyn Store>, Failure> {
        self.open_url(&self.config.store_url.value.0, access)
    }

    /// Opens the store that `url` names.
    pub fn open_url(&self, url: &str, access: Access) -> Result<Box<dyn Store>, Failure> {
        let (plugin, options) = self.store_options(url, access)?;
        Ok((plugin.open)(&options)?)
    }

    fn store_options(
        &self,
        url: &str,
        access: Access,
    ) -> Result<(&'static StorePlugin, StoreOptions), Failure> {
        let (plugin, path) = self.registry.require_store(url)?;
        let path = std::path::absolute(&path)
            .map_err(|error| Failure::usage(format!("{}: not a usable path: {error}", path.display())))?;
        Ok((plugin, StoreOptions { path, access, durability: self.config.durability.value }))
    }

    /// Opens the configured probe.
    pub fn open_probe(&self) -> Result<Box<dyn ProcessProbe>, Failure> {
        Ok(self.registry.open_probe(&self.config.probe.value)?)
    }

    /// Opens the worktree cleaner; `None` in a build without one.
    pub fn find_cleaner(&self) -> Option<Box<dyn WorktreeCleaner>> {
        let options = WorktreeOptions { rescue_ignored: self.config.rescue_ignored.value.0 };
        self.registry.open_cleaner(&options).ok()
    }

    /// The state directory, as recovery needs it.
    pub fn premises(&self) -> Result<StateDir, Failure> {
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

    /// Where trust in repositories is remembered.
    pub fn trust_dir(&self) -> &Path {
        &self.trust_dir
    }

    /// Where this state directory keeps its backups.
    pub fn backup_dir(&self) -> PathBuf {
        self.state_dir().join("backups")
    }

    /// The state directory.
    pub fn state_dir(&self) -> &Path {
        &self.config.state_dir.value
    }
}
