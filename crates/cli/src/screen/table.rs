//! Tables that fit the terminal: columns are as wide as their content, and shrinkable columns are truncated on a
//! narrow terminal. External text cannot break a line or move the cursor.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::style::{Style, Tone};
use super::visible::visible;

/// A column's heading, and whether the column is truncated on a narrow terminal.
pub struct Column {
    heading: &'static str,
    shrinks: bool,
}

impl Column {
    /// Creates a column that is never truncated.
    pub fn fixed(heading: &'static str) -> Column {
        Column { heading, shrinks: false }
    }

    /// Creates a column that is truncated if there is no space.
    pub fn shrinking(heading: &'static str) -> Column {
        Column { heading, shrinks: true }
    }
}

/// A cell of a table.
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Creates a cell with a colour.
    pub fn toned(tone: Tone, text: &str) -> Cell {
        Cell { text: visible(text).into_owned(), tone }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::toned(Tone::Plain, text.as_ref())
    }
}

/// Rows under headings. Columns without any text are omitted.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// The space between columns.
const GAP: usize = 2;

/// The minimum width of a shrinking column.
const MIN_WIDTH: usize = 8;

impl Table {
    /// Creates an empty table.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table, if possible at most `width` columns wide.
    pub fn render(&self, width: Option<usize>, style: Style) -> String {
        let shown: Vec<_> = (0..self.columns.len())
            .filter(|&at| self.rows.is_empty() || self.rows.iter().any(|row| !row[at].text.is_empty()))
            .collect();
        let widths = self.fit(&shown, width);
        let headings = shown.iter().map(|&at| (self.columns[at].heading, Tone::Heading));
        let mut text = line(headings.zip(widths.iter().copied()), style);
        for row in &self.rows {
            let cells = shown.iter().map(|&at| (row[at].text.as_str(), row[at].tone));
            text.push_str(&line(cells.zip(widths.iter().copied()), style));
        }
        text
    }

    fn fit(&self, shown: &[usize], width: Option<usize>) -> Vec<usize> {
        let natural = |&at: &usize| {
            let cells = self.rows.iter().map(|row| row[at].text.width());
            cells.chain([self.columns[at].heading.width()]).max().unwrap_or(0)
        };
        let mut widths: Vec<_> = shown.iter().map(natural).collect();
        let Some(width) = width else { return widths };
        let mut excess =
            (widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)).saturating_sub(width);
        while excess > 0 {
            // Shrinks the widest shrinkable column first, by one character at a time.
            let candidates =
                (0..shown.len()).filter(|&at| self.columns[shown[at]].shrinks && widths[at] > MIN_WIDTH);
            let Some(widest) = candidates.max_by_key(|&at| widths[at]) else {
                break;
            };
            widths[widest] -= 1;
            excess -= 1;
        }
        widths
    }
}

fn line<'a>(cells: impl Iterator<Item = ((&'a str, Tone), usize)>, style: Style) -> String {
    let mut line = String::new();
    let mut pending = 0;
    for ((text, tone), width) in cells {
        let cut = cut(text, width);
        line.push_str(&" ".repeat(pending));
        line.push_str(&style.paint(tone, &cut));
        pending = width - cut.width().min(width) + GAP;
    }
    line.push('\n');
    line
}

/// Truncates `text` to at most `width` columns, with an ellipsis if anything was removed.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 0;
    for character in text.chars() {
        let more = character.width().unwrap_or(0);
        if used + more > width.saturating_sub(1) {
            break;
        }
        cut.push(character);
        used += more;
    }
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Style {
        Style::when(false)
    }

    fn sample() -> Table {
        let mut table =
            Table::new([Column::fixed("ID"), Column::fixed("NAME"), Column::shrinking("COMMAND")]);
        table.row(["a1b2".into(), "".into(), "claude -p 'work on the parser until it is done'".into()]);
        table.row(["c3d4".into(), "".into(), "sh".into()]);
        table
    }

    #[test]
    fn empty_columns_are_omitted() {
        assert!(sample().render(None, plain()).starts_with("ID    COMMAND\n"));
    }

    #[test]
    fn shrinkable_columns_are_truncated_on_a_narrow_terminal() {
        let text = sample().render(Some(24), plain());
        assert_eq!(text, "ID    COMMAND\na1b2  claude -p 'work o…\nc3d4  sh\n");
        assert!(text.lines().all(|line| line.width() <= 24));
    }

    #[test]
    fn columns_keep_a_minimum_width() {
        assert!(sample().render(Some(3), plain()).contains("a1b2  claude …"));
    }

    #[test]
    fn output_without_a_width_is_not_truncated() {
        assert!(sample().render(None, plain()).contains("until it is done'"));
    }

    #[test]
    fn wide_characters_count_as_two_columns() {
        let mut table = Table::new([Column::shrinking("NAME"), Column::fixed("X")]);
        table.row(["日本語日本語".into(), "x".into()]);
        let text = table.render(Some(11), plain());
        assert_eq!(text.lines().nth(1), Some("日本語…   x"));
    }

    #[test]
    fn text_cannot_move_the_cursor_or_break_the_line() {
        let mut table = Table::new([Column::fixed("NAME")]);
        table.row(["a\x1b[2Jb\nc".into()]);
        assert_eq!(table.render(None, plain()), "NAME\na\\u{1b}[2Jb\\nc\n");
    }
}
