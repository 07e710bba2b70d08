//! `cargo xtask install`: puts the distributed program, its man pages and its completions below a prefix.
//!
//! Every file is written completely beside its destination before the first one is renamed. So a running program
//! keeps its old file, and an installation that fails while it writes changes no file. Nothing is ever removed: the
//! prefix may be shared with other programs.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use sexton_workspace::{dist, root};
use tempfile::TempPath;

use crate::Result;

/// Where the program goes, below the prefix.
const PROGRAM: &str = "bin/sexton";

/// The folder of the man pages, below docs/ and below the prefix.
const MAN: (&str, &str) = ("man", "share/man/man1");

/// The completions, below docs/ and below the prefix. The destinations are where each shell looks by itself.
const COMPLETIONS: [(&str, &str); 3] = [
    ("completions/sexton.bash", "share/bash-completion/completions/sexton"),
    ("completions/_sexton", "share/zsh/site-functions/_sexton"),
    ("completions/sexton.fish", "share/fish/vendor_completions.d/sexton.fish"),
];

/// The modes of the program and of the other files.
const EXECUTABLE: u32 = 0o755;
const READABLE: u32 = 0o644;

/// The options of `install`.
#[derive(clap::Args)]
pub(crate) struct InstallArguments {
    /// The directory to install into [default: ~/.local]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

/// A file to install.
struct Item {
    source: PathBuf,
    destination: PathBuf,
    mode: u32,
}

/// Builds the program and installs everything.
pub(crate) fn run(arguments: &InstallArguments) -> Result {
    let prefix = require_prefix(arguments.prefix.as_deref(), std::env::home_dir())?;
    let mut items = find_documents(&root().join("docs"), &prefix)?;
    // The build takes minutes, so everything that can be checked is checked before it.
    let program = prefix.join(PROGRAM);
    for destination in items.iter().map(|item| &item.destination).chain([&program]) {
        require_replaceable(destination)?;
    }
    items.push(Item { source: dist::build()?, destination: program, mode: EXECUTABLE });
    install(&items)?;
    print!("{}", summary(&prefix, &items));
    let bin = prefix.join("bin");
    if !is_on_path(&bin, &std::env::var_os("PATH").unwrap_or_default()) {
        eprintln!("hint: add {} to PATH", bin.display());
    }
    Ok(())
}

/// Returns the absolute prefix: the given one, or `~/.local`.
fn require_prefix(given: Option<&Path>, home: Option<PathBuf>) -> Result<PathBuf> {
    let Some(given) = given else {
        let home = home.filter(|home| home.is_absolute());
        return Ok(home.ok_or("the home directory is unknown\nhint: use --prefix DIR")?.join(".local"));
    };
    if given.as_os_str().as_encoded_bytes().starts_with(b"~") {
        let given = given.display();
        return Err(format!(
            "the shell did not expand `{given}`\nhint: use `--prefix DIR`, not `--prefix=DIR`"
        )
        .into());
    }
    Ok(std::path::absolute(given)?)
}

/// Returns the man pages and completions in `docs`, with their destinations.
fn find_documents(docs: &Path, prefix: &Path) -> Result<Vec<Item>> {
    let item = |source: PathBuf, destination: PathBuf| Item { source, destination, mode: READABLE };
    let (from, to) = MAN;
    let mut pages = Vec::new();
    for entry in fs::read_dir(docs.join(from)).map_err(|error| at(&docs.join(from), &error))? {
        let entry = entry?;
        pages.push(item(entry.path(), prefix.join(to).join(entry.file_name())));
    }
    pages.sort_by(|one, other| one.destination.cmp(&other.destination));
    pages.extend(COMPLETIONS.map(|(from, to)| item(docs.join(from), prefix.join(to))));
    Ok(pages)
}

/// Fails if a file cannot be created or replaced at `destination`. Changes nothing.
fn require_replaceable(destination: &Path) -> Result {
    if destination.is_dir() {
        return Err(format!("{} is a directory", destination.display()).into());
    }
    let above = destination.ancestors().skip(1).find(|path| path.symlink_metadata().is_ok());
    let above = above.ok_or_else(|| format!("no directory above {} exists", destination.display()))?;
    if !above.is_dir() {
        return Err(format!("{} is not a directory", above.display()).into());
    }
    Ok(access(above, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| at(above, &error.into()))?)
}

/// Writes all files beside their destinations, then renames them.
fn install(items: &[Item]) -> Result {
    let staged = items.iter().map(stage).collect::<Result<Vec<TempPath>>>()?;
    for (file, item) in staged.into_iter().zip(items) {
        file.persist(&item.destination).map_err(|error| at(&item.destination, &error.error))?;
    }
    Ok(())
}

/// Writes a durable copy of a file beside its destination, and closes it: a program that is open for writing cannot
/// be executed.
fn stage(item: &Item) -> Result<TempPath> {
    let folder = item.destination.parent().ok_or("a destination without a folder")?;
    fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    let mut copy = tempfile::Builder::new()
        .prefix(".sexton-install-")
        .tempfile_in(folder)
        .map_err(|error| at(folder, &error))?;
    let mut source = File::open(&item.source).map_err(|error| at(&item.source, &error))?;
    let written = io::copy(&mut source, copy.as_file_mut())
        .and_then(|_| copy.as_file().set_permissions(Permissions::from_mode(item.mode)))
        .and_then(|()| copy.as_file().sync_all());
    written.map_err(|error| at(&item.destination, &error))?;
    Ok(copy.into_temp_path())
}

/// Returns one line per file; the man pages are one line.
fn summary(prefix: &Path, items: &[Item]) -> String {
    let folder = prefix.join(MAN.1);
    let (pages, others): (Vec<&Item>, Vec<&Item>) =
        items.iter().partition(|item| item.destination.starts_with(&folder));
    let mut text = format!("installed {} man pages in {}\n", pages.len(), folder.display());
    text.extend(others.iter().map(|item| format!("installed {}\n", item.destination.display())));
    text
}

/// Returns whether one of the directories in `path` is `bin`, also if it has another name there.
fn is_on_path(bin: &Path, path: &OsStr) -> bool {
    let same = |one: &Path| {
        one == bin || matches!((one.canonicalize(), bin.canonicalize()), (Ok(one), Ok(bin)) if one == bin)
    };
    std::env::split_paths(path).any(|directory| same(&directory))
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// A program and a prefix in a temporary directory.
    struct Place {
        directory: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join("built"), "new").unwrap();
            Place { directory }
        }

        fn prefix(&self) -> PathBuf {
            self.directory.path().join("a/prefix")
        }

        /// Returns what is installed: the real documents, and a program.
        fn items(&self) -> Vec<Item> {
            let mut items = find_documents(&root().join("docs"), &self.prefix()).unwrap();
            let source = self.directory.path().join("built");
            items.push(Item { source, destination: self.prefix().join(PROGRAM), mode: EXECUTABLE });
            items
        }
    }

    /// Returns the files below `folder`, with their modes, sorted.
    fn files_below(folder: &Path) -> Vec<(PathBuf, u32)> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files.extend(files_below(&path));
            } else {
                let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
                files.push((path, mode));
            }
        }
        files.sort();
        files
    }

    #[test]
    fn every_file_is_placed_with_its_mode_and_nothing_else_is_left() {
        let place = Place::new();
        let items = place.items();
        install(&items).unwrap();
        let mut expected: Vec<_> = items.iter().map(|item| (item.destination.clone(), item.mode)).collect();
        expected.sort();
        assert_eq!(files_below(&place.prefix()), expected);
        for (path, mode) in [
            ("bin/sexton", 0o755),
            ("share/man/man1/sexton.1", 0o644),
            ("share/man/man1/sexton-run.1", 0o644),
            ("share/bash-completion/completions/sexton", 0o644),
            ("share/zsh/site-functions/_sexton", 0o644),
            ("share/fish/vendor_completions.d/sexton.fish", 0o644),
        ] {
            assert!(expected.contains(&(place.prefix().join(path), mode)), "{path}");
        }
        for item in &items {
            assert_eq!(fs::read(&item.source).unwrap(), fs::read(&item.destination).unwrap());
        }
        let summary = summary(&place.prefix(), &items);
        assert!(summary.contains("/bin/sexton\n") && summary.contains(" man pages in "), "{summary}");
        assert_eq!(summary.lines().count(), 5, "{summary}");
    }

    #[test]
    fn an_open_program_keeps_its_old_file() {
        let place = Place::new();
        let program = place.prefix().join(PROGRAM);
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, "old").unwrap();
        let mut open = File::open(&program).unwrap();
        install(&place.items()).unwrap();
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), fs::read_to_string(&program).unwrap().as_str()), ("old", "new"));
    }

    #[test]
    fn a_missing_source_changes_no_file() {
        let place = Place::new();
        install(&place.items()).unwrap();
        let before = files_below(&place.prefix());
        fs::write(place.prefix().join("share/man/man1/sexton.1"), "kept").unwrap();
        fs::remove_file(place.directory.path().join("built")).unwrap();
        let error = install(&place.items()).unwrap_err().to_string();
        assert!(error.contains("built: No such file"), "{error}");
        assert_eq!(files_below(&place.prefix()), before);
        assert_eq!(fs::read_to_string(place.prefix().join("share/man/man1/sexton.1")).unwrap(), "kept");
    }

    #[test]
    fn a_bad_prefix_is_refused() {
        let unexpanded = require_prefix(Some(Path::new("~/tools")), None).unwrap_err().to_string();
        assert!(unexpanded.starts_with("the shell did not expand `~/tools`"), "{unexpanded}");
        for home in [None, Some(""), Some("relative")] {
            let error = require_prefix(None, home.map(PathBuf::from)).unwrap_err().to_string();
            assert!(error.starts_with("the home directory is unknown"), "{error}");
        }
        assert_eq!(require_prefix(None, Some("/h".into())).unwrap(), Path::new("/h/.local"));
        assert!(require_prefix(Some(Path::new("here")), None).unwrap().is_absolute());
    }

    #[test]
    fn a_destination_that_cannot_be_written_is_refused() {
        let place = Place::new();
        let prefix = place.directory.path();
        let refused = |path: &str| require_replaceable(&prefix.join(path)).unwrap_err().to_string();
        assert!(refused("built/bin/sexton").ends_with("/built is not a directory"));
        fs::create_dir_all(prefix.join("bin/sexton")).unwrap();
        assert!(refused("bin/sexton").ends_with("/bin/sexton is a directory"));
        assert!(require_replaceable(Path::new("/proc/self/bin/sexton")).is_err());
        std::os::unix::fs::symlink("gone", prefix.join("link")).unwrap();
        assert!(refused("link/bin/sexton").ends_with("/link is not a directory"));
        require_replaceable(&prefix.join("new/bin/sexton")).unwrap();
        assert!(!prefix.join("new").exists());
    }

    #[test]
    fn a_directory_on_the_path_is_found_by_any_of_its_names() {
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&bin, &link).unwrap();
        let path = |last: &Path| std::env::join_paths([Path::new("/usr/bin"), last]).unwrap();
        assert!(is_on_path(&bin, &path(&bin)));
        assert!(is_on_path(&bin, &path(&link)));
        assert!(!is_on_path(&bin, &path(directory.path())));
        assert!(!is_on_path(&bin, OsStr::new("")));
    }
}
