//! How a loop is shown: as JSON lines, as lines, or live on a terminal.

use sexton_ralph::{Notice, Remote};

use super::live::Live;
use super::{lines, outcome};
use crate::commands::recover;
use crate::failure::Failure;
use crate::screen::Screen;

/// Shows a loop.
pub(super) struct View<'a> {
    screen: &'a Screen,
    live: Option<Live>,
    remote: Remote,
    /// Why nothing can be shown any more.
    failure: Option<Failure>,
}

impl<'a> View<'a> {
    pub(super) fn new(screen: &'a Screen, remote: Remote) -> View<'a> {
        View { screen, live: None, remote, failure: None }
    }

    /// Shows what happened. A loop that nobody can see is told to stop, gracefully and once.
    pub(super) fn show(&mut self, notice: &Notice) {
        if self.failure.is_none()
            && let Err(failure) = self.try_show(notice)
        {
            self.failure = Some(failure);
            self.remote.interrupt();
        }
    }

    /// Takes the live view away. Says why not everything could be shown.
    pub(super) fn close(mut self) -> Result<(), Failure> {
        self.live = None;
        self.failure.map_or(Ok(()), Err)
    }

    fn try_show(&mut self, notice: &Notice) -> Result<(), Failure> {
        if self.screen.json {
            return self.screen.json_line(notice);
        }
        match notice {
            Notice::Recovered { report } => {
                recover::tell(report, self.screen)?;
                // Recovery has a bar of its own.
                self.live = Live::for_terminal();
                return Ok(());
            }
            Notice::Finished(summary) => {
                self.live = None;
                return outcome::tell(summary, self.screen);
            }
            _ => {}
        }
        let said = lines::line(notice);
        if let Some(live) = &mut self.live {
            live.take_in(notice);
        }
        match &self.live {
            Some(live) => live.above(|| self.say(said)),
            None => self.say(said),
        }
        Ok(())
    }

    fn say(&self, said: Option<(String, bool)>) {
        match said {
            Some((text, true)) => self.screen.warn(&text),
            Some((text, false)) => self.screen.note(&text),
            None => {}
        }
    }
}
