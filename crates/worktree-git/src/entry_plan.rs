//! Builds an admin entry: every file that git would write there, and the mark, before git can see it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use git2::{Config, Repository};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sexton_core::worktree::WorktreeLocation;
use sexton_core::{Time, WorktreeError};
use sexton_durable::{LARGE_FILE, SMALL_FILE, read_regular, sync_parent};

use crate::entry;
use crate::fault::{cannot_create, failed};
use crate::mark::Mark;

/// How a worktree and its entry refer to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// By absolute paths, which every version of git supports.
    Absolute,
    /// By relative paths. The repository's configuration requires programs to support them.
    Relative,
}

impl Links {
    /// Returns the kind that the repository is configured for.
    pub(crate) fn of(repo: &Repository) -> Result<Links, git2::Error> {
        let mut config = repo.config()?;
        let settings = config.snapshot()?;
        let extended = settings.get_bool("extensions.relativeworktrees").unwrap_or(false);
        if !extended && settings.get_bool("worktree.userelativepaths").unwrap_or(false) {
            // Like git: a program that does not support relative links must not open the repository.
            config.set_i32("core.repositoryformatversion", 1)?;
            config.set_bool("extensions.relativeWorktrees", true)?;
            return Ok(Links::Relative);
        }
        Ok(if extended { Links::Relative } else { Links::Absolute })
    }

    /// Returns the path that a file in `base` contains to refer to `target`.
    pub(crate) fn write(self, base: &Path, target: &Path) -> PathBuf {
        match self {
            Links::Absolute => target.to_owned(),
            Links::Relative => entry::relative(base, target),
        }
    }
}

/// What an entry is built from.
pub(crate) struct EntryPlan<'a> {
    pub(crate) location: &'a WorktreeLocation,
    pub(crate) common: &'a Path,
    pub(crate) mark: &'a Mark,
    pub(crate) links: Links,
    pub(crate) repo: &'a Repository,
    pub(crate) now: Time,
}

/// Builds the entry of a worktree that has no files yet, and returns its path. The entry is there complete,
/// marked and durable, or not at all.
pub(crate) fn build(entry_plan: &EntryPlan<'_>) -> Result<PathBuf, WorktreeError> {
    let name = entry::name_of(entry_plan.location);
    let admin = entry::all(entry_plan.common).join(&name);
    let built = entry::staging(entry_plan.common).join(format!("{name}.new"));
    let placed = entry_plan.write_to(&built, &admin).and_then(|()| place(&built, &admin));
    match placed {
        Ok(()) => Ok(admin),
        Err(error) => {
            // The next attempt deletes it too.
            let _ = fs::remove_dir_all(&built);
            Err(match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                    cannot_create(entry_plan.location, format!("{} already exists", admin.display()))
                }
                _ => failed("creating", &admin, error),
            })
        }
    }
}

/// Deletes the index of an entry whose worktree has no files.
pub(crate) fn clear_index(admin: &Path) -> Result<(), WorktreeError> {
    for name in ["index", "index.lock"] {
        let path = admin.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("deleting", &path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

impl EntryPlan<'_> {
    /// Writes the entry for `admin` into `built`.
    fn write_to(&self, built: &Path, admin: &Path) -> io::Result<()> {
        entry::inside(&entry::staging(self.common), || fs::create_dir(built))?;
        let branch = self.mark.branch.as_deref().unwrap_or_default();
        entry::begin(built)?;
        fs::write(built.join("commondir"), "../..\n")?;
        let dot_git = self.links.write(admin, &self.location.path.join(".git"));
        fs::write(built.join("gitdir"), entry::line("", &dot_git))?;
        fs::write(built.join("HEAD"), format!("ref: refs/heads/{branch}\n"))?;
        fs::create_dir_all(built.join("refs"))?;
        fs::create_dir_all(built.join("logs"))?;
        fs::write(built.join("logs/HEAD"), self.first_reflog_entry())?;
        self.copy_sparse_checkout(built)?;
        // This syncs the directory too.
        self.mark.write_new(built)
    }

    /// Returns the first reflog entry of HEAD.
    fn first_reflog_entry(&self) -> String {
        let who = self.repo.signature();
        let who = who.as_ref().ok().and_then(|who| Some((who.name().ok()?, who.email().ok()?)));
        let (name, email) = who.unwrap_or(("sexton", "sexton@localhost"));
        let base = self.mark.base.as_deref().unwrap_or_default();
        let seconds = self.now.timestamp().as_second();
        format!(
            "{} {base} {name} <{email}> {seconds} +0000\tworktree: begun at {base}\n",
            "0".repeat(base.len())
        )
    }

    /// Copies the sparse checkout. It is a setting of each worktree; like git, a new worktree starts with the
    /// setting of the main worktree.
    fn copy_sparse_checkout(&self, built: &Path) -> io::Result<()> {
        let settings = self.common.join("config.worktree");
        let (patterns, copy) = (self.common.join("info/sparse-checkout"), built.join("config.worktree"));
        if settings.exists() {
            fs::write(&copy, read_regular(&settings, SMALL_FILE)?)?;
            let mut config = Config::open(&copy).map_err(io::Error::other)?;
            for of_the_main_worktree in ["core.bare", "core.worktree"] {
                // Usually neither is set.
                let _ = config.remove(of_the_main_worktree);
            }
        }
        let sparse = |config: Result<Config, git2::Error>| {
            config.is_ok_and(|config| config.get_bool("core.sparsecheckout").unwrap_or(false))
        };
        let is_sparse = sparse(self.repo.config()) || (copy.exists() && sparse(Config::open(&copy)));
        if is_sparse && patterns.exists() {
            fs::create_dir_all(built.join("info"))?;
            fs::write(built.join("info/sparse-checkout"), read_regular(&patterns, LARGE_FILE)?)?;
        }
        Ok(())
    }
}

/// Moves a finished entry to the path where git sees it.
fn place(built: &Path, admin: &Path) -> io::Result<()> {
    let rename = || Ok(renameat_with(CWD, built, CWD, admin, RenameFlags::NOREPLACE)?);
    entry::inside(admin.parent().unwrap_or(admin), rename)?;
    sync_parent(admin)
}
