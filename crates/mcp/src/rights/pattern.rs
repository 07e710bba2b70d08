//! A pattern of words, such as `cargo *`, and which commands fit it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::words::split_words;

/// A pattern that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("`{key}` has `{text}`, which is no pattern of words: {why}", text = .text.escape_debug())]
pub struct PatternError {
    key: &'static str,
    text: String,
    why: String,
}

/// A pattern of words. The first is the program, the others its arguments, one word of the pattern for one
/// word of the command. `*` stands for any characters of a word; as the whole last word for any number of
/// words, none included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    program: String,
    arguments: Vec<String>,
    open: bool,
}

/// What stands for anything.
const ANYTHING: &str = "*";

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    /// Reads a pattern of the setting `key`.
    pub(super) fn parse(key: &'static str, text: &str) -> Result<Pattern, PatternError> {
        let mut words = split_words(text).map_err(|error| PatternError {
            key,
            text: text.to_owned(),
            why: error.to_string(),
        })?;
        let program = words.remove(0);
        // `*` alone is any program with any words.
        let open = words.last().map_or(program == ANYTHING, |last| last == ANYTHING);
        if open {
            words.pop();
        }
        Ok(Pattern { text: text.to_owned(), program, arguments: words, open })
    }

    /// Whether it says which program it is about.
    pub(super) fn names_program(&self) -> bool {
        !self.program.contains('*')
    }

    /// Whether it allows this command in this directory. A program without a slash is one that PATH finds,
    /// and only a pattern without a slash speaks of it. One with a slash is a path from the directory; a
    /// pattern's is a path from where the server works.
    pub(super) fn allows(&self, command: &[OsString], directory: &Path) -> bool {
        let Some((program, arguments)) = command.split_first() else { return false };
        let program_fits = match (self.program == ANYTHING, has_slash(program), self.program.contains('/')) {
            (true, _, _) => true,
            (false, false, false) => fits(&self.program, program),
            (false, true, true) => match (place(Path::new(program), directory), self.place()) {
                (Some(program), Some(pattern)) => fits(&pattern, program.as_os_str()),
                _ => false,
            },
            (false, _, _) => false,
        };
        program_fits && self.arguments_fit(arguments)
    }

    /// Whether it denies this command: by the program's own name, wherever it lies, unless the pattern has a
    /// slash and means one place.
    pub(super) fn denies(&self, command: &[OsString]) -> bool {
        let Some((program, arguments)) = command.split_first() else { return false };
        let name = Path::new(program).file_name().unwrap_or(program);
        let program_fits = fits(&self.program, program) || fits(&self.program, name);
        program_fits && self.arguments_fit(arguments)
    }

    /// Where the program of a pattern with a slash lies.
    fn place(&self) -> Option<Cow<'_, str>> {
        if self.program.starts_with(['/', '*']) {
            return Some(Cow::Borrowed(&self.program));
        }
        let here = std::env::current_dir().ok()?;
        place(Path::new(&self.program), &here)?.into_os_string().into_string().ok().map(Cow::Owned)
    }

    fn arguments_fit(&self, arguments: &[OsString]) -> bool {
        let enough = if self.open {
            arguments.len() >= self.arguments.len()
        } else {
            arguments.len() == self.arguments.len()
        };
        enough && self.arguments.iter().zip(arguments).all(|(pattern, word)| fits(pattern, word))
    }
}

fn has_slash(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// The absolute path of a program, without `.` in it. One with `..` in it has none: where that leads is
/// the file system's secret until the moment it is executed.
fn place(program: &Path, directory: &Path) -> Option<PathBuf> {
    let mut place = PathBuf::new();
    for component in directory.join(program).components() {
        match component {
            Component::ParentDir => return None,
            Component::CurDir => {}
            other => place.push(other),
        }
    }
    Some(place)
}

/// Whether a word fits a word of a pattern.
fn fits(pattern: &str, word: &OsStr) -> bool {
    let word = word.as_bytes();
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern.as_bytes() == word };
    let Some(mut left) = word.strip_prefix(begin.as_bytes()) else { return false };
    let mut parts: Vec<_> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        // The first place where a part fits leaves most for the others.
        let Some(at) = find(left, part.as_bytes()) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(end.as_bytes())
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() { Some(0) } else { text.windows(part.len()).position(|window| window == part) }
}
