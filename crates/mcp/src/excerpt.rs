//! A part of a session's output that is not too much for a conversation, and the cursor to go on from.

use sexton_core::Session;
use sexton_embed::Output;

use crate::refusal::Refusal;

/// How many lines an answer has at most, where nobody asked for more.
pub(crate) const DEFAULT_LINES: usize = 100;

/// How many lines anybody can ask for.
pub(crate) const MAX_LINES: usize = 2000;

/// How many bytes of output an answer has at most, however few lines they are.
const MAX_BYTES: usize = 64 * 1024;

/// Which of a session's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output; both where they were not kept apart.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A part of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Excerpt {
    /// The text; what is not UTF-8 is replaced.
    pub(crate) text: String,
    /// Where the next part begins.
    pub(crate) cursor: u64,
    /// Whether more is there already.
    pub(crate) truncated: bool,
    /// Whether something before it is no longer there.
    pub(crate) missing: bool,
    /// Whether nothing will ever follow.
    pub(crate) eof: bool,
}

/// What stands in the output of `session` from `cursor` on, at most so many lines of it.
pub(crate) fn load_excerpt(
    session: &Session,
    stream: Stream,
    cursor: u64,
    lines: usize,
) -> Result<Excerpt, Refusal> {
    // Asked before the output is read: what is written after an end was recorded does not exist.
    let ended = !session.status.is_active();
    let mut output = Output::of(session, stream == Stream::Stderr, cursor)?;
    let chunk = output.read()?;
    let kept = cut(&chunk.bytes, lines);
    let cursor = chunk.cursor - (chunk.bytes.len() - kept) as u64;
    let truncated = kept < chunk.bytes.len() || !output.is_at_end()?;
    let text = String::from_utf8_lossy(&chunk.bytes[..kept]).into_owned();
    let missing = chunk.truncated && !(text.is_empty() && cursor == 0);
    Ok(Excerpt { text, cursor, truncated, missing, eof: ended && !truncated })
}

/// How many of these bytes are at most so many lines and not too many bytes. Never ends within a character.
fn cut(bytes: &[u8], lines: usize) -> usize {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let by_lines = ends.take(lines).nth(lines.saturating_sub(1)).unwrap_or(bytes.len());
    let mut kept = by_lines.min(MAX_BYTES);
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    // A character has at most three bytes after its first; more of that kind are no text anyway.
    for _ in 0..3 {
        if kept > 1 && is_inside(kept) {
            kept -= 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_ends_after_its_last_line() {
        assert_eq!(cut(b"a\nb\nc\n", 2), 4);
        assert_eq!(cut(b"a\nb\nc", 2), 4);
        assert_eq!(cut(b"a\nb\n", 2), 4);
        assert_eq!(cut(b"a\nb", 5), 3);
        assert_eq!(cut(b"", 5), 0);
    }

    #[test]
    fn a_line_without_end_is_cut_between_characters() {
        let text = "→".repeat(MAX_BYTES);
        let kept = cut(text.as_bytes(), 1);
        assert!(kept <= MAX_BYTES && kept > MAX_BYTES - 3);
        assert!(text.is_char_boundary(kept));
    }

    #[test]
    fn bytes_that_are_no_text_are_cut_as_well_and_progress_is_always_made() {
        assert!(cut(&vec![0x80; 2 * MAX_BYTES], 1) > MAX_BYTES - 4);
        assert_eq!(cut(&[0x80], 1), 1);
    }
}
