//! Strict reading of a journal: header, base lines, then complete commits without gaps.
//!
//! Every intact journal takes this path. It stops at the first unexpected byte and guesses nothing; `health`
//! decides what that byte means.

use std::io::BufRead;

use crate::format::{self, ChangeLine, Header, Line, OLDEST, Place};
use crate::index::{Index, Span};

/// The state after the last complete commit.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// The header, which identifies the store.
    pub(crate) header: Header,
    /// The records.
    pub(crate) index: Index,
    /// The number of the last complete commit.
    pub(crate) seq: u64,
    /// The end of that commit in the file.
    pub(crate) end: u64,
    /// The number of lines up to there.
    pub(crate) lines: u64,
}

/// What follows the last complete commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing: the journal ends there.
    Nothing,
    /// Only the start of the next commit: a writer is writing now, or was killed while writing.
    Torn,
    /// Something that no writer produces.
    Irregular,
}

/// Why a journal cannot be read strictly from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoImage {
    /// A newer version wrote it.
    Newer,
    /// Its header or base lines are invalid.
    Broken,
}

impl Image {
    /// Returns the state of a journal before the first write.
    pub(crate) fn empty(store: String) -> Image {
        let header = Header { format: OLDEST, store, seq: 0, base: 0 };
        Image { header, index: Index::default(), seq: 0, end: 0, lines: 0 }
    }

    /// Reads a whole journal.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Image, Rest), NoImage> {
        let mut lines = Lines { bytes, at: 0 };
        let header = match lines.next().map(|(_, line)| format::decode(line)) {
            Some(Ok(Line::Header(header))) if header.format > format::newest() => return Err(NoImage::Newer),
            Some(Ok(Line::Header(header))) => header,
            _ => return Err(NoImage::Broken),
        };
        let seq = header.seq;
        let mut image = Image { header, index: Index::default(), seq, end: 0, lines: 1 };
        for number in 1..=image.header.base {
            let (span, line) = lines.next().ok_or(NoImage::Broken)?;
            let expected = Place::Base { number, of: image.header.base };
            match format::decode(line) {
                Ok(Line::Change(line)) if line.place == expected => {
                    image.index.apply(line.seq, line.change, span);
                }
                _ => return Err(NoImage::Broken),
            }
            image.lines += 1;
        }
        image.end = lines.at as u64;
        let rest = image.extend(&bytes[lines.at..]);
        Ok((image, rest))
    }

    /// Applies the complete commits in `bytes`, which start at `end`.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> Rest {
        let start = self.end;
        let mut lines = Lines { bytes, at: 0 };
        let mut commit: Vec<(ChangeLine, Span)> = Vec::new();
        while let Some((span, line)) = lines.next() {
            let span = Span { offset: start + span.offset, ..span };
            let number = commit.len() as u64 + 1;
            let of = match format::decode(line) {
                Ok(Line::Change(line)) => match line.place {
                    Place::Part { seq, number: found, of } if seq == self.seq + 1 && found == number => {
                        commit.push((line, span));
                        of
                    }
                    _ => return Rest::Irregular,
                },
                _ => return Rest::Irregular,
            };
            let same_commit =
                commit.iter().all(|(line, _)| matches!(line.place, Place::Part { of: its, .. } if its == of));
            if number > of || !same_commit {
                return Rest::Irregular;
            }
            if number == of {
                self.apply(&mut commit, start + lines.at as u64);
            }
        }
        if self.end - start == bytes.len() as u64 { Rest::Nothing } else { Rest::Torn }
    }

    fn apply(&mut self, commit: &mut Vec<(ChangeLine, Span)>, end: u64) {
        self.lines += commit.len() as u64;
        for (line, span) in commit.drain(..) {
            self.index.apply(line.seq, line.change, span);
        }
        self.seq += 1;
        self.end = end;
    }
}

/// The lines that end with a line break; a last line without one is not returned.
pub(crate) struct Lines<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (Span, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.bytes[self.at..];
        // The standard library's fast byte search is available only through this reader.
        let line = &rest[..{ rest }.skip_until(b'\n').ok()?];
        let line = line.strip_suffix(b"\n")?;
        let span = Span { offset: self.at as u64, length: line.len() };
        self.at += line.len() + 1;
        Some((span, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{"schema":1,"id":"ID","status":"running","created_at":"2026-01-02T03:04:05Z"}"#;

    fn header(base: u64, seq: u64) -> Vec<u8> {
        let mut out = Vec::new();
        format::write_header(&mut out, &Header { format: OLDEST, store: "s".into(), seq, base });
        out
    }

    fn part(out: &mut Vec<u8>, seq: u64, number: u64, of: u64) {
        let record = RECORD.replace("ID", &format!("id-{seq}-{number}"));
        format::write_put(out, seq, Place::Part { seq, number, of }, &record);
    }

    #[test]
    fn complete_commits_count_and_incomplete_ones_do_not() {
        let mut bytes = header(0, 0);
        part(&mut bytes, 1, 1, 2);
        part(&mut bytes, 1, 2, 2);
        let whole = bytes.len() as u64;
        part(&mut bytes, 2, 1, 2);
        let (image, rest) = Image::read(&bytes).unwrap();
        assert_eq!((image.seq, image.end, image.lines, rest), (1, whole, 3, Rest::Torn));
        assert_eq!(image.index.in_file_order().len(), 2);
    }

    #[test]
    fn i6_a_truncated_commit_is_torn_and_the_previous_one_is_kept() {
        let mut bytes = header(0, 0);
        part(&mut bytes, 1, 1, 1);
        let whole = bytes.len();
        part(&mut bytes, 2, 1, 2);
        part(&mut bytes, 2, 2, 2);
        for cut in whole + 1..bytes.len() {
            let (image, rest) = Image::read(&bytes[..cut]).unwrap();
            assert_eq!((image.seq, image.end, rest), (1, whole as u64, Rest::Torn), "cut at {cut}");
        }
    }

    #[test]
    fn reading_in_two_steps_equals_reading_in_one() {
        let mut bytes = header(0, 5);
        (6..10).for_each(|seq| part(&mut bytes, seq, 1, 1));
        let (whole, _) = Image::read(&bytes).unwrap();
        for cut in header(0, 5).len()..bytes.len() {
            let (mut image, _) = Image::read(&bytes[..cut]).unwrap();
            let end = usize::try_from(image.end).unwrap();
            assert_eq!(image.extend(&bytes[end..]), Rest::Nothing);
            assert_eq!((image.seq, image.end, image.lines), (whole.seq, whole.end, whole.lines));
            let spans = |image: &Image| -> Vec<_> {
                image.index.in_file_order().iter().map(|(_, entry)| entry.span).collect()
            };
            assert_eq!(spans(&image), spans(&whole));
        }
    }

    #[test]
    fn gaps_repetitions_and_wrong_parts_are_irregular() {
        for parts in
            [[(1, 1, 1), (3, 1, 1)], [(1, 1, 1), (1, 1, 1)], [(1, 2, 2), (1, 1, 2)], [(1, 1, 2), (1, 2, 3)]]
        {
            let mut bytes = header(0, 0);
            parts.iter().for_each(|(seq, number, of)| part(&mut bytes, *seq, *number, *of));
            assert_eq!(Image::read(&bytes).unwrap().1, Rest::Irregular, "{parts:?}");
        }
    }

    #[test]
    fn missing_base_lines_make_the_journal_broken() {
        let mut bytes = header(2, 9);
        format::write_put(&mut bytes, 4, Place::Base { number: 1, of: 2 }, &RECORD.replace("ID", "a"));
        assert_eq!(Image::read(&bytes).err(), Some(NoImage::Broken));
        format::write_put(&mut bytes, 9, Place::Base { number: 2, of: 2 }, &RECORD.replace("ID", "b"));
        let (image, rest) = Image::read(&bytes).unwrap();
        assert_eq!((image.seq, rest), (9, Rest::Nothing));
        assert_eq!(image.index.find(&"a".parse().unwrap()).unwrap().seq, 4);
    }
}
