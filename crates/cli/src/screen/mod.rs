//! What people and scripts see: results on stdout, everything else on stderr.

mod moment;
mod progress;
mod style;
mod table;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use sexton_core::store::Damage;

use crate::failure::{Exit, Failure};

pub use moment::local_time;
pub use progress::Bar;
pub use style::{Style, Tone};
pub use table::{Cell, Column, Table, cut};

/// Where a command prints.
pub struct Screen {
    /// Whether results are one JSON document.
    pub json: bool,
    out: Style,
    err: Style,
    width: Option<usize>,
    damaged: bool,
    reported: Vec<Damage>,
}

impl Screen {
    /// The screen of this process.
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

    /// Prints a line of the result.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        self.raw(format!("{text}\n").as_bytes())
    }

    /// Prints the result, byte for byte.
    pub fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            // Whoever read our output has seen enough: there is nobody to go on for.
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

    /// Prints a JSON document on one line, for output that goes on.
    pub fn json_line(&self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(document)
            .map_err(|error| Failure::new(format!("cannot write the result as JSON: {error}")))?;
        self.line(&text)
    }

    /// Clears the terminal; does nothing to a pipe.
    pub fn clear(&self) -> Result<(), Failure> {
        if io::stdout().is_terminal() { self.raw(b"\x1b[2J\x1b[H") } else { Ok(()) }
    }

    /// Prints a table, cut to the terminal's width.
    pub fn table(&self, table: &Table) -> Result<(), Failure> {
        self.raw(table.render(self.width, self.out).as_bytes())
    }

    /// How results are coloured.
    pub fn style(&self) -> Style {
        self.out
    }

    /// Says something beside the result.
    pub fn note(&self, text: &str) {
        self.say(text);
    }

    /// Warns of something that did not stop the command.
    pub fn warn(&self, text: &str) {
        self.say(&format!("{} {text}", self.err.paint(Tone::Warning, "warning:")));
    }

    /// Says what could be done next.
    pub fn hint(&self, text: &str) {
        self.say(&format!("{} {text}", self.err.paint(Tone::Hint, "hint:")));
    }

    /// Reports what is wrong with the store. Unless all of it is harmless, the command exits with 5 in
    /// the end, whatever it printed.
    pub fn report_damage(&mut self, store: &std::path::Path, damage: &[Damage]) {
        for one in damage {
            // Opening and listing may both meet it.
            if !self.reported.contains(one) {
                self.warn(&format!("{}: {one}", store.display()));
                self.reported.push(one.clone());
            }
        }
        let serious = damage.iter().any(|damage| !damage.harmless);
        if serious && !self.damaged {
            self.hint("`sexton doctor` says more; until it is repaired, the store is only read");
        }
        self.damaged |= serious;
    }

    /// The exit code that damage seen on the way calls for.
    pub fn exit_of_damage(&self) -> Exit {
        if self.damaged { Exit::STORE_UNUSABLE } else { Exit::DONE }
    }

    /// Says why the command failed.
    pub fn fail(&self, failure: &Failure) -> Exit {
        if failure.exit == Exit::BROKEN_PIPE {
            return failure.exit;
        }
        self.say(&format!("{} {}", self.err.paint(Tone::Error, "error:"), failure.message));
        if let Some(hint) = &failure.hint {
            self.hint(hint);
        }
        failure.exit
    }

    fn say(&self, text: &str) {
        // Where even stderr is gone there is nobody left to tell.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// The width that tables are cut to: the terminal's, or `COLUMNS` where a script asks for one. A pipe
/// gets everything.
fn table_width(is_terminal: bool) -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    asked.or_else(|| if is_terminal { terminal() } else { None })
}
