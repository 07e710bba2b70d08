//! The list of sessions, with more columns on a wider terminal.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table};
use sexton_core::duration::format_age;

use super::super::state::{Row, State};
use super::super::text::{format_cpu, format_memory};
use super::styled;
use crate::commands::ps::{command_line, status_words};
use crate::screen::{Tone, cut, visible};

/// The minimum widths at which these columns are shown.
const TICKET_FROM: u16 = 96;
const PID_FROM: u16 = 110;
const COMMAND_FROM: u16 = 140;

/// The style of the selected row, which overrides the colours and weights of its cells.
const SELECTED: Style = Style::new()
    .fg(Color::Reset)
    .add_modifier(Modifier::REVERSED)
    .remove_modifier(Modifier::DIM.union(Modifier::BOLD));

/// A column: its heading, width, alignment and content.
struct Column {
    heading: &'static str,
    width: Constraint,
    side: Alignment,
    cell: fn(&Row, &State) -> (Tone, String),
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    state.page = usize::from(area.height.saturating_sub(1));
    let shown: Vec<Row> = state.shown().into_iter().cloned().collect();
    if shown.is_empty() {
        draw_nothing(frame, area, state);
        return;
    }
    let columns = columns(area.width, &shown, state);
    let heading = columns.iter().map(|column| cell(column, Tone::Heading, column.heading.to_owned()));
    let rows = shown.iter().map(|row| {
        TableRow::new(columns.iter().map(|column| {
            let (tone, text) = (column.cell)(row, state);
            let text = visible(&text).into_owned();
            let text =
                if let Constraint::Length(width) = column.width { cut(&text, width.into()) } else { text };
            cell(column, tone, text)
        }))
    });
    let table = Table::new(rows, columns.iter().map(|column| column.width))
        .header(TableRow::new(heading))
        .column_spacing(2)
        .row_highlight_style(SELECTED)
        .highlight_symbol("▸");
    frame.render_stateful_widget(table, area, &mut state.table);
}

fn draw_nothing(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let (what, hint) = match (state.filter.is_empty(), state.all) {
        (false, _) => ("no session matches the filter", "esc clears it"),
        (true, true) => ("there are no sessions", "`sexton run -d -- COMMAND` starts one"),
        (true, false) => {
            ("no session is running", "`sexton run -d -- COMMAND` starts one; a includes finished sessions")
        }
    };
    let lines = vec![Line::raw(what), Line::styled(hint, styled(Tone::Faint))];
    let middle = Rect { y: area.y + area.height / 3, height: area.height.min(2), ..area };
    frame.render_widget(Paragraph::new(lines).centered(), middle.intersection(area));
}

fn cell(column: &Column, tone: Tone, text: String) -> Cell<'static> {
    Cell::from(Text::from(Line::styled(text, styled(tone))).alignment(column.side))
}

/// Returns the columns that fit into `width`.
fn columns(width: u16, shown: &[Row], state: &State) -> Vec<Column> {
    let left = |heading, width, cell| Column { heading, width, side: Alignment::Left, cell };
    let right = |heading, width, cell| Column {
        heading,
        width: Constraint::Length(width),
        side: Alignment::Right,
        cell,
    };
    let widest = |what: fn(&Row, &State) -> (Tone, String), least: usize, most: usize| {
        let natural = shown.iter().map(|row| visible(&what(row, state).1).chars().count()).max().unwrap_or(0);
        Constraint::Length(u16::try_from(natural.clamp(least, most)).unwrap_or(u16::MAX))
    };
    let spacious = usize::from(width) / 5;
    let mut columns = vec![left("SESSION", widest(title, 7, spacious.max(16)), title)];
    if width >= TICKET_FROM && shown.iter().any(|row| row.session.ticket.is_some()) {
        columns.push(left("TICKET", widest(ticket, 6, 14), ticket));
    }
    columns.push(left("STATUS", widest(status, 7, 19), status));
    columns.push(right("AGE", 4, age));
    if width >= PID_FROM {
        columns.push(right("PID", 7, pid));
        columns.push(right("PROCS", 5, processes));
    }
    columns.push(right("CPU", 5, cpu));
    columns.push(right("MEMORY", 6, memory));
    columns.push(left("LAST OUTPUT", Constraint::Fill(3), last_output));
    if width >= COMMAND_FROM {
        columns.push(left("COMMAND", Constraint::Fill(2), command));
    }
    columns
}

fn title(row: &Row, _: &State) -> (Tone, String) {
    (Tone::Plain, row.title().to_owned())
}

fn ticket(row: &Row, _: &State) -> (Tone, String) {
    (Tone::Plain, row.session.ticket.clone().unwrap_or_default())
}

fn status(row: &Row, _: &State) -> (Tone, String) {
    status_words(row.session.status, row.observed.as_ref())
}

fn age(row: &Row, state: &State) -> (Tone, String) {
    (Tone::Plain, format_age(row.session.created_at.age_at(state.now)))
}

fn pid(row: &Row, _: &State) -> (Tone, String) {
    let process = row.session.process.as_ref().filter(|_| row.session.status.is_active());
    (Tone::Plain, process.map(|process| process.pid.to_string()).unwrap_or_default())
}

fn processes(row: &Row, _: &State) -> (Tone, String) {
    (Tone::Plain, row.figures.map(|figures| figures.processes.to_string()).unwrap_or_default())
}

fn cpu(row: &Row, _: &State) -> (Tone, String) {
    match row.figures.and_then(|figures| figures.cpu) {
        Some(percent) if percent >= 50.0 => (Tone::Warning, format_cpu(percent)),
        Some(percent) => (Tone::Plain, format_cpu(percent)),
        None => (Tone::Plain, String::new()),
    }
}

fn memory(row: &Row, _: &State) -> (Tone, String) {
    (Tone::Plain, row.figures.map(|figures| format_memory(figures.memory)).unwrap_or_default())
}

fn last_output(row: &Row, _: &State) -> (Tone, String) {
    (Tone::Faint, row.last_line().to_owned())
}

fn command(row: &Row, _: &State) -> (Tone, String) {
    (Tone::Faint, command_line(&row.session))
}
