//! The state of the live view.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ratatui::widgets::TableState;
use sexton_core::worktree::RescueDetails;
use sexton_core::{Session, SessionId, Time};

use super::meter::Figures;
use super::text::last_line;
use crate::commands::ps::command_line;
use crate::probing::Observed;

/// Everything that is shown on the screen.
pub struct State {
    /// The sessions, newest first.
    pub rows: Vec<Row>,
    /// Whether finished sessions are included.
    pub all: bool,
    /// The filter; only rows that contain it are shown.
    pub filter: String,
    /// The current view.
    pub view: View,
    /// The prompt on the last line.
    pub prompt: Option<Prompt>,
    /// The notice on the last line if there is no prompt.
    pub notice: Option<Notice>,
    /// The selected row and the scroll position of the list.
    pub table: TableState,
    /// The height of the list or log when it was last drawn.
    pub page: usize,
    /// The current time.
    pub now: Time,
    /// The store's file, for the title.
    pub store: PathBuf,
    /// The user's home directory, shown as `~`.
    pub home: Option<PathBuf>,
}

/// A session.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its record.
    pub session: Session,
    /// The observed state of its process.
    pub observed: Option<Observed>,
    /// Its resource usage; `None` if it has no live process or could not be measured.
    pub figures: Option<Figures>,
    /// The end of its output.
    pub tail: Vec<String>,
}

/// The view that fills the screen.
#[derive(Debug)]
pub enum View {
    /// The sessions.
    List,
    /// A session's output.
    Log(LogView),
    /// A session's rescue.
    Rescue(Box<RescueView>),
    /// The list of keys.
    Help,
}

/// The kept part of a session's output.
#[derive(Debug)]
pub struct LogView {
    /// The session.
    pub session: SessionId,
    /// The session's name in the title.
    pub title: String,
    /// The newest lines.
    pub lines: Vec<String>,
    /// Whether the last line is incomplete.
    pub is_open: bool,
    /// The scroll position in lines above the end; 0 follows the log.
    pub back: usize,
}

/// A session's rescue.
#[derive(Debug)]
pub struct RescueView {
    /// The session's name in the title.
    pub title: String,
    /// Its contents.
    pub details: RescueDetails,
    /// The scroll position in lines from the top.
    pub down: usize,
}

/// A prompt on the last line.
#[derive(Debug, PartialEq, Eq)]
pub enum Prompt {
    /// The filter text, which is applied while it is typed.
    Filter,
    /// Confirmation to stop this session.
    Stop(SessionId),
}

/// A notice on the last line.
#[derive(Debug, PartialEq, Eq)]
pub struct Notice {
    /// The text.
    pub text: String,
    /// Whether it is an error.
    pub is_error: bool,
}

impl State {
    /// Creates a state without rows.
    pub fn new(all: bool, filter: String, store: PathBuf, now: Time) -> State {
        State {
            rows: Vec::new(),
            all,
            filter,
            view: View::List,
            prompt: None,
            notice: None,
            table: TableState::new(),
            page: 1,
            now,
            store,
            home: None,
        }
    }

    /// Returns the rows that match the filter.
    pub fn shown(&self) -> Vec<&Row> {
        let wanted = self.filter.to_lowercase();
        self.rows.iter().filter(|row| wanted.is_empty() || row.contains(&wanted)).collect()
    }

    /// Returns the selected row.
    pub fn selected(&self) -> Option<&Row> {
        self.shown().get(self.table.selected()?).copied()
    }

    /// Selects the row of `session`. If it is not shown, keeps the position in the list.
    pub fn select(&mut self, session: Option<&SessionId>) {
        let shown = self.shown();
        let found = shown.iter().position(|row| Some(&row.session.id) == session);
        let last = shown.len().checked_sub(1);
        let place = found.or_else(|| Some(self.table.selected().unwrap_or(0).min(last?)));
        self.table.select(place);
    }

    /// Moves the selection down by `by` rows, or up if negative, within the list.
    pub fn step(&mut self, by: isize) {
        let last = self.shown().len().saturating_sub(1);
        let at = self.table.selected().unwrap_or(0);
        self.table.select(Some(at.saturating_add_signed(by).min(last)).filter(|_| !self.shown().is_empty()));
    }

    /// Returns the row of `session`.
    pub fn find(&self, session: &SessionId) -> Option<&Row> {
        self.rows.iter().find(|row| row.session.id == *session)
    }

    /// Replaces the rows and keeps the selected session selected.
    pub fn replace_rows(&mut self, rows: Vec<Row>) {
        let selected = self.selected().map(|row| row.session.id.clone());
        self.rows = rows;
        self.select(selected.as_ref());
    }

    /// Updates the observed states and figures of the rows.
    pub fn replace_figures(
        &mut self,
        observed: &HashMap<SessionId, Observed>,
        figures: &HashMap<SessionId, Figures>,
    ) {
        for row in &mut self.rows {
            row.observed = observed.get(&row.session.id).cloned();
            row.figures = figures.get(&row.session.id).copied().filter(|figures| figures.processes > 0);
        }
    }

    /// Returns a path with the home directory shortened to `~`.
    pub fn shorten(&self, path: &Path) -> String {
        let home = self.home.as_deref().filter(|home| home.components().count() > 1);
        match home.and_then(|home| path.strip_prefix(home).ok()) {
            Some(below) => format!("~/{}", below.display()),
            None => path.display().to_string(),
        }
    }

    /// Returns the number of active sessions.
    pub fn active(&self) -> usize {
        self.rows.iter().filter(|row| row.session.status.is_active()).count()
    }
}

impl Row {
    /// Returns its name, or else its id.
    pub fn title(&self) -> &str {
        self.session.name.as_deref().unwrap_or(self.session.id.as_str())
    }

    /// Returns the last line of its output.
    pub fn last_line(&self) -> &str {
        last_line(&self.tail)
    }

    /// Returns the path of its log.
    pub fn log_path(&self) -> Option<&Path> {
        self.session.log.as_ref().map(|log| log.path.as_path())
    }

    /// Returns whether its name, id, ticket, status or command contains `wanted`, which must be in lower case.
    fn contains(&self, wanted: &str) -> bool {
        let session = &self.session;
        let labels = [session.name.as_deref(), session.ticket.as_deref(), Some(session.status.as_str())];
        let labels = labels.into_iter().flatten().chain([session.id.as_str()]);
        labels.map(str::to_lowercase).any(|label| label.contains(wanted))
            || command_line(session).to_lowercase().contains(wanted)
    }
}
