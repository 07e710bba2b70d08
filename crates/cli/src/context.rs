//! The context of a command: the service, the screen and the time.

use std::ops::Deref;
use std::path::Path;

use sexton_core::config::Config;
use sexton_core::{Store, Time};
use sexton_ralph::ticketflow;
use sexton_service::{Service, Tools, now};

use crate::args::GlobalArgs;
use crate::failure::Failure;
use crate::layers::{Flag, ForeignIssues, Loaded, load_layers};
use crate::screen::Screen;

/// The hint for ignored settings.
const TRUST_HINT: &str = "review the file, then run `sexton trust` in that repository";

/// The context of a command. It dereferences to the service.
pub struct Context<'a> {
    /// The screen to print on.
    pub screen: &'a mut Screen,
    /// The time at which the command started.
    pub now: Time,
    service: Service,
    foreign: ForeignIssues,
}

impl Deref for Context<'_> {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}

impl<'a> Context<'a> {
    /// Loads the configuration. Warns about each setting of an untrusted repository that is ignored.
    pub fn load(global: &GlobalArgs, screen: &'a mut Screen) -> Result<Context<'a>, Failure> {
        Context::load_with(global, Vec::new(), screen)
    }

    /// Loads the configuration, with the flags of one command.
    pub fn load_with(
        global: &GlobalArgs,
        flags: Vec<Flag>,
        screen: &'a mut Screen,
    ) -> Result<Context<'a>, Failure> {
        let Loaded { layers, foreign } = load_layers(global, flags)?;
        let config = Config::resolve(&layers)?;
        let own = || config.ignored.iter().filter(|ignored| ignored.path != foreign.path);
        for ignored in own() {
            let path = ignored.path.display();
            screen.warn(&format!("{path}: `{}` is ignored: this repository is not trusted", ignored.key));
        }
        if own().next().is_some() {
            screen.hint(TRUST_HINT);
        }
        Ok(Context { screen, now: now(), service: Service::new(config)?, foreign })
    }

    /// Opens the configured store for reading. Reports damage; the rest is readable.
    pub fn open_for_reading(&mut self) -> Result<Box<dyn Store>, Failure> {
        let store = self.service.open_for_reading()?;
        self.screen.report_damage(&store.describe().path, &store.damage());
        Ok(store)
    }

    /// Opens the configured store for writing. Fails if it is damaged.
    pub fn open_for_writing(&mut self) -> Result<Box<dyn Store>, Failure> {
        let store = self.service.open_for_writing()?;
        self.screen.report_damage(&store.describe().path, &store.damage());
        self.warn_of_unreadable_exits();
        Ok(store)
    }

    /// Warns about each unreadable exit file. Such a file does not block the command.
    pub fn warn_of_unreadable_exits(&self) {
        let unreadable = self.pending_exits().list_unreadable().unwrap_or_default();
        for exit in &unreadable {
            let (path, session, why) = (exit.path.display(), &exit.session, &exit.why);
            self.screen.warn(&format!("the exit file {path} of session {session} cannot be read: {why}"));
        }
        if !unreadable.is_empty() {
            self.screen.hint("`sexton doctor --repair` moves it aside");
        }
    }

    /// Opens the tools of a recovery for reading.
    pub fn tools_for_reading(&mut self) -> Result<Tools, Failure> {
        let store = self.open_for_reading()?;
        Ok(Tools::around(store, &self.service)?)
    }

    /// Opens the tools of a recovery for writing.
    pub fn tools_for_writing(&mut self) -> Result<Tools, Failure> {
        let store = self.open_for_writing()?;
        Ok(Tools::around(store, &self.service)?)
    }

    /// Returns the service and the screen, for a command that keeps both.
    #[cfg(feature = "mcp")]
    pub fn into_parts(self) -> (Service, &'a mut Screen) {
        (self.service, self.screen)
    }

    /// Prints the warnings about the other tool's configuration file. Fails if that file is unusable.
    pub fn require_foreign(&self) -> Result<(), Failure> {
        let ForeignIssues { path, warnings, unusable } = &self.foreign;
        let shown = path.display();
        if let Some(why) = unusable {
            return Err(Failure::usage(format!("{shown}: {why}")).hint("fix the file, or remove it"));
        }
        warnings.iter().for_each(|warning| self.screen.warn(&format!("{shown}: {warning}")));
        let ignored: Vec<_> = self.config.ignored.iter().filter(|ignored| ignored.path == *path).collect();
        for ignored in &ignored {
            let key = ticketflow::name_of(ignored.key).unwrap_or(ignored.key);
            self.screen.warn(&format!("{shown}: `{key}` is ignored: this repository is not trusted"));
        }
        if !ignored.is_empty() {
            self.screen.hint(TRUST_HINT);
        }
        Ok(())
    }

    /// Returns the directory that stores which files are trusted.
    pub fn trust_dir(&self) -> &Path {
        &self.config.trust_dir
    }
}
