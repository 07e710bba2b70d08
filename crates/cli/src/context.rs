//! What a command works with: the house, the screen and the time.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use sexton_core::config::Config;
use sexton_core::{Store, Time};
use sexton_embed::{House, Tools, now};

use crate::args::GlobalArgs;
use crate::failure::Failure;
use crate::layers::{Flag, ForeignNews, Loaded, load_layers};
use crate::screen::Screen;

/// What a command works with. It is the house, with a screen to say things on.
pub struct Context<'a> {
    /// Where it prints.
    pub screen: &'a mut Screen,
    /// The time at which the command began.
    pub now: Time,
    house: House,
    trust_dir: PathBuf,
    foreign: ForeignNews,
}

impl Deref for Context<'_> {
    type Target = House;

    fn deref(&self) -> &House {
        &self.house
    }
}

impl<'a> Context<'a> {
    /// Reads the configuration. Says what an untrusted repository wanted and did not get.
    pub fn load(global: &GlobalArgs, screen: &'a mut Screen) -> Result<Context<'a>, Failure> {
        Context::load_with(global, Vec::new(), screen)
    }

    /// Reads the configuration, with the flags of one command.
    pub fn load_with(
        global: &GlobalArgs,
        flags: Vec<Flag>,
        screen: &'a mut Screen,
    ) -> Result<Context<'a>, Failure> {
        let Loaded { layers, trust_dir, foreign } = load_layers(global, flags)?;
        let config = Config::resolve(&layers)?;
        let own = || config.ignored.iter().filter(|ignored| ignored.path != foreign.path);
        for ignored in own() {
            let path = ignored.path.display();
            screen.warn(&format!("{path}: `{}` is ignored: this repository is not trusted", ignored.key));
        }
        if own().next().is_some() {
            screen.hint("read the file, then say `sexton trust` in that repository to allow it");
        }
        Ok(Context { screen, now: now(), house: House::new(config)?, trust_dir, foreign })
    }

    /// Opens the configured store for reading. What is damaged is reported; the rest can be read.
    pub fn open_for_reading(&mut self) -> Result<Box<dyn Store>, Failure> {
        let store = self.house.open_for_reading()?;
        self.screen.report_damage(&store.describe().path, &store.damage());
        Ok(store)
    }

    /// Opens the configured store for writing. A damaged one is refused.
    pub fn open_for_writing(&mut self) -> Result<Box<dyn Store>, Failure> {
        let store = self.house.open_for_writing()?;
        self.screen.report_damage(&store.describe().path, &store.damage());
        Ok(store)
    }

    /// What recovery works with, opened to look.
    pub fn tools_for_reading(&mut self) -> Result<Tools, Failure> {
        let store = self.open_for_reading()?;
        Ok(Tools::around(store, &self.house)?)
    }

    /// What recovery works with, opened for changes.
    pub fn tools_for_writing(&mut self) -> Result<Tools, Failure> {
        let store = self.open_for_writing()?;
        Ok(Tools::around(store, &self.house)?)
    }

    /// The house, and where to print, for a command that keeps both.
    #[cfg(feature = "mcp")]
    pub fn into_parts(self) -> (House, &'a mut Screen) {
        (self.house, self.screen)
    }

    /// Says what is to be said of the configuration of another tool. One that cannot be used at all is refused.
    pub fn require_foreign(&self) -> Result<(), Failure> {
        let ForeignNews { path, warnings, unusable } = &self.foreign;
        let shown = path.display();
        if let Some(why) = unusable {
            return Err(Failure::usage(format!("{shown}: {why}")).hint("mend it, or remove it"));
        }
        warnings.iter().for_each(|warning| self.screen.warn(&format!("{shown}: {warning}")));
        let ignored: Vec<_> = self.config.ignored.iter().filter(|ignored| ignored.path == *path).collect();
        for ignored in &ignored {
            self.screen
                .warn(&format!("{shown}: `{}` is ignored: this repository is not trusted", ignored.key));
        }
        Ok(())
    }

    /// Where trust in repositories is remembered.
    pub fn trust_dir(&self) -> &Path {
        &self.trust_dir
    }
}
