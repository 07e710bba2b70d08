//! A limited part of a session's output, and the cursor at which the next part begins.

use sexton_core::Session;
use sexton_service::Output;

use crate::refusal::Refusal;

/// Default maximum number of lines in a result.
pub(crate) const DEFAULT_LINES: usize = 100;

/// Highest number of lines that a client can request.
pub(crate) const MAX_LINES: usize = 2000;

/// Maximum number of bytes of output in a result, regardless of the number of lines.
const MAX_BYTES: usize = 64 * 1024;

/// An output stream of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output, or both streams if they were not recorded separately.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A part of a session's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Excerpt {
    /// The text. Invalid UTF-8 is replaced.
    pub(crate) text: String,
    /// Where the next part begins.
    pub(crate) cursor: u64,
    /// Whether more output is already available.
    pub(crate) truncated: bool,
    /// Whether output before this part was lost.
    pub(crate) missing: bool,
    /// Whether the output is complete.
    pub(crate) eof: bool,
}

/// Reads at most `lines` lines of the output of `session`, starting at `cursor`.
pub(crate) fn load_excerpt(
    session: &Session,
    stream: Stream,
    cursor: u64,
    lines: usize,
) -> Result<Excerpt, Refusal> {
    // Checked before the output is read: nothing is written after the end is recorded.
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

/// Returns how many of `bytes` fit into `lines` lines and [`MAX_BYTES`], without splitting a character.
fn cut(bytes: &[u8], lines: usize) -> usize {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let by_lines = ends.take(lines).nth(lines.saturating_sub(1)).unwrap_or(bytes.len());
    let mut kept = by_lines.min(MAX_BYTES);
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    // A character has at most 3 continuation bytes; more are not valid UTF-8.
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
    fn excerpt_ends_after_its_last_line() {
        assert_eq!(cut(b"a\nb\nc\n", 2), 4);
        assert_eq!(cut(b"a\nb\nc", 2), 4);
        assert_eq!(cut(b"a\nb\n", 2), 4);
        assert_eq!(cut(b"a\nb", 5), 3);
        assert_eq!(cut(b"", 5), 0);
    }

    #[test]
    fn overlong_line_is_cut_between_characters() {
        let text = "→".repeat(MAX_BYTES);
        let kept = cut(text.as_bytes(), 1);
        assert!(kept <= MAX_BYTES && kept > MAX_BYTES - 3);
        assert!(text.is_char_boundary(kept));
    }

    #[test]
    fn invalid_utf8_is_cut_and_never_yields_zero_bytes() {
        assert!(cut(&vec![0x80; 2 * MAX_BYTES], 1) > MAX_BYTES - 4);
        assert_eq!(cut(&[0x80], 1), 1);
    }
}
