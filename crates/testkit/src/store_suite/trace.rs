//! Parses the output of strace: system calls with their files and data, in the order in which they returned.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The calls that [`read_calls`] parses: those that write files, name them, and sync both.
pub(super) const TRACED: &str =
    "trace=openat,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,rename,renameat,renameat2";

/// A successful call.
#[derive(Debug)]
pub(super) enum Call {
    /// Wrote data.
    Write {
        /// The descriptor.
        descriptor: u32,
        /// The file.
        path: PathBuf,
        /// The call in strace's format, with the data.
        text: String,
    },
    /// Opened a file with `O_CREAT`.
    Make(PathBuf),
    /// Synced a file or directory.
    Sync(PathBuf),
    /// Renamed a file.
    Rename {
        /// Old path.
        from: PathBuf,
        /// New path.
        to: PathBuf,
    },
}

impl Call {
    /// Returns whether it wrote `wanted` to standard output.
    pub(super) fn prints(&self, wanted: &str) -> bool {
        matches!(self, Call::Write { descriptor: 1, text, .. } if text.contains(wanted))
    }

    /// Returns the file to which it wrote `wanted`, if it did.
    pub(super) fn find_written(&self, wanted: &str) -> Option<&Path> {
        match self {
            Call::Write { path, text, .. } if text.contains(wanted) => Some(path),
            _ => None,
        }
    }

    /// Returns whether it may have created `wanted`.
    pub(super) fn makes(&self, wanted: &Path) -> bool {
        matches!(self, Call::Make(path) if path == wanted)
    }

    /// Returns whether it synced `wanted`.
    pub(super) fn syncs(&self, wanted: &Path) -> bool {
        matches!(self, Call::Sync(path) if path == wanted)
    }
}

/// Parses a trace made with `-f -y`.
pub(super) fn read_calls(trace: &str) -> Vec<Call> {
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((thread, rest)) = line.trim_start().split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(start) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, start);
        } else if let Some((_, end)) = rest.split_once(" resumed>") {
            // Ordered by return, because a sync is complete only then.
            let start = begun.remove(thread).unwrap_or_default();
            calls.extend(read_call(&format!("{start}{end}")));
        } else {
            calls.extend(read_call(rest));
        }
    }
    calls
}

/// Parses `name(FD<path>, …) = result` or `rename("from", "to") = 0`. Returns `None` for a failed call and for anything
/// else.
fn read_call(text: &str) -> Option<Call> {
    let (name, arguments) = text.split_once('(')?;
    let (_, result) = text.rsplit_once(" = ")?;
    if result.starts_with('-') {
        return None;
    }
    if name.starts_with("rename") {
        let mut words = arguments.split('"');
        let mut path = || Some(folder(words.next()?).join(words.next()?));
        return Some(Call::Rename { from: path()?, to: path()? });
    }
    if name == "openat" {
        let (_, opened) = result.split_once('<')?;
        let path = opened.trim_end().strip_suffix('>')?;
        return arguments.contains("O_CREAT").then(|| Call::Make(path.into()));
    }
    let (descriptor, rest) = arguments.split_once('<')?;
    let path = PathBuf::from(rest.split_once('>')?.0);
    Some(match name {
        "fsync" | "fdatasync" => Call::Sync(path),
        _ => Call::Write { descriptor: descriptor.parse().ok()?, path, text: text.to_owned() },
    })
}

/// Returns the directory of `FD<path>, `, to which the following path is relative unless it is absolute.
fn folder(text: &str) -> PathBuf {
    text.rsplit_once('<')
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(path, _)| path.into())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_ordered_by_return() {
        let trace = "10 openat(AT_FDCWD</>, \"/s/j\", O_WRONLY|O_CREAT, 0600) = 4</s/j>\n\
                     10 openat(AT_FDCWD</>, \"/s/k\", O_RDONLY) = 5</s/k>\n\
                     10 write(4</s/j>, \"{\\\"id\\\":1}\\n\", 9) = 9\n\
                     10 fdatasync(4</s/j> <unfinished ...>\n\
                     11 write(1<pipe:[5]>, \"one\\n\", 4) = 4\n\
                     10 <... fdatasync resumed>) = 0\n\
                     10 fsync(5</s>) = -1 EIO (Input/output error)\n\
                     10 rename(\"/s/j.tmp\", \"/s/j\") = 0\n\
                     10 renameat(5</s/t>, \"a\", 6</s>, \"b\") = 0\n\
                     10 +++ exited with 0 +++\n";
        let calls = read_calls(trace);
        let [make, write, print, sync, rename, inside] = calls.as_slice() else { panic!("{calls:?}") };
        assert!(make.makes(Path::new("/s/j")));
        assert_eq!(write.find_written("id"), Some(Path::new("/s/j")));
        assert!(print.prints("one") && !write.prints("id"));
        assert!(sync.syncs(Path::new("/s/j")));
        let Call::Rename { from, to } = rename else { panic!("{rename:?}") };
        assert_eq!((from.as_path(), to.as_path()), (Path::new("/s/j.tmp"), Path::new("/s/j")));
        let Call::Rename { from, to } = inside else { panic!("{inside:?}") };
        assert_eq!((from.as_path(), to.as_path()), (Path::new("/s/t/a"), Path::new("/s/b")));
    }
}
