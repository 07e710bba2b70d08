//! Updates the state of the live view: a pure function of the state and an event.

use std::collections::HashMap;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use sexton_core::worktree::RescueDetails;
use sexton_core::{SessionId, Time};

use super::meter::Figures;
use super::state::{LogView, Notice, Prompt, RescueView, Row, State, View};
use crate::probing::Observed;

/// An event.
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// The terminal was resized.
    Resized,
    /// The keyboard can no longer be read.
    KeyboardLost,
    /// The records changed.
    Records(Vec<Row>),
    /// Processes were observed and measured.
    Observed(HashMap<SessionId, Observed>, HashMap<SessionId, Figures>),
    /// The end of a session's output changed.
    Tail(SessionId, Vec<String>),
    /// The followed output changed.
    Log(LogPart),
    /// The requested rescue, or why it cannot be shown.
    Rescue(SessionId, Result<Box<RescueDetails>, String>),
    /// The result of stopping a session.
    Stopped(Result<String, String>),
    /// Time passed.
    Tick(Time),
}

/// New output of the followed log.
#[derive(Default)]
pub struct LogPart {
    /// The complete lines, starting with the previously incomplete line if there was one.
    pub lines: Vec<String>,
    /// The last line, if it is incomplete.
    pub open: Option<String>,
    /// Whether it replaces all earlier output.
    pub is_anew: bool,
}

/// An action that an event requires.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Quit the view.
    Quit,
    /// Suspend the program and return to the shell.
    Suspend,
    /// Read the records again.
    Reload,
    /// Follow this session's output.
    Follow(SessionId),
    /// Stop following output.
    Unfollow,
    /// Load the rescue of this session.
    FindRescue(SessionId),
    /// Stop this session.
    Stop(SessionId),
}

/// The maximum number of kept lines of a followed log.
pub const KEPT_LINES: usize = 5000;

/// Updates `state` after an event, and returns the action to take.
pub fn update(state: &mut State, event: Event) -> Option<Effect> {
    match event {
        Event::Key(key) => return press(state, key),
        Event::KeyboardLost => return Some(Effect::Quit),
        Event::Resized => {}
        Event::Records(rows) => state.replace_rows(rows),
        Event::Observed(observed, figures) => state.replace_figures(&observed, &figures),
        Event::Tail(session, tail) => {
            if let Some(row) = state.rows.iter_mut().find(|row| row.session.id == session) {
                row.tail = tail;
            }
        }
        Event::Log(part) => append(state, part),
        Event::Rescue(session, found) => show_rescue(state, &session, found),
        Event::Stopped(outcome) => {
            let is_error = outcome.is_err();
            let (Ok(text) | Err(text)) = outcome;
            state.notice = Some(Notice { text, is_error });
        }
        Event::Tick(now) => state.now = now,
    }
    None
}

fn append(state: &mut State, part: LogPart) {
    let View::Log(log) = &mut state.view else { return };
    if part.is_anew {
        log.lines.clear();
        log.back = 0;
    } else if log.is_open {
        log.lines.pop();
    }
    let before = log.lines.len() + usize::from(log.is_open && !part.is_anew);
    log.is_open = part.open.is_some();
    log.lines.extend(part.lines);
    log.lines.extend(part.open);
    // If the log is scrolled back, the same lines stay visible.
    if log.back > 0 {
        log.back += log.lines.len().saturating_sub(before);
    }
    let excess = log.lines.len().saturating_sub(KEPT_LINES);
    log.lines.drain(..excess);
    log.back = log.back.min(log.lines.len());
}

fn show_rescue(state: &mut State, session: &SessionId, found: Result<Box<RescueDetails>, String>) {
    match found {
        Ok(details) => {
            let title = state.find(session).map_or_else(|| session.to_string(), |row| row.title().to_owned());
            state.view = View::Rescue(Box::new(RescueView { title, details: *details, down: 0 }));
        }
        Err(text) => state.notice = Some(Notice { text, is_error: false }),
    }
}

fn press(state: &mut State, key: KeyEvent) -> Option<Effect> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Effect::Quit),
            KeyCode::Char('z') => Some(Effect::Suspend),
            _ => None,
        };
    }
    match &state.prompt {
        Some(Prompt::Filter) => {
            edit_filter(state, key.code);
            None
        }
        Some(Prompt::Stop(session)) => {
            let session = session.clone();
            state.prompt = None;
            if key.code != KeyCode::Char('y') {
                return None;
            }
            let title = state.find(&session).map_or(session.as_str(), Row::title);
            state.notice = Some(Notice { text: format!("stopping {title} …"), is_error: false });
            Some(Effect::Stop(session))
        }
        None => {
            state.notice = None;
            match &state.view {
                View::List => press_in_list(state, key.code),
                View::Log(_) => press_in_log(state, key.code),
                View::Rescue(_) => press_in_rescue(state, key.code),
                View::Help => close(state, key.code),
            }
        }
    }
}

fn edit_filter(state: &mut State, key: KeyCode) {
    let selected = state.selected().map(|row| row.session.id.clone());
    match key {
        KeyCode::Enter => state.prompt = None,
        KeyCode::Esc => {
            state.prompt = None;
            state.filter.clear();
        }
        KeyCode::Backspace => drop(state.filter.pop()),
        KeyCode::Char(character) => state.filter.push(character),
        KeyCode::Up => return state.step(-1),
        KeyCode::Down => return state.step(1),
        _ => {}
    }
    state.select(selected.as_ref());
}

fn press_in_list(state: &mut State, key: KeyCode) -> Option<Effect> {
    let page = isize::try_from(state.page.max(1)).unwrap_or(1);
    match key {
        KeyCode::Char('q') => return Some(Effect::Quit),
        KeyCode::Up | KeyCode::Char('k') => state.step(-1),
        KeyCode::Down | KeyCode::Char('j') => state.step(1),
        KeyCode::PageUp => state.step(-page),
        KeyCode::PageDown => state.step(page),
        KeyCode::Home | KeyCode::Char('g') => state.step(isize::MIN),
        KeyCode::End | KeyCode::Char('G') => state.step(isize::MAX),
        KeyCode::Char('/') => state.prompt = Some(Prompt::Filter),
        KeyCode::Esc => {
            let selected = state.selected().map(|row| row.session.id.clone());
            state.filter.clear();
            state.select(selected.as_ref());
        }
        KeyCode::Char('?' | 'h') => state.view = View::Help,
        KeyCode::Char('a') => {
            state.all = !state.all;
            return Some(Effect::Reload);
        }
        KeyCode::Enter | KeyCode::Char('l') => return open_log(state),
        KeyCode::Char('r') => return state.selected().map(|row| Effect::FindRescue(row.session.id.clone())),
        KeyCode::Char('s') => prompt_stop(state),
        _ => {}
    }
    None
}

fn open_log(state: &mut State) -> Option<Effect> {
    let row = state.selected()?;
    if row.log_path().is_none() {
        let text = format!("{} has no log: it was started by another program", row.title());
        state.notice = Some(Notice { text, is_error: false });
        return None;
    }
    let session = row.session.id.clone();
    let title = row.title().to_owned();
    state.view =
        View::Log(LogView { session: session.clone(), title, lines: Vec::new(), is_open: false, back: 0 });
    Some(Effect::Follow(session))
}

fn prompt_stop(state: &mut State) {
    let Some(row) = state.selected() else { return };
    if row.session.status.is_active() {
        state.prompt = Some(Prompt::Stop(row.session.id.clone()));
    } else {
        let text = format!("{} has already ended ({})", row.title(), row.session.status);
        state.notice = Some(Notice { text, is_error: false });
    }
}

fn press_in_log(state: &mut State, key: KeyCode) -> Option<Effect> {
    let page = state.page.max(1);
    let View::Log(log) = &mut state.view else { return None };
    let most = log.lines.len();
    log.back = match key {
        KeyCode::Up | KeyCode::Char('k') => log.back + 1,
        KeyCode::Down | KeyCode::Char('j') => log.back.saturating_sub(1),
        KeyCode::PageUp => log.back + page,
        KeyCode::PageDown => log.back.saturating_sub(page),
        KeyCode::Home | KeyCode::Char('g') => most,
        KeyCode::End | KeyCode::Char('G') => 0,
        KeyCode::Char('s') => {
            let session = log.session.clone();
            state.select(Some(&session));
            prompt_stop(state);
            return None;
        }
        KeyCode::Esc | KeyCode::Char('q' | 'h') | KeyCode::Left | KeyCode::Backspace => {
            state.view = View::List;
            return Some(Effect::Unfollow);
        }
        _ => log.back,
    }
    .min(most);
    None
}

fn press_in_rescue(state: &mut State, key: KeyCode) -> Option<Effect> {
    let page = state.page.max(1);
    let View::Rescue(rescue) = &mut state.view else { return None };
    let last = rescue.details.paths.len().saturating_sub(1);
    rescue.down = match key {
        KeyCode::Up | KeyCode::Char('k') => rescue.down.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => rescue.down + 1,
        KeyCode::PageUp => rescue.down.saturating_sub(page),
        KeyCode::PageDown => rescue.down + page,
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => last,
        _ => return close(state, key),
    }
    .min(last);
    None
}

/// Returns to the list if `key` closes the view.
fn close(state: &mut State, key: KeyCode) -> Option<Effect> {
    let leaves = matches!(
        key,
        KeyCode::Esc | KeyCode::Char('q' | 'h' | '?') | KeyCode::Left | KeyCode::Backspace | KeyCode::Enter
    );
    if leaves {
        state.view = View::List;
    }
    None
}

#[cfg(test)]
mod tests;
