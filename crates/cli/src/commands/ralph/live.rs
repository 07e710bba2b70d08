//! The live view: a bar for the whole, and under it a line for each running session with what it last said.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sexton_embed::Output;
use sexton_ralph::{Notice, Ticket};

use crate::top::text::{last_line, plain_lines};

/// How often the last lines are looked at: as often as somebody can read them.
const PERIOD: Duration = Duration::from_millis(250);

/// How much of a line is looked at; a terminal shows less.
const MAX_LINE: usize = 400;

/// The running sessions, each with its line and its log.
type Rows = Arc<Mutex<BTreeMap<Ticket, (ProgressBar, Option<PathBuf>)>>>;

/// A live view on a terminal.
pub(super) struct Live {
    all: MultiProgress,
    whole: ProgressBar,
    rows: Rows,
    /// What looks at the logs. It leaves when the sender is dropped.
    reader: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Live {
    /// A view on this terminal; none where there is no terminal.
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
                    row.set_message(log.as_deref().map(last_words).unwrap_or_default());
                }
            }
        };
        let reader = std::thread::Builder::new().spawn(read).ok().map(|reader| (sender, reader));
        Some(Live { all, whole, rows, reader })
    }

    /// Follows what happened.
    pub(super) fn take_in(&mut self, notice: &Notice) {
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

    /// Says something above the bar.
    pub(super) fn above(&self, say: impl FnOnce()) {
        self.all.suspend(say);
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

/// What a session last said, without what could move the cursor.
fn last_words(log: &Path) -> String {
    let read = Output::open(log, 0).and_then(|mut output| {
        output.seek_to_tail(1)?;
        output.read()
    });
    let lines = plain_lines(&read.map(|chunk| chunk.bytes).unwrap_or_default());
    last_line(&lines).chars().take(MAX_LINE).collect()
}
