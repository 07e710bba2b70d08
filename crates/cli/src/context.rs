//! What a command works with: the configuration, the backends, the screen and the time.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use sexton_core::config::Config;
use sexton_core::plugin::{Registry, StoreOptions};
use sexton_core::store::{Access, Durability};
use sexton_core::{ProcessProbe, Store, StoreError, Time};

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
        require_state_dir(&self.config.state_dir.value)?;
        let store = self.open_store_as_it_is(Access::Write)?;
        let (harmless, serious): (Vec<_>, Vec<_>) =
            store.damage().into_iter().partition(|damage| damage.harmless);
        let path = store.describe().path;
        self.screen.report_damage(&path, &harmless);
        if serious.is_empty() { Ok(store) } else { Err(StoreError::Damaged { path, damage: serious }.into()) }
    }

    /// Opens the configured store, damaged or not, and says nothing about it.
    pub fn open_store_as_it_is(&self, access: Access) -> Result<Box<dyn Store>, Failure> {
        self.open_url(&self.config.store_url.value.0, access)
    }

    /// Opens the store that `url` names.
    pub fn open_url(&self, url: &str, access: Access) -> Result<Box<dyn Store>, Failure> {
        let (plugin, path) = self.registry.require_store(url)?;
        let path = std::path::absolute(&path)
            .map_err(|error| Failure::usage(format!("{}: not a usable path: {error}", path.display())))?;
        Ok((plugin.open)(&StoreOptions { path, access, durability: self.durability() })?)
    }

    /// Opens the configured probe.
    pub fn open_probe(&self) -> Result<Box<dyn ProcessProbe>, Failure> {
        Ok(self.registry.open_probe(&self.config.probe.value)?)
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

    fn durability(&self) -> Durability {
        self.config.durability.value
    }
}
