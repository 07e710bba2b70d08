//! Splits a damaged journal into its original lines, whatever happened to the line breaks.

use sexton_core::SessionId;

use crate::format::{self, Line, LineError, OPENING};
use crate::index::Span;

/// One piece of a damaged journal.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A valid line.
    Good { line: Line, span: Span, number: u64 },
    /// A line that is not valid.
    Bad { number: u64, error: LineError, loss: Loss },
    /// A lost break between two lines that may both be intact.
    LostBreak { number: u64 },
}

/// The apparent content of a bad line. Only a hint for the user: the line is not valid, so neither is this.
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
    /// Describes what is lost.
    pub(crate) fn describe(&self) -> String {
        let subject = self.session.as_ref().map_or("a session".to_owned(), |id| format!("session {id}"));
        match self.kind {
            Some(Kind::Add) => "what it added to the counters is lost".to_owned(),
            Some(Kind::Del) => format!("the removal it recorded is lost: {subject} may be listed again"),
            Some(Kind::Put) => {
                format!("the record in it is lost: {subject} may be missing or show an older state")
            }
            None => format!("what it recorded is lost: {subject} may be missing or show an older state"),
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

/// Splits `bytes` into pieces. Lines are numbered as in an editor.
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

/// Splits the bytes between two line breaks; `broken` if the second break is missing.
fn cut_line(pieces: &mut Vec<Piece>, number: u64, at: usize, line: &[u8], broken: bool) {
    if let (Ok(decoded), false) = (format::decode(line), broken) {
        let span = Span { offset: at as u64, length: line.len() };
        return pieces.push(Piece::Good { line: decoded, span, number });
    }
    let starts = starts_in(line);
    let next_start = |from: usize| {
        starts.get(starts.partition_point(|start| *start < from)).copied().unwrap_or(line.len())
    };
    let (mut start, mut reparses) = (0, MAX_REPARSES);
    loop {
        let mut end = next_start(start + 1);
        let mut found = decode_piece(&line[start..end], end < line.len() || broken);
        if found.is_err() && end < line.len() && reparses > 0 {
            reparses -= 1;
            // An apparent next line may be an object in this line's record.
            if let Some(length) = find_length(&line[start..]).filter(|length| start + length > end) {
                end = next_start(start + length);
                found = decode_piece(&line[start..start + length], false);
            }
        }
        match found {
            Ok((decoded, length)) => {
                let span = Span { offset: (at + start) as u64, length };
                pieces.push(Piece::Good { line: decoded, span, number });
                if end < line.len() || broken {
                    pieces.push(Piece::LostBreak { number });
                }
            }
            Err(error) => pieces.push(Piece::Bad { number, error, loss: Loss::guess(&line[start..end]) }),
        }
        if end == line.len() {
            return;
        }
        start = end;
    }
}

/// The number of joined lines that are parsed again this way. Only a file that was crafted to be slow has
/// more.
const MAX_REPARSES: usize = 64;

/// Returns the length of the JSON value at the start of `bytes`.
fn find_length(bytes: &[u8]) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// Returns where lines may start in `line`: at its start, and at every opening in it.
fn starts_in(line: &[u8]) -> Vec<usize> {
    let inside = line.windows(OPENING.len()).enumerate().skip(1).filter(|(_, window)| *window == OPENING);
    std::iter::once(0).chain(inside.map(|(at, _)| at)).collect()
}

/// Decodes a piece. If its line break is lost, one other byte may be in its place.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Place;

    /// Returns two lines of a journal; the record in the first contains an object that resembles the start of
    /// a line.
    fn lines(tag: &str) -> [Vec<u8>; 2] {
        [("a", tag), ("b", "{}")].map(|(id, tags)| {
            let record = format!(
                r#"{{"schema":1,"id":"{id}","status":"failed","created_at":"2026-01-02T03:04:05Z","tags":{tags}}}"#
            );
            let mut line = Vec::new();
            format::write_put(&mut line, 1, Place::Part { seq: 1, number: 1, of: 1 }, &record);
            line
        })
    }

    #[test]
    fn i6_a_nested_line_opening_survives_a_lost_line_break() {
        for tags in [r#"{"crc":"5d0a6c1e"}"#, r#"{"crc":"5d0a6c1e","x":"{\"crc\":\""}"#] {
            let [mut first, second] = lines(tags);
            *first.last_mut().unwrap() = b'x';
            let pieces = cut(&[first, second].concat());
            let [Piece::Good { .. }, Piece::LostBreak { .. }, Piece::Good { .. }] = pieces.as_slice() else {
                panic!("{pieces:?}")
            };
        }
    }

    #[test]
    fn i6_a_damaged_line_with_a_nested_opening_is_one_bad_line() {
        let [mut first, second] = lines(r#"{"crc":"5d0a6c1e"}"#);
        let inside = first.windows(6).position(|window| window == b"failed").unwrap();
        first[inside] ^= 1;
        let pieces = cut(&[first, second].concat());
        assert!(matches!(pieces.as_slice(), [Piece::Bad { .. }, Piece::Good { .. }]), "{pieces:?}");
    }
}
