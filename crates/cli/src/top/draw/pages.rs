//! The full-screen pages besides the list: a log, a rescue, the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Borders, Paragraph};
use sexton_core::duration::format_age;
use sexton_core::worktree::PathChange;
use unicode_width::UnicodeWidthChar;

use super::super::state::{State, View};
use super::styled;
use crate::screen::{Tone, visible};

fn framed(frame: &mut Frame<'_>, area: Rect, title: &str, beside: String) -> Rect {
    let block = Block::new()
        .borders(Borders::TOP)
        .border_type(BorderType::Plain)
        .border_style(styled(Tone::Faint))
        .title(Span::styled(format!(" {} ", visible(title)), styled(Tone::Heading)))
        .title(Line::styled(beside, styled(Tone::Faint)).right_aligned());
    let inside = block.inner(area);
    frame.render_widget(block, area);
    inside
}

pub(super) fn draw_log(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let height = usize::from(area.height.saturating_sub(1));
    state.page = height;
    let View::Log(log) = &mut state.view else { return };
    let (shown, back) = page_of(&log.lines, log.back, usize::from(area.width), height);
    log.back = back;
    let View::Log(log) = &state.view else { return };
    let status = state.find(&log.session).map(|row| row.session.status);
    let is_active = status.is_some_and(sexton_core::Status::is_active);
    let beside = match (back, is_active, status) {
        (1, ..) => " 1 line back ".to_owned(),
        (2.., ..) => format!(" {back} lines back "),
        (0, true, _) => " following ".to_owned(),
        (0, false, status) => status.map(|status| format!(" {status} ")).unwrap_or_default(),
    };
    let inside = framed(frame, area, &format!("output of {}", log.title), beside);
    if log.lines.is_empty() {
        let text = if is_active { "no output yet" } else { "no output" };
        frame.render_widget(Line::styled(text, styled(Tone::Faint)), inside);
    }
    frame.render_widget(Paragraph::new(shown.into_iter().map(Line::raw).collect::<Vec<_>>()), inside);
}

/// Returns the page of a log that ends `back` lines above its end, with long lines wrapped, and the actual value of
/// `back`. Before the first page, returns the first page.
fn page_of(lines: &[String], back: usize, width: usize, height: usize) -> (Vec<String>, usize) {
    let end = lines.len().saturating_sub(back);
    let mut rows = Vec::new();
    for line in lines[..end].iter().rev() {
        let folded = fold(line, width);
        rows.splice(0..0, folded);
        if rows.len() >= height {
            return (rows.split_off(rows.len() - height), back);
        }
    }
    let mut used = end;
    while rows.len() < height && used < lines.len() {
        rows.extend(fold(&lines[used], width));
        used += 1;
    }
    rows.truncate(height);
    (rows, lines.len() - used)
}

/// Wraps a line into rows of `width` columns.
fn fold(line: &str, width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for character in line.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide > width && used > 0 {
            rows.push(String::new());
            used = 0;
        }
        used += wide;
        rows.last_mut().expect("there is always one").push(character);
    }
    rows
}

pub(super) fn draw_rescue(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let View::Rescue(rescue) = &state.view else { return };
    let details = &rescue.details;
    let entry = &details.entry;
    let beside = format!(" saved {} ago ", format_age(entry.created_at.age_at(state.now)));
    let inside = framed(frame, area, &format!("rescue of {}", rescue.title), beside);
    let mut facts = vec![("ref", entry.rescue.reference.clone())];
    if let Some(head) = &details.head {
        let branch = details.branch.as_deref().unwrap_or("detached");
        facts.push(("on", format!("{branch} ({})", head.get(..12).unwrap_or(head))));
    }
    facts.push(("restore", format!("sexton rescue restore {}", entry.session)));
    let head: Vec<Line<'_>> = facts
        .into_iter()
        .map(|(label, value)| {
            Line::from(vec![
                Span::styled(format!("{label:>10}  "), styled(Tone::Faint)),
                Span::raw(visible(&value).into_owned()),
            ])
        })
        .chain([Line::raw("")])
        .collect();
    let height = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let [above, below] = Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(inside);
    frame.render_widget(Paragraph::new(head), above);
    let paths = details.paths.iter().map(|path| {
        let (mark, tone) = match path.change {
            PathChange::Added => ('A', Tone::Good),
            PathChange::Modified => ('M', Tone::Warning),
            PathChange::Deleted => ('D', Tone::Error),
        };
        let shown = visible(&path.path.display().to_string()).into_owned();
        Line::from(vec![Span::styled(format!("{mark:>10}  "), styled(tone)), Span::raw(shown)])
    });
    let left_out = details.left_out.iter().map(|left| {
        let line = format!("  not saved  {}: {}", left.path.display(), left.why);
        Line::styled(visible(&line).into_owned(), styled(Tone::Warning))
    });
    let list: Vec<Line<'_>> = paths.chain(left_out).skip(rescue.down).collect();
    frame.render_widget(Paragraph::new(list), below);
    state.page = usize::from(below.height);
}

const KEYS: [(&str, &str); 11] = [
    ("↑ ↓  j k", "select a session, or scroll"),
    ("PgUp PgDn", "scroll by a page"),
    ("g G", "go to the first or last line"),
    ("enter  l", "follow the session's output; long lines are wrapped"),
    ("s", "stop it (asks first): SIGINT, SIGTERM, SIGKILL within stop.grace"),
    ("r", "show the work saved from its worktree"),
    ("/", "filter by name, id, ticket, status or command"),
    ("a", "show or hide finished sessions"),
    ("esc  q", "back; in the list, q quits and esc clears the filter"),
    ("ctrl-z", "suspend; `fg` in the shell resumes"),
    ("?", "show this page"),
];

const NOTES: [&str; 3] = [
    "CPU is in percent of one CPU: two busy CPUs are 200%.",
    "MEMORY is the sum over all processes; shared memory counts for each of them.",
    "A yellow status was not confirmed: see `sexton recover --dry-run`.",
];

pub(super) fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let inside = framed(frame, area, "keys", String::new());
    let keys = KEYS.iter().map(|(key, what)| {
        Line::from(vec![Span::styled(format!("{key:>10}  "), styled(Tone::Heading)), Span::raw(*what)])
    });
    let notes = NOTES.iter().map(|note| Line::styled(format!("  {note}"), styled(Tone::Faint)));
    let lines: Vec<Line<'_>> = keys.chain([Line::raw("")]).chain(notes).collect();
    frame.render_widget(Paragraph::new(lines), inside);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(back: usize, width: usize, height: usize) -> (Vec<String>, usize) {
        let lines = ["one", "two and more", "three"].map(str::to_owned);
        page_of(&lines, back, width, height)
    }

    #[test]
    fn long_lines_are_wrapped() {
        assert_eq!(fold("日本語ab", 4), ["日本", "語ab"]);
        assert_eq!(page(0, 6, 3).0, ["two an", "d more", "three"]);
    }

    #[test]
    fn end_of_the_log_is_at_the_bottom_of_the_page() {
        assert_eq!(page(0, 80, 2), (vec!["two and more".into(), "three".into()], 0));
        assert_eq!(page(1, 80, 1), (vec!["two and more".into()], 1));
    }

    #[test]
    fn scrolling_stops_at_the_first_page() {
        assert_eq!(page(3, 80, 2), (vec!["one".into(), "two and more".into()], 1));
        assert_eq!(page(3, 80, 9).1, 0);
        assert_eq!(page_of(&[], 0, 80, 3), (Vec::new(), 0));
    }
}
