//! The ignore rules as git applies them: the `.gitignore` of each directory, the repository's `info/exclude`,
//! and the user's own file. The nearest file decides, and within it the last matching pattern. Nothing inside
//! an ignored directory can be included again.
//!
//! libgit2 implements these rules too, but drops a `!pattern` that includes again what another file ignores.
//! Work in such a directory would be lost.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::io::ErrorKind::{InvalidInput, IsADirectory, NotADirectory, NotFound};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use git2::Repository;
use rustix::fs::OFlags;
use rustix::io::Errno;
use sexton_durable::{LARGE_FILE, open_regular, read_within};

use super::walk::open_below;
use super::wildmatch::matches;

/// One line of an ignore file.
#[derive(Debug, PartialEq, Eq)]
struct Pattern {
    text: Vec<u8>,
    /// Whether it includes again what other patterns ignore.
    negative: bool,
    /// Whether it applies to directories only.
    directory: bool,
    /// Whether it has no slash and so applies to names at any depth.
    any_depth: bool,
}

type Patterns = Rc<Vec<Pattern>>;

/// The rules of a worktree.
pub(super) struct Rules<'a> {
    root: BorrowedFd<'a>,
    /// The patterns that apply everywhere, the nearest first.
    everywhere: Vec<Patterns>,
    /// The patterns of each directory that was queried.
    of_directory: HashMap<Vec<u8>, Patterns>,
    /// The results for directories.
    ignored: HashMap<Vec<u8>, bool>,
}

impl<'a> Rules<'a> {
    /// Loads the rules that are not in the worktree.
    pub(super) fn load(root: BorrowedFd<'a>, repository: &Repository) -> io::Result<Rules<'a>> {
        let of_repository = Some(repository.commondir().join("info/exclude"));
        let mut everywhere = Vec::new();
        for path in [of_repository, find_users_file(repository)].into_iter().flatten() {
            everywhere.push(Rc::new(load_file(&path)?));
        }
        Ok(Rules { root, everywhere, of_directory: HashMap::new(), ignored: HashMap::new() })
    }

    /// Returns whether a path is ignored, by itself or because of a directory above it.
    pub(super) fn is_ignored(&mut self, path: &[u8], is_directory: bool) -> io::Result<bool> {
        let (parent, _) = split(path);
        if !parent.is_empty() {
            let above = match self.ignored.get(parent) {
                Some(known) => *known,
                None => {
                    let above = self.is_ignored(parent, true)?;
                    self.ignored.insert(parent.to_vec(), above);
                    above
                }
            };
            if above {
                return Ok(true);
            }
        }
        self.decide(path, is_directory)
    }

    /// Returns the decision of the nearest pattern that matches the path itself.
    fn decide(&mut self, path: &[u8], is_directory: bool) -> io::Result<bool> {
        let mut base = path;
        loop {
            (base, _) = split(base);
            let patterns = self.load_directory(base)?;
            let inside = if base.is_empty() { path } else { &path[base.len() + 1..] };
            if let Some(pattern) = find_last(&patterns, inside, is_directory) {
                return Ok(!pattern.negative);
            }
            if base.is_empty() {
                break;
            }
        }
        let pattern = self.everywhere.iter().find_map(|patterns| find_last(patterns, path, is_directory));
        Ok(pattern.is_some_and(|pattern| !pattern.negative))
    }

    fn load_directory(&mut self, directory: &[u8]) -> io::Result<Patterns> {
        if let Some(known) = self.of_directory.get(directory) {
            return Ok(known.clone());
        }
        let path =
            if directory.is_empty() { b".gitignore".to_vec() } else { [directory, b"/.gitignore"].concat() };
        let patterns = match open_below(self.root, &path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(file) => read_patterns(&File::from(file))?,
            // git does not follow a symlink here either.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Vec::new(),
            Err(errno) => return Err(errno.into()),
        };
        let patterns = Rc::new(patterns);
        self.of_directory.insert(directory.to_vec(), patterns.clone());
        Ok(patterns)
    }
}

/// Returns the path of the user's own ignore file.
fn find_users_file(repository: &Repository) -> Option<PathBuf> {
    let configured = repository.config().ok()?.get_path("core.excludesfile").ok();
    configured.or_else(|| {
        let xdg = std::env::var_os("XDG_CONFIG_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".config"));
        Some(xdg.or_else(home)?.join("git/ignore"))
    })
}

fn load_file(path: &Path) -> io::Result<Vec<Pattern>> {
    match open_regular(path) {
        Ok(file) => read_patterns(&file),
        // A directory or a named pipe with that name has no rules.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory | InvalidInput) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

fn read_patterns(file: &File) -> io::Result<Vec<Pattern>> {
    // A directory or a named pipe with that name has no rules.
    if !file.metadata()?.is_file() {
        return Ok(Vec::new());
    }
    let text = read_within(file, LARGE_FILE)?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

fn parse(line: &[u8]) -> Option<Pattern> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.starts_with(b"#") {
        return None;
    }
    let line = trim_spaces(line);
    let (negative, line) = match line.strip_prefix(b"!") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (directory, text) = match line.strip_suffix(b"/") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let any_depth = !text.contains(&b'/');
    Some(Pattern { text: text.to_vec(), negative, directory, any_depth })
}

/// Removes trailing spaces that are not escaped with a backslash.
fn trim_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut position = 0;
    while position < line.len() {
        match line[position] {
            b' ' => position += 1,
            // A backslash at the very end keeps everything before it.
            b'\\' if position + 1 == line.len() => return line,
            b'\\' => {
                position += 2;
                end = position;
            }
            _ => {
                position += 1;
                end = position;
            }
        }
    }
    &line[..end]
}

/// Returns the last pattern that matches a path, relative to the directory of its file.
fn find_last<'p>(patterns: &'p [Pattern], path: &[u8], is_directory: bool) -> Option<&'p Pattern> {
    patterns.iter().rev().filter(|pattern| is_directory || !pattern.directory).find(|pattern| {
        if pattern.any_depth {
            return matches(&pattern.text, split(path).1, false);
        }
        let text = pattern.text.strip_prefix(b"/").unwrap_or(&pattern.text);
        // git compares the part before the first wildcard literally, so that `a**/b` starts like `**/b`.
        let plain = text.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'));
        let (plain, rest) = text.split_at(plain.unwrap_or(text.len()));
        path.strip_prefix(plain).is_some_and(|path| matches(rest, path, true))
    })
}

/// Splits a path into its directory, empty for the top, and its name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_parsed_as_git_parses_it() {
        let pattern = |text: &str, negative, directory, any_depth| {
            Some(Pattern { text: text.as_bytes().to_vec(), negative, directory, any_depth })
        };
        assert_eq!(parse(b"*.log  "), pattern("*.log", false, false, true));
        assert_eq!(parse(b"!build/"), pattern("build", true, true, true));
        assert_eq!(parse(b"/a/b\r"), pattern("/a/b", false, false, false));
        assert_eq!(parse(b"kept\\  "), pattern("kept\\ ", false, false, true));
        assert_eq!(parse(b"\\#a"), pattern("\\#a", false, false, true));
        assert_eq!(parse(b"# a comment"), None);
        assert_eq!(parse(b""), None);
    }
}
