//! What the live view knows, and what follows from it alone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ratatui::widgets::TableState;
use sexton_core::worktree::RescueDetails;
use sexton_core::{Session, SessionId, Time};

use super::meter::Figures;
use super::text::last_line;
use crate::commands::ps::command_line;
use crate::probing::Observed;

/// Everything that the screen shows.
pub struct State {
    /// The sessions, newest first.
    pub rows: Vec<Row>,
    /// Whether finished ones are among them.
    pub all: bool,
    /// Only rows that contain this are shown.
    pub filter: String,
    /// What fills the screen.
    pub view: View,
    /// What is asked on the last line.
    pub prompt: Option<Prompt>,
    /// What is told there otherwise.
    pub notice: Option<Notice>,
    /// Which row is chosen, and where the list begins.
    pub table: TableState,
    /// How many rows the list, or lines the log, had when it was drawn last.
    pub page: usize,
    /// The time.
    pub now: Time,
    /// The store's file, for the title.
    pub store: PathBuf,
    /// Its user's home, which people write `~`.
    pub home: Option<PathBuf>,
}

/// A session.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its record.
    pub session: Session,
    /// What was seen of its process.
    pub observed: Option<Observed>,
    /// What it uses; `None` where nothing of it lives, or nobody could look.
    pub figures: Option<Figures>,
    /// The end of its output.
    pub tail: Vec<String>,
}

/// What fills the screen.
#[derive(Debug)]
pub enum View {
    /// The sessions.
    List,
    /// A session's output.
    Log(LogView),
    /// The work that was saved of a session.
    Rescue(Box<RescueView>),
    /// The keys.
    Help,
}

/// A session's output, as far as it is kept.
#[derive(Debug)]
pub struct LogView {
    /// Whose.
    pub session: SessionId,
    /// For the title.
    pub title: String,
    /// The newest lines.
    pub lines: Vec<String>,
    /// Whether the last of them has not ended yet.
    pub is_open: bool,
    /// How many lines above the end it is looked at; 0 follows.
    pub back: usize,
}

/// The work that was saved of a session.
#[derive(Debug)]
pub struct RescueView {
    /// For the title.
    pub title: String,
    /// What is in it.
    pub details: RescueDetails,
    /// How far down it is looked at.
    pub down: usize,
}

/// What is asked on the last line.
#[derive(Debug, PartialEq, Eq)]
pub enum Prompt {
    /// What to filter by; it is applied as it is typed.
    Filter,
    /// Whether this session is to be stopped.
    Stop(SessionId),
}

/// What is told on the last line.
#[derive(Debug, PartialEq, Eq)]
pub struct Notice {
    /// What.
    pub text: String,
    /// Whether something went wrong.
    pub is_error: bool,
}

impl State {
    /// Nothing yet.
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

    /// The rows that are shown: those that the filter fits.
    pub fn shown(&self) -> Vec<&Row> {
        let wanted = self.filter.to_lowercase();
        self.rows.iter().filter(|row| wanted.is_empty() || row.contains(&wanted)).collect()
    }

    /// The chosen row.
    pub fn chosen(&self) -> Option<&Row> {
        self.shown().get(self.table.selected()?).copied()
    }

    /// Chooses the row of `session`; where it is not shown, stays at the same place in the list.
    pub fn choose(&mut self, session: Option<&SessionId>) {
        let shown = self.shown();
        let found = shown.iter().position(|row| Some(&row.session.id) == session);
        let last = shown.len().checked_sub(1);
        let place = found.or_else(|| Some(self.table.selected().unwrap_or(0).min(last?)));
        self.table.select(place);
    }

    /// Chooses the row `by` further down, or up, as far as there are any.
    pub fn step(&mut self, by: isize) {
        let last = self.shown().len().saturating_sub(1);
        let at = self.table.selected().unwrap_or(0);
        self.table.select(Some(at.saturating_add_signed(by).min(last)).filter(|_| !self.shown().is_empty()));
    }

    /// The row of `session`.
    pub fn find(&self, session: &SessionId) -> Option<&Row> {
        self.rows.iter().find(|row| row.session.id == *session)
    }

    /// Takes in new rows; the chosen one stays chosen.
    pub fn replace_rows(&mut self, rows: Vec<Row>) {
        let chosen = self.chosen().map(|row| row.session.id.clone());
        self.rows = rows;
        self.choose(chosen.as_ref());
    }

    /// Takes in what was seen and measured.
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

    /// A path as people write it.
    pub fn shorten(&self, path: &Path) -> String {
        let home = self.home.as_deref().filter(|home| home.components().count() > 1);
        match home.and_then(|home| path.strip_prefix(home).ok()) {
            Some(below) => format!("~/{}", below.display()),
            None => path.display().to_string(),
        }
    }

    /// How many of the sessions are active.
    pub fn active(&self) -> usize {
        self.rows.iter().filter(|row| row.session.status.is_active()).count()
    }
}

impl Row {
    /// What it is called: its name, else its id.
    pub fn title(&self) -> &str {
        self.session.name.as_deref().unwrap_or(self.session.id.as_str())
    }

    /// The last line of its output.
    pub fn last_line(&self) -> &str {
        last_line(&self.tail)
    }

    /// Its log.
    pub fn log_path(&self) -> Option<&Path> {
        self.session.log.as_ref().map(|log| log.path.as_path())
    }

    /// Whether its name, id, ticket, status or command contains `wanted`, which is in lower case.
    fn contains(&self, wanted: &str) -> bool {
        let session = &self.session;
        let labels = [session.name.as_deref(), session.ticket.as_deref(), Some(session.status.as_str())];
        let labels = labels.into_iter().flatten().chain([session.id.as_str()]);
        labels.map(str::to_lowercase).any(|label| label.contains(wanted))
            || command_line(session).to_lowercase().contains(wanted)
    }
}
