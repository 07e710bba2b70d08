//! Reading what strace wrote: which call went to which file, with what, in the order they returned.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The calls that [`read_calls`] understands: those that carry data into files, give files their names,
/// and make both durable.
pub(super) const TRACED: &str =
    "trace=openat,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,rename,renameat,renameat2";

/// One call that succeeded.
#[derive(Debug)]
pub(super) enum Call {
    /// Data was written.
    Write {
        /// Through this descriptor.
        descriptor: u32,
        /// To the file behind it.
        path: PathBuf,
        /// The call as strace shows it, with the data.
        text: String,
    },
    /// A file was opened, and made where there was none.
    Make(PathBuf),
    /// A file or directory was made durable.
    Sync(PathBuf),
    /// A file got another name.
    Rename {
        /// Its old one.
        from: PathBuf,
        /// Its new one.
        to: PathBuf,
    },
}

impl Call {
    /// Whether it wrote `text` to standard output.
    pub(super) fn says(&self, said: &str) -> bool {
        matches!(self, Call::Write { descriptor: 1, text, .. } if text.contains(said))
    }

    /// The file that it wrote `text` to, if it did.
    pub(super) fn find_written(&self, wanted: &str) -> Option<&Path> {
        match self {
            Call::Write { path, text, .. } if text.contains(wanted) => Some(path),
            _ => None,
        }
    }

    /// Whether `path` was there after it, though it may not have been before.
    pub(super) fn makes(&self, wanted: &Path) -> bool {
        matches!(self, Call::Make(path) if path == wanted)
    }

    /// Whether it made `path` durable.
    pub(super) fn syncs(&self, wanted: &Path) -> bool {
        matches!(self, Call::Sync(path) if path == wanted)
    }
}

/// The calls of a trace made with `-f -y`.
pub(super) fn read_calls(trace: &str) -> Vec<Call> {
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((thread, rest)) = line.trim_start().split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(start) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(thread, start);
        } else if let Some((_, end)) = rest.split_once(" resumed>") {
            // It counts from when it returned: until then a sync has promised nothing.
            let start = begun.remove(thread).unwrap_or_default();
            calls.extend(read_call(&format!("{start}{end}")));
        } else {
            calls.extend(read_call(rest));
        }
    }
    calls
}

/// Reads `name(FD<path>, …) = result` or `rename("from", "to") = 0`; `None` for a call that failed, and
/// for anything else.
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

/// The directory of `FD<path>, `, in which a name that follows is looked up; an absolute one leaves it.
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
    fn calls_are_read_in_the_order_they_returned() {
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
        let [make, write, said, sync, rename, inside] = calls.as_slice() else { panic!("{calls:?}") };
        assert!(make.makes(Path::new("/s/j")));
        assert_eq!(write.find_written("id"), Some(Path::new("/s/j")));
        assert!(said.says("one") && !write.says("id"));
        assert!(sync.syncs(Path::new("/s/j")));
        let Call::Rename { from, to } = rename else { panic!("{rename:?}") };
        assert_eq!((from.as_path(), to.as_path()), (Path::new("/s/j.tmp"), Path::new("/s/j")));
        let Call::Rename { from, to } = inside else { panic!("{inside:?}") };
        assert_eq!((from.as_path(), to.as_path()), (Path::new("/s/t/a"), Path::new("/s/b")));
    }
}
