//! A progress bar on stderr, shown only on a terminal and cleared at the end.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sexton_core::recover::{Phase, Progress};

/// Shows the progress of a recovery or another long operation.
pub struct Bar {
    shown: bool,
    current: Mutex<Option<ProgressBar>>,
}

impl Bar {
    /// Creates a bar that is shown only if stderr is a terminal.
    pub fn for_terminal() -> Bar {
        Bar { shown: io::stderr().is_terminal(), current: Mutex::new(None) }
    }

    /// Starts an operation of `total` steps.
    pub fn start(&self, what: &'static str, total: usize) {
        self.clear();
        if !self.shown || total == 0 {
            return;
        }
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg:22} {bar:32} {pos}/{len}  {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(what);
        // Stopping takes a whole grace period without a step; the elapsed time shows that it is not stuck.
        bar.enable_steady_tick(Duration::from_millis(200));
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar);
    }

    /// Advances by one step.
    pub fn step(&self) {
        if let Some(bar) = &*self.current.lock().unwrap_or_else(PoisonError::into_inner) {
            bar.inc(1);
        }
    }

    /// Clears the bar.
    pub fn clear(&self) {
        let bar = self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Progress for Bar {
    fn wait_for_other(&self) {
        // Without a working stderr there is nowhere to report the error.
        _ = writeln!(io::stderr().lock(), "another recovery is running; waiting for it to finish");
    }

    fn begin(&self, phase: Phase, total: usize) {
        self.start(
            match phase {
                Phase::Observe => "checking sessions",
                Phase::End => "stopping orphans",
                Phase::Rescue => "saving work",
                Phase::Remove => "removing worktrees",
                Phase::Prune => "deleting old records",
            },
            total,
        );
    }

    fn advance(&self) {
        self.step();
    }
}
