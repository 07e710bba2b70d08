//! Draws a [`State`] on the screen.

mod details;
mod list;
mod pages;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::state::{Prompt, State, View};
use crate::screen::{Tone, visible};

/// The minimum height at which details of the selected session are shown.
const DETAILS_FROM: u16 = 18;

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let [title, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    draw_title(frame, title, state);
    match &state.view {
        View::List => draw_list(frame, body, state),
        View::Log(_) => pages::draw_log(frame, body, state),
        View::Rescue(_) => pages::draw_rescue(frame, body, state),
        View::Help => pages::draw_help(frame, body),
    }
    draw_foot(frame, foot, state);
}

fn draw_list(frame: &mut Frame<'_>, body: Rect, state: &mut State) {
    if frame.area().height < DETAILS_FROM || state.selected().is_none() {
        list::draw(frame, body, state);
        return;
    }
    let [rows, details] =
        Layout::vertical([Constraint::Min(4), Constraint::Max(details::height(body))]).areas(body);
    list::draw(frame, rows, state);
    details::draw(frame, details, state);
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let active = state.active();
    let mut words = vec![
        Span::styled(" sexton ", styled(Tone::Heading).add_modifier(Modifier::REVERSED)),
        Span::raw("  "),
        Span::styled(
            format!("{active} running"),
            styled(if active > 0 { Tone::Active } else { Tone::Faint }),
        ),
    ];
    if state.all {
        words.push(Span::raw(format!(" of {}", state.rows.len())));
    }
    if !state.filter.is_empty() {
        words.push(Span::styled(format!("   /{}", state.filter), styled(Tone::Hint)));
        words.push(Span::styled(format!("  {} shown", state.shown().len()), styled(Tone::Faint)));
    }
    let left = Line::from(words);
    let store = format!("{} ", visible(&state.shorten(&state.store)));
    // The store is omitted if there is no space for it.
    if left.width() + store.chars().count() + 2 <= usize::from(area.width) {
        frame.render_widget(Line::from(Span::styled(store, styled(Tone::Faint))).right_aligned(), area);
    }
    frame.render_widget(left, area);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let line = match (&state.prompt, &state.notice) {
        (Some(Prompt::Filter), _) => Line::from(vec![
            Span::styled(" / ", styled(Tone::Hint)),
            Span::raw(visible(&state.filter).into_owned()),
            Span::styled("▏", styled(Tone::Hint)),
            Span::styled("  enter keeps it, esc clears it", styled(Tone::Faint)),
        ]),
        (Some(Prompt::Stop(session)), _) => {
            let title = state.find(session).map_or(session.as_str(), |row| row.title());
            Line::from(vec![
                Span::styled(
                    format!(" Stop {}? ", visible(title)),
                    styled(Tone::Warning).add_modifier(Modifier::BOLD),
                ),
                Span::raw("Its processes end; its work is kept.  "),
                Span::styled("y", styled(Tone::Warning).add_modifier(Modifier::BOLD)),
                Span::raw(" yes  "),
                Span::styled("any other key", styled(Tone::Heading)),
                Span::raw(" no "),
            ])
        }
        (None, Some(notice)) => {
            let tone = if notice.is_error { Tone::Error } else { Tone::Good };
            Line::styled(format!(" {}", visible(&notice.text)), styled(tone))
        }
        (None, None) => keys(match state.view {
            View::List => &LIST_KEYS,
            View::Log(_) => &LOG_KEYS,
            View::Rescue(_) => &RESCUE_KEYS,
            View::Help => &HELP_KEYS,
        }),
    };
    frame.render_widget(line, area);
}

const LIST_KEYS: [(&str, &str); 8] = [
    ("↑↓", "select"),
    ("enter", "output"),
    ("s", "stop"),
    ("r", "rescue"),
    ("/", "filter"),
    ("a", "all"),
    ("?", "help"),
    ("q", "quit"),
];
const LOG_KEYS: [(&str, &str); 4] = [("↑↓", "scroll"), ("G", "follow"), ("s", "stop"), ("esc", "back")];
const RESCUE_KEYS: [(&str, &str); 2] = [("↑↓", "scroll"), ("esc", "back")];
const HELP_KEYS: [(&str, &str); 1] = [("esc", "back")];

fn keys(keys: &[(&'static str, &'static str)]) -> Line<'static> {
    let mut words = vec![Span::raw(" ")];
    for (key, what) in keys {
        words.push(Span::styled(*key, styled(Tone::Heading)));
        words.push(Span::styled(format!(" {what}  "), styled(Tone::Faint)));
    }
    Line::from(words)
}

/// Returns the style for a tone, with the same colours as the other commands.
fn styled(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Heading => Style::new().add_modifier(Modifier::BOLD),
        Tone::Faint => Style::new().add_modifier(Modifier::DIM),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Active => Style::new().fg(Color::Cyan),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Error => Style::new().fg(Color::Red),
        Tone::Hint => Style::new().fg(Color::Magenta),
    }
}

#[cfg(test)]
mod tests;
