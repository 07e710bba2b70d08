//! The context of a loop: its repository, its base branch, and the programs that it needs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sexton_service::{RepositoryName, Service};

use crate::error::RalphError;
use crate::git::Git;
use crate::settings::Settings;
use crate::ticket::Ticket;

/// The first git version that can merge without a worktree.
const FIRST_GIT: (u32, u32) = (2, 38);

/// The context of a loop.
#[derive(Clone, Debug)]
pub(crate) struct LoopContext {
    /// The repository, as in records.
    pub(crate) repo: PathBuf,
    /// Name of the repository.
    pub(crate) name: RepositoryName,
    /// The user's worktree, in which the query and the check run.
    pub(crate) here: PathBuf,
    /// The branch that work starts from and is merged into.
    pub(crate) base: String,
    /// Whether the user set the base branch.
    pub(crate) base_is_chosen: bool,
    /// The only ticket to work on, if one was given.
    pub(crate) only: Option<Ticket>,
}

impl LoopContext {
    /// Finds the context of `directory`. Changes nothing.
    pub(crate) async fn find(
        service: &Service,
        settings: &Settings,
        directory: &Path,
        only: Option<Ticket>,
    ) -> Result<LoopContext, RalphError> {
        let repo = service
            .require_cleaner()?
            .find_repository(directory)
            .await
            .map_err(sexton_service::ServiceError::from)?;
        if find_program("git").is_none() {
            let what = "it is needed to merge branches";
            return Err(RalphError::NotInstalled { program: "git".to_owned(), what });
        }
        let git = Git::at(directory);
        require_git_version(&git.output(&["--version"])?)?;
        let top = git.run(&["rev-parse", "--show-toplevel"])?;
        let here = match String::from_utf8(top.stdout) {
            Ok(path) if top.status.success() => PathBuf::from(path.trim_end_matches('\n')),
            // A bare repository has no main worktree.
            _ => repo.clone(),
        };
        let base = match &settings.base {
            Some(base) => base.clone(),
            None => find_branch(&git, directory)?,
        };
        if git.find_commit(&format!("refs/heads/{base}"))?.is_none() {
            return Err(RalphError::NoCommit { repo, base });
        }
        let name = RepositoryName::of(&repo);
        Ok(LoopContext { repo, name, here, base, base_is_chosen: settings.base.is_some(), only })
    }

    /// Returns the names for the loop's session: the preferred one, and a unique one if another repository has that.
    pub(crate) fn names(&self) -> [String; 2] {
        let RepositoryName { plain, hash } = &self.name;
        let ticket = self.only.as_ref().map(|ticket| format!(":{ticket}")).unwrap_or_default();
        [format!("ralph:{plain}{ticket}"), format!("ralph:{plain}-{hash}{ticket}")]
    }

    /// Returns the directory of captured output.
    pub(crate) fn logs(&self, service: &Service, settings: &Settings) -> PathBuf {
        let RepositoryName { plain, hash } = &self.name;
        let own = || service.state_dir().join("ralph").join(format!("{plain}-{hash}")).join("logs");
        settings.logs.clone().unwrap_or_else(own)
    }
}

fn find_branch(git: &Git, directory: &Path) -> Result<String, RalphError> {
    let output = git.run(&["symbolic-ref", "--quiet", "--short", "HEAD"])?;
    let branch = String::from_utf8(output.stdout).unwrap_or_default().trim().to_owned();
    if !output.status.success() || branch.is_empty() {
        return Err(RalphError::NoBranch(directory.to_owned()));
    }
    Ok(branch)
}

fn require_git_version(text: &str) -> Result<(), RalphError> {
    let found = text.strip_prefix("git version ").unwrap_or(text);
    let mut numbers = found.split('.').map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) < FIRST_GIT => {
            Err(RalphError::OldGit { found: found.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Finds a program in PATH. A name with a slash is not checked, because it is relative to the directory in which it is
/// executed.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    let executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(executable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_git_is_refused_and_unknown_version_is_accepted() {
        assert!(require_git_version("git version 2.37.9").is_err());
        for text in
            ["git version 2.38.0", "git version 2.47.3 (Apple Git-1)", "git version 3.0.rc1", "a fork"]
        {
            assert!(require_git_version(text).is_ok(), "{text}");
        }
    }
}
