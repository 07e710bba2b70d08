//! The live view: a progress bar, and below it a line for each running session with its last line of output.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sexton_ralph::{Notice, Ticket};
use sexton_service::Output;

use crate::top::text::{last_line, plain_lines};

/// How often the last lines are read.
const PERIOD: Duration = Duration::from_millis(250);

/// The maximum length of a line, more than a terminal shows.
const MAX_LINE: usize = 400;

/// The running sessions, each with its line and its log.
type Rows = Arc<Mutex<BTreeMap<Ticket, (ProgressBar, Option<PathBuf>)>>>;

/// A live view on a terminal.
pub(super) struct Live {
    all: MultiProgress,
    whole: ProgressBar,
    rows: Rows,
    /// The thread that reads the logs. It exits when the sender is dropped.
    reader: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Live {
    /// Creates the view, or returns `None` if stderr is not a terminal.
    pub(super) fn for_terminal() -> Option<Live> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let whole = all.add(ProgressBar::new(0));
        whole.set_style(style("{bar:32} {pos}/{len} tickets  {elapsed}"));
        whole.enable_steady_tick(PERIOD);
        let rows = Rows::default();
        let (sender, receiver) = channel::<()>();
        let shown = Arc::clone(&rows);
        let read = move || {
            while receiver.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                for (row, log) in shown.lock().unwrap_or_else(PoisonError::into_inner).values() {
                    row.set_message(log.as_deref().map(last_output_line).unwrap_or_default());
                }
            }
        };
        let reader = std::thread::Builder::new().spawn(read).ok().map(|reader| (sender, reader));
        Some(Live { all, whole, rows, reader })
    }

    /// Updates the view after a notice.
    pub(super) fn update(&mut self, notice: &Notice) {
        match notice {
            Notice::Started { ticket, attempt, log, .. } => self.add(ticket, *attempt, log.clone()),
            Notice::Ended { ticket, .. } => {
                if let Some((row, _)) = self.lock().remove(ticket) {
                    row.finish_and_clear();
                }
            }
            Notice::Done { .. } | Notice::Conflict { .. } | Notice::SetAside { .. } => self.whole.inc(1),
            _ => {}
        }
    }

    fn add(&self, ticket: &Ticket, attempt: u64, log: Option<PathBuf>) {
        if attempt == 1 {
            self.whole.inc_length(1);
        }
        let row = self.all.add(ProgressBar::new_spinner());
        row.set_style(style("  {prefix:24} {elapsed:>5}  {wide_msg}"));
        row.set_prefix(if attempt > 1 {
            format!("{ticket} (attempt {attempt})")
        } else {
            ticket.to_string()
        });
        row.enable_steady_tick(PERIOD);
        self.lock().insert(ticket.clone(), (row, log));
    }

    /// Runs `print` with the view hidden, so that its output appears above the bar.
    pub(super) fn print_above(&self, print: impl FnOnce()) {
        self.all.suspend(print);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Ticket, (ProgressBar, Option<PathBuf>)>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some((sender, reader)) = self.reader.take() {
            drop(sender);
            let _ = reader.join();
        }
        self.lock().values().for_each(|(row, _)| row.finish_and_clear());
        self.whole.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Returns the last line of a session's output, without control sequences.
fn last_output_line(log: &Path) -> String {
    let read = Output::open(log, 0).and_then(|mut output| {
        output.seek_to_tail(1)?;
        output.read()
    });
    let lines = plain_lines(&read.map(|chunk| chunk.bytes).unwrap_or_default());
    last_line(&lines).chars().take(MAX_LINE).collect()
}
