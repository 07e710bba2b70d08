//! Output: results on stdout, everything else on stderr.

mod moment;
mod progress;
mod style;
mod table;
mod visible;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use serde::Serialize;
use sexton_core::store::Damage;

use crate::failure::{Exit, Failure};

pub use moment::local_time;
pub use progress::Bar;
pub use style::{Style, Tone};
pub use table::{Cell, Column, Table, cut};
pub use visible::{acts_on_terminal, visible};

/// The output streams of a command.
pub struct Screen {
    /// Whether results are printed as JSON.
    pub json: bool,
    out: Style,
    err: Style,
    width: Option<usize>,
    damaged: bool,
    reported: Vec<Damage>,
}

impl Screen {
    /// Creates the screen of this process.
    pub fn for_terminal(json: bool) -> Screen {
        let out_is_terminal = io::stdout().is_terminal();
        Screen {
            json,
            out: Style::when(out_is_terminal),
            err: Style::when(io::stderr().is_terminal()),
            width: table_width(out_is_terminal),
            damaged: false,
            reported: Vec::new(),
        }
    }

    /// Prints a line of the result. External text must pass through [`visible`] first.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        self.raw(format!("{text}\n").as_bytes())
    }

    /// Prints a path that is the whole result. A pipe gets the exact bytes of the path.
    pub fn path(&self, path: &Path) -> Result<(), Failure> {
        match io::stdout().is_terminal() {
            true => self.line(&visible(&path.display().to_string())),
            false => self.raw(&[path.as_os_str().as_encoded_bytes(), b"\n"].concat()),
        }
    }

    /// Prints bytes of the result unchanged.
    pub fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            // The reader closed the pipe, so there is no reason to continue.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::of_broken_pipe()),
            Err(error) => Err(Failure::new(format!("cannot write to standard output: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Prints the result as one JSON document.
    pub fn document(&self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| Failure::new(format!("cannot write the result as JSON: {error}")))?;
        self.line(&text)
    }

    /// Prints a JSON document on one line, for streaming output.
    pub fn json_line(&self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(document)
            .map_err(|error| Failure::new(format!("cannot write the result as JSON: {error}")))?;
        self.line(&text)
    }

    /// Clears the terminal; does nothing to a pipe.
    pub fn clear(&self) -> Result<(), Failure> {
        if io::stdout().is_terminal() { self.raw(b"\x1b[2J\x1b[H") } else { Ok(()) }
    }

    /// Prints a table, truncated to the terminal's width.
    pub fn table(&self, table: &Table) -> Result<(), Failure> {
        self.raw(table.render(self.width, self.out).as_bytes())
    }

    /// Returns the style of results.
    pub fn style(&self) -> Style {
        self.out
    }

    /// Prints a note on stderr.
    pub fn note(&self, text: &str) {
        self.write_stderr(&visible(text));
    }

    /// Prints a warning on stderr.
    pub fn warn(&self, text: &str) {
        self.write_stderr(&format!("{} {}", self.err.paint(Tone::Warning, "warning:"), visible(text)));
    }

    /// Prints a hint on stderr.
    pub fn hint(&self, text: &str) {
        self.write_stderr(&format!("{} {}", self.err.paint(Tone::Hint, "hint:"), visible(text)));
    }

    /// Reports damage of the store. Unless all of it is harmless, the command exits with 5, even if it
    /// succeeds otherwise.
    pub fn report_damage(&mut self, store: &Path, damage: &[Damage]) {
        for one in damage {
            // Opening and listing may both return the same damage.
            if !self.reported.contains(one) {
                self.warn(&format!("{}: {one}", store.display()));
                self.reported.push(one.clone());
            }
        }
        let serious = damage.iter().any(|damage| !damage.harmless);
        if serious && !self.damaged {
            self.hint("run `sexton doctor` for a fix; until then the store is read-only");
        }
        self.damaged |= serious;
    }

    /// Returns the exit code for the damage reported so far.
    pub fn exit_of_damage(&self) -> Exit {
        if self.damaged { Exit::STORE_UNUSABLE } else { Exit::DONE }
    }

    /// Prints a failure and returns its exit code.
    pub fn fail(&self, failure: &Failure) -> Exit {
        if failure.exit == Exit::BROKEN_PIPE {
            return failure.exit;
        }
        self.write_stderr(&format!(
            "{} {}",
            self.err.paint(Tone::Error, "error:"),
            visible(&failure.message)
        ));
        if let Some(hint) = &failure.hint {
            self.hint(hint);
        }
        failure.exit
    }

    fn write_stderr(&self, text: &str) {
        // Without a working stderr there is nowhere to report the error.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// Returns the maximum width of tables: `COLUMNS` if set, or else the terminal's width. Output to a pipe is not
/// truncated.
fn table_width(is_terminal: bool) -> Option<usize> {
    let requested = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    requested.or_else(|| if is_terminal { terminal() } else { None })
}
