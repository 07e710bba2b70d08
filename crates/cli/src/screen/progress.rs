//! A bar for long work: on a terminal only, on stderr, gone when the work is done.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sexton_core::recover::{Phase, Progress};

/// Shows how far a recovery, or other long work, is.
pub struct Bar {
    shown: bool,
    current: Mutex<Option<ProgressBar>>,
}

impl Bar {
    /// A bar on this terminal; none where there is no terminal.
    pub fn for_terminal() -> Bar {
        Bar { shown: io::stderr().is_terminal(), current: Mutex::new(None) }
    }

    /// Begins work that has `total` steps.
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
        // Ending takes a whole grace period without a single step: the clock must be seen to run.
        bar.enable_steady_tick(Duration::from_millis(200));
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar);
    }

    /// One more step is done.
    pub fn step(&self) {
        if let Some(bar) = &*self.current.lock().unwrap_or_else(PoisonError::into_inner) {
            bar.inc(1);
        }
    }

    /// Takes the bar away.
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
        // Where even stderr is gone there is nobody left to tell.
        _ = writeln!(io::stderr().lock(), "another recovery is at work; this one waits for it");
    }

    fn begin(&self, phase: Phase, total: usize) {
        self.start(
            match phase {
                Phase::Observe => "looking at sessions",
                Phase::End => "ending orphans",
                Phase::Rescue => "rescuing work",
                Phase::Remove => "clearing yards",
                Phase::Prune => "removing old records",
            },
            total,
        );
    }

    fn advance(&self) {
        self.step();
    }
}
