//! Cutting a damaged journal into the lines that it was written as, whatever happened to the breaks
//! between them.

use sexton_core::SessionId;

use crate::format::{self, Line, LineError, OPENING};
use crate::index::Span;

/// One piece of a damaged journal.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A line that can be trusted.
    Good { line: Line, span: Span, number: u64 },
    /// A line that cannot.
    Bad { number: u64, error: LineError, loss: Loss },
    /// The break between two lines that may both be whole.
    LostBreak { number: u64 },
}

/// What a bad line seems to have said. A hint for people: the line cannot be trusted, so neither can this.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    kind: Option<Kind>,
    /// The session it seems to be about.
    pub(crate) session: Option<SessionId>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Put,
    Del,
    Add,
}

impl Loss {
    /// What is lost, in words.
    pub(crate) fn describe(&self) -> String {
        let who = self.session.as_ref().map_or("a session".to_owned(), |id| format!("session {id}"));
        match self.kind {
            Some(Kind::Add) => "what it added to the counters is lost".to_owned(),
            Some(Kind::Del) => format!("the removal it recorded is lost: {who} may be listed again"),
            Some(Kind::Put) => {
                format!("the record in it is lost: {who} may be missing or show an older state")
            }
            None => format!("what it recorded is lost: {who} may be missing or show an older state"),
        }
    }

    fn guess(bytes: &[u8]) -> Loss {
        let text = String::from_utf8_lossy(bytes);
        let id_behind = |text: &str, key: &str| -> Option<SessionId> {
            let (_, rest) = text.split_once(key)?;
            rest.split_once('"')?.0.parse().ok()
        };
        if let Some((_, record)) = text.split_once("\"put\":{") {
            return Loss { kind: Some(Kind::Put), session: id_behind(record, "\"id\":\"") };
        }
        if text.contains("\"del\":\"") {
            return Loss { kind: Some(Kind::Del), session: id_behind(&text, "\"del\":\"") };
        }
        Loss { kind: text.contains("\"add\":{").then_some(Kind::Add), session: None }
    }
}

/// Cuts `bytes` into pieces. Lines are numbered as an editor numbers them.
pub(crate) fn cut(bytes: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let (line, broken) = line.strip_suffix(b"\n").map_or((line, true), |line| (line, false));
        cut_line(&mut pieces, number, at, line, broken);
        at += line.len() + 1;
    }
    pieces
}

/// Cuts what stands between two line breaks; `broken` where the second one is missing.
fn cut_line(pieces: &mut Vec<Piece>, number: u64, at: usize, line: &[u8], broken: bool) {
    if let (Ok(decoded), false) = (format::decode(line), broken) {
        let span = Span { offset: at as u64, length: line.len() };
        return pieces.push(Piece::Good { line: decoded, span, number });
    }
    let starts = starts_in(line);
    for (this, start) in starts.iter().enumerate() {
        let end = starts.get(this + 1).copied().unwrap_or(line.len());
        let lost_break = end < line.len() || broken;
        match decode_piece(&line[*start..end], lost_break) {
            Ok((decoded, length)) => {
                let span = Span { offset: (at + start) as u64, length };
                pieces.push(Piece::Good { line: decoded, span, number });
                if lost_break {
                    pieces.push(Piece::LostBreak { number });
                }
            }
            Err(error) => pieces.push(Piece::Bad { number, error, loss: Loss::guess(&line[*start..end]) }),
        }
    }
}

/// Where lines begin in `line`: at its start, and wherever it looks so.
fn starts_in(line: &[u8]) -> Vec<usize> {
    let inside = line.windows(OPENING.len()).enumerate().skip(1).filter(|(_, window)| *window == OPENING);
    std::iter::once(0).chain(inside.map(|(at, _)| at)).collect()
}

/// Reads a piece. Where its line break is lost, one byte of something else may stand in its place.
fn decode_piece(piece: &[u8], lost_break: bool) -> Result<(Line, usize), LineError> {
    let whole = format::decode(piece);
    match whole {
        Ok(line) => Ok((line, piece.len())),
        Err(error) => match piece.split_last().filter(|_| lost_break) {
            Some((_, shorter)) => {
                format::decode(shorter).map(|line| (line, shorter.len())).map_err(|_| error)
            }
            None => Err(error),
        },
    }
}
