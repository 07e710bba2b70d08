//! Reads the layers of the configuration: files, environment, flags.
//! [`Config::resolve`](sexton_core::config::Config::resolve) interprets them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sexton_core::config::{Config, FileLayer, ForeignLayer, Layers, RepoLayer};
use sexton_durable::{SMALL_FILE, find, is_trusted, read_regular, read_settings};
use sexton_ralph::ticketflow;

use crate::args::GlobalArgs;
use crate::backends::DEFAULT_STORE;
use crate::failure::{Failure, chain};

/// The repository's own configuration file.
pub const REPO_FILE: &str = ".sexton.toml";

/// The loaded configuration layers.
pub struct Loaded {
    /// The layers.
    pub layers: Layers,
    /// Issues with the configuration file of another tool, for the commands that use it.
    pub foreign: ForeignIssues,
}

/// Issues with the configuration file of another tool. Only commands that use that file print them.
#[derive(Clone, Debug, Default)]
pub struct ForeignIssues {
    /// The path of the file.
    pub path: PathBuf,
    /// Invalid values that were corrected.
    pub warnings: Vec<String>,
    /// Why the file is unusable.
    pub unusable: Option<String>,
}

/// A flag that sets a value: the key, the flag's name and the value.
pub type Flag = (&'static str, &'static str, String);

/// Loads every layer; `more` are the flags of one command.
pub fn load_layers(global: &GlobalArgs, more: Vec<Flag>) -> Result<Loaded, Failure> {
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let user =
        find_config_dir(&env).map(|dir| load_file(dir.join("sexton/config.toml"))).transpose()?.flatten();
    let mut layers =
        Layers { user, foreign: None, repo: None, env, flags: flags(global)?, default_store: DEFAULT_STORE };
    let trust_dir = Config::resolve(&layers)?.trust_dir;
    layers.flags.extend(more);
    layers.repo = load_repo_file()?.map(|file| {
        let trusted = is_trusted(&trust_dir, &file.path, file.text.as_bytes());
        RepoLayer { file, trusted }
    });
    let foreign = load_ticketflow(&mut layers, &trust_dir)?;
    Ok(Loaded { layers, foreign })
}

/// Loads the configuration of the loop that `ralph` replaces, if the repository has one. The file belongs to
/// another tool, so an error in it only fails the commands that use it.
fn load_ticketflow(layers: &mut Layers, trust_dir: &Path) -> Result<ForeignIssues, Failure> {
    let Some((root, found)) = find_ticketflow_file() else { return Ok(ForeignIssues::default()) };
    let mut issues = ForeignIssues { path: root.join(ticketflow::FILE), ..ForeignIssues::default() };
    let own_store = is_store_of(&root, &Config::resolve(layers)?.store_url.value.0);
    let read = found.and_then(|file| {
        let trusted = is_trusted(trust_dir, &file.path, file.text.as_bytes());
        let read = ticketflow::read(&file.text, &root, trusted).map_err(|error| chain(&error))?;
        Ok((file.path, trusted, read))
    });
    match read {
        Ok((path, trusted, read)) => {
            issues.warnings = read.warnings;
            layers.foreign = Some(ForeignLayer { path, trusted, own_store, values: read.values });
        }
        Err(why) => issues.unusable = Some(why),
    }
    Ok(issues)
}

/// Returns whether `url` names the record file of the other loop in the repository at `root`. A symlink from there
/// to another place does not count.
fn is_store_of(root: &Path, url: &str) -> bool {
    let named = url.strip_prefix("tf:").map(Path::new).and_then(|path| path.canonicalize().ok());
    let own = root.canonicalize().ok().map(|root| root.join(ticketflow::RECORDS));
    named.is_some() && named == own
}

/// Returns the root of the repository around the working directory and its ticketflow configuration file.
fn find_ticketflow_file() -> Option<(PathBuf, Result<FileLayer, String>)> {
    let here = std::env::current_dir().ok()?;
    let root = find_repo_root(&here)?.to_owned();
    let path = root.join(ticketflow::FILE);
    match read_settings(&root, ticketflow::FILE) {
        Ok(text) => text.map(|text| (root, Ok(FileLayer { path, text }))),
        Err(error) => Some((root, Err(format!("cannot be read: {error}")))),
    }
}

/// Loads the files of the repository around the working directory that have to be trusted.
pub fn load_files_to_trust() -> Result<Vec<FileLayer>, Failure> {
    let foreign = find_ticketflow_file().and_then(|(_, file)| file.ok());
    Ok(load_repo_file()?.into_iter().chain(foreign).collect())
}

/// Loads the `.sexton.toml` of the repository around the working directory.
pub fn load_repo_file() -> Result<Option<FileLayer>, Failure> {
    let Ok(here) = std::env::current_dir() else {
        return Ok(None);
    };
    let Some(root) = find_repo_root(&here) else { return Ok(None) };
    let path = root.join(REPO_FILE);
    match read_settings(root, REPO_FILE) {
        Ok(text) => Ok(text.map(|text| FileLayer { path, text })),
        Err(error) => Err(unreadable(&path, &error).hint("make it a regular file, or remove it")),
    }
}

/// Returns the nearest ancestor of `start` that is a git repository or worktree.
pub fn find_repo_root(start: &Path) -> Option<&Path> {
    start.ancestors().find(|dir| dir.join(".git").exists())
}

fn flags(global: &GlobalArgs) -> Result<Vec<Flag>, Failure> {
    let mut flags = Vec::new();
    if let Some(dir) = &global.state_dir {
        let absolute = std::path::absolute(dir)
            .map_err(|error| Failure::usage(format!("--state-dir `{}`: {error}", dir.escape_debug())))?;
        flags.push(("state_dir", "--state-dir", absolute.display().to_string()));
    }
    flags.extend(global.store.iter().map(|url| ("store.url", "--store", url.clone())));
    flags.extend(global.probe.iter().map(|name| ("probe", "--probe", name.clone())));
    Ok(flags)
}

fn find_config_dir(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let absolute = |name| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))
}

fn load_file(path: PathBuf) -> Result<Option<FileLayer>, Failure> {
    match find(read_regular(&path, SMALL_FILE)) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(FileLayer { path, text })),
            Err(error) => Err(unreadable(&path, &error.utf8_error())),
        },
        Err(error) => Err(unreadable(&path, &error)),
    }
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::usage(format!("{}: cannot be read: {error}", path.display()))
}
