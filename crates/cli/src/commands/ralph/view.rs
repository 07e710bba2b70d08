//! Shows the progress of a loop: as JSON lines, as text lines, or live on a terminal.

use sexton_ralph::{Notice, Remote};

use super::live::Live;
use super::{lines, outcome};
use crate::commands::recover;
use crate::failure::Failure;
use crate::screen::Screen;

/// Shows the progress of a loop.
pub(super) struct View<'a> {
    screen: &'a Screen,
    live: Option<Live>,
    remote: Remote,
    /// The first failure to print.
    failure: Option<Failure>,
}

impl<'a> View<'a> {
    pub(super) fn new(screen: &'a Screen, remote: Remote) -> View<'a> {
        View { screen, live: None, remote, failure: None }
    }

    /// Shows a notice. If that fails, stops the loop gracefully, once.
    pub(super) fn show(&mut self, notice: &Notice) {
        if self.failure.is_none()
            && let Err(failure) = self.try_show(notice)
        {
            self.failure = Some(failure);
            self.remote.interrupt();
        }
    }

    /// Closes the live view. Returns the first failure to print.
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
                recover::print_report(report, self.screen)?;
                // Not earlier, because recovery has its own progress bar.
                self.live = Live::for_terminal();
                return Ok(());
            }
            Notice::Finished(summary) => {
                self.live = None;
                return outcome::print_summary(summary, self.screen);
            }
            _ => {}
        }
        let line = lines::line(notice);
        if let Some(live) = &mut self.live {
            live.update(notice);
        }
        match &self.live {
            Some(live) => live.print_above(|| self.print(line)),
            None => self.print(line),
        }
        Ok(())
    }

    fn print(&self, line: Option<(String, bool)>) {
        match line {
            Some((text, true)) => self.screen.warn(&text),
            Some((text, false)) => self.screen.note(&text),
            None => {}
        }
    }
}
