//! Patterns such as `cargo *`, and which commands match them.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::words::split_words;

/// An invalid pattern.
#[derive(Debug, thiserror::Error)]
#[error("`{key}` has `{text}`, which is not a valid pattern: {why}", text = .text.escape_debug())]
pub struct PatternError {
    key: &'static str,
    text: String,
    why: String,
}

/// A pattern of words: the program, then one word for each argument. `*` matches any characters within a word; as the
/// whole last word it matches any number of words, including none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    program: String,
    arguments: Vec<String>,
    open: bool,
}

/// The word that matches anything.
const ANYTHING: &str = "*";

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    /// Parses a pattern of the setting `key`.
    pub(super) fn parse(key: &'static str, text: &str) -> Result<Pattern, PatternError> {
        let mut words = split_words(text).map_err(|error| PatternError {
            key,
            text: text.to_owned(),
            why: error.to_string(),
        })?;
        let program = words.remove(0);
        // `*` alone matches any program with any arguments.
        let open = words.last().map_or(program == ANYTHING, |last| last == ANYTHING);
        if open {
            words.pop();
        }
        Ok(Pattern { text: text.to_owned(), program, arguments: words, open })
    }

    /// Returns whether the pattern names one program.
    pub(super) fn names_program(&self) -> bool {
        !self.program.contains('*')
    }

    /// Returns whether the pattern allows `command` in `directory`. A program without a slash is found in PATH and
    /// matches only a pattern without a slash. A program with a slash is a path relative to `directory`; a pattern with
    /// a slash is a path relative to the server's working directory.
    pub(super) fn allows(&self, command: &[OsString], directory: &Path) -> bool {
        let Some((program, arguments)) = command.split_first() else { return false };
        let program_matches = match (self.program == ANYTHING, has_slash(program), self.program.contains('/'))
        {
            (true, _, _) => true,
            (false, false, false) => matches(&self.program, program),
            (false, true, true) => match (absolute(Path::new(program), directory), self.absolute()) {
                (Some(program), Some(pattern)) => matches(&pattern, program.as_os_str()),
                _ => false,
            },
            (false, _, _) => false,
        };
        program_matches && self.arguments_match(arguments)
    }

    /// Returns whether the pattern denies `command`. It matches the program's file name in any directory, unless the
    /// pattern has a slash and so means one path.
    pub(super) fn denies(&self, command: &[OsString]) -> bool {
        let Some((program, arguments)) = command.split_first() else { return false };
        let name = Path::new(program).file_name().unwrap_or(program);
        let program_matches = matches(&self.program, program) || matches(&self.program, name);
        program_matches && self.arguments_match(arguments)
    }

    /// Returns the absolute path of the program of a pattern with a slash.
    fn absolute(&self) -> Option<Cow<'_, str>> {
        if self.program.starts_with(['/', '*']) {
            return Some(Cow::Borrowed(&self.program));
        }
        let here = std::env::current_dir().ok()?;
        absolute(Path::new(&self.program), &here)?.into_os_string().into_string().ok().map(Cow::Owned)
    }

    fn arguments_match(&self, arguments: &[OsString]) -> bool {
        let enough = if self.open {
            arguments.len() >= self.arguments.len()
        } else {
            arguments.len() == self.arguments.len()
        };
        enough && self.arguments.iter().zip(arguments).all(|(pattern, word)| matches(pattern, word))
    }
}

fn has_slash(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

/// Returns the absolute path of a program without `.` components. A path with `..` has none: where it leads can change
/// until the program is executed.
fn absolute(program: &Path, directory: &Path) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in directory.join(program).components() {
        match component {
            Component::ParentDir => return None,
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    Some(path)
}

/// Returns whether `word` matches `pattern`.
fn matches(pattern: &str, word: &OsStr) -> bool {
    let word = word.as_bytes();
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern.as_bytes() == word };
    let Some(mut left) = word.strip_prefix(begin.as_bytes()) else { return false };
    let mut parts: Vec<_> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        // The first match leaves the most text for the other parts.
        let Some(at) = find(left, part.as_bytes()) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(end.as_bytes())
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() { Some(0) } else { text.windows(part.len()).position(|window| window == part) }
}
