//! Reads what has a say in the configuration: files, environment, flags. What they mean is decided by
//! [`Config::resolve`](sexton_core::config::Config::resolve).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use sexton_core::config::{Config, FileLayer, ForeignLayer, Layers, RepoLayer};
use sexton_ralph::ticketflow;

use crate::args::GlobalArgs;
use crate::backends::DEFAULT_STORE;
use crate::failure::{Failure, chain};
use crate::trust;

/// The repository's own configuration file.
pub const REPO_FILE: &str = ".sexton.toml";

/// What has a say, and where trust in a repository is remembered.
pub struct Loaded {
    /// The layers.
    pub layers: Layers,
    /// The state directory that the other layers name: a repository cannot vouch for itself.
    pub trust_dir: PathBuf,
    /// What is to be said of the configuration of another tool, where that is used.
    pub foreign: ForeignNews,
}

/// What is to be said of the configuration of another tool. Only who works with it needs to hear that.
#[derive(Clone, Debug, Default)]
pub struct ForeignNews {
    /// Where it is.
    pub path: PathBuf,
    /// What is wrong with single values, and was mended.
    pub warnings: Vec<String>,
    /// Why nothing of it could be used.
    pub unusable: Option<String>,
}

/// A flag that sets something: the key, the flag's name, and what was given.
pub type Flag = (&'static str, &'static str, String);

/// Reads every layer; `more` are the flags of one command alone.
pub fn load_layers(global: &GlobalArgs, more: Vec<Flag>) -> Result<Loaded, Failure> {
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let user =
        find_config_dir(&env).map(|dir| load_file(dir.join("sexton/config.toml"))).transpose()?.flatten();
    let mut layers =
        Layers { user, foreign: None, repo: None, env, flags: flags(global)?, default_store: DEFAULT_STORE };
    let trust_dir = Config::resolve(&layers)?.state_dir.value;
    layers.flags.extend(more);
    layers.repo = load_repo_file()?.map(|file| {
        let trusted = trust::is_trusted(&trust_dir, &file);
        RepoLayer { file, trusted }
    });
    let foreign = load_ticketflow(&mut layers, &trust_dir);
    Ok(Loaded { layers, trust_dir, foreign })
}

/// Reads the configuration of the loop that `ralph` replaces, where a repository has one. It is another tool's:
/// what is wrong with it stops nobody but who needs it.
fn load_ticketflow(layers: &mut Layers, trust_dir: &Path) -> ForeignNews {
    let Some((root, found)) = find_ticketflow_file() else { return ForeignNews::default() };
    let mut news = ForeignNews { path: root.join(ticketflow::FILE), ..ForeignNews::default() };
    let read = found.and_then(|file| {
        let trusted = trust::is_trusted(trust_dir, &file);
        let read = ticketflow::read(&file.text, &root, trusted).map_err(|error| chain(&error))?;
        Ok((file.path, trusted, read))
    });
    match read {
        Ok((path, trusted, read)) => {
            news.warnings = read.warnings;
            layers.foreign = Some(ForeignLayer { path, trusted, values: read.values });
        }
        Err(why) => news.unusable = Some(why),
    }
    news
}

/// That file of the repository around the working directory, and the repository's top.
fn find_ticketflow_file() -> Option<(PathBuf, Result<FileLayer, String>)> {
    let here = std::env::current_dir().ok()?;
    let root = find_repo_root(&here)?.to_owned();
    let path = root.join(ticketflow::FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some((root, Ok(FileLayer { path, text }))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
        Err(error) => Some((root, Err(format!("cannot be read: {error}")))),
    }
}

/// Every file of the repository around the working directory that needs its user's trust.
pub fn load_files_to_trust() -> Result<Vec<FileLayer>, Failure> {
    let foreign = find_ticketflow_file().and_then(|(_, file)| file.ok());
    Ok(load_repo_file()?.into_iter().chain(foreign).collect())
}

/// The `.sexton.toml` of the repository around the working directory.
pub fn load_repo_file() -> Result<Option<FileLayer>, Failure> {
    let Ok(here) = std::env::current_dir() else {
        return Ok(None);
    };
    find_repo_root(&here).map_or(Ok(None), |root| load_file(root.join(REPO_FILE)))
}

/// The nearest directory around `start` that holds a git repository or worktree.
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
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(FileLayer { path, text })),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Failure::usage(format!("{}: cannot be read: {error}", path.display()))),
    }
}
