//! Details of the selected session, below the list.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Borders, Paragraph};

use super::super::state::{Row, State};
use super::styled;
use crate::commands::ps::command_line;
use crate::commands::show::ending;
use crate::screen::{Tone, local_time, visible};

/// The minimum height at which the end of the output is also shown.
const OUTPUT_FROM: u16 = 30;

/// Returns the height of the details within `body`.
pub(super) fn height(body: Rect) -> u16 {
    if body.height < OUTPUT_FROM { 6 } else { body.height / 2 }
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let Some(row) = state.selected() else { return };
    let title = Span::styled(format!(" {} ", row.session.id), styled(Tone::Heading));
    let block = Block::new()
        .borders(Borders::TOP)
        .border_type(BorderType::Plain)
        .border_style(styled(Tone::Faint))
        .title(title);
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let mut lines: Vec<Line<'_>> = facts(row, state)
        .into_iter()
        .map(|(label, value)| {
            let value = visible(&value).into_owned();
            Line::from(vec![Span::styled(format!("{label:>10}  "), styled(Tone::Faint)), Span::raw(value)])
        })
        .collect();
    let mut space = usize::from(inside.height).saturating_sub(lines.len());
    if space > 0 && !row.tail.is_empty() {
        if space > 3 {
            lines.push(Line::raw(""));
            space -= 1;
        }
        let tail = row.tail.iter().skip(row.tail.len().saturating_sub(space));
        lines.extend(tail.map(|line| Line::raw(format!("            {line}"))));
    }
    frame.render_widget(Paragraph::new(lines), inside);
}

/// Returns the facts about a session.
fn facts(row: &Row, state: &State) -> Vec<(&'static str, String)> {
    let session = &row.session;
    let mut facts = vec![("command", command_line(session))];
    let place = session.worktree.as_ref().map(|worktree| {
        let branch = worktree.branch.as_ref().map(|branch| format!("{branch}  ")).unwrap_or_default();
        ("worktree", format!("{branch}{}", state.shorten(worktree.path.as_path())))
    });
    let cwd = || session.cwd.as_ref().map(|cwd| ("directory", state.shorten(cwd.as_path())));
    facts.extend(place.or_else(cwd));
    let mut times = local_time(session.started_at.unwrap_or(session.created_at));
    if let Some(finished) = session.finished_at {
        times = format!("{times}  to {}", local_time(finished));
    }
    facts.push(("started", times));
    let exit = session.exit.as_ref().map(|exit| ("exit", ending(exit)));
    let recovery = session.recovery.as_ref().map(|recovery| {
        let saved = if recovery.rescue_ref.is_some() { "; its work was saved (press r)" } else { "" };
        ("recovered", format!("{}{saved}", recovery.cause))
    });
    facts.extend(recovery.or(exit));
    let owner = session.owner.as_ref().filter(|_| session.status.is_active());
    facts.extend(owner.map(|owner| ("owner", format!("process {}", owner.pid))));
    facts
}
