//! Reads what has a say in the configuration: files, environment, flags. What they mean is decided by
//! [`Config::resolve`](sexton_core::config::Config::resolve).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use sexton_core::config::{Config, FileLayer, Layers, RepoLayer};

use crate::args::GlobalArgs;
use crate::backends::DEFAULT_STORE;
use crate::failure::Failure;
use crate::trust;

/// The repository's own configuration file.
pub const REPO_FILE: &str = ".sexton.toml";

/// What has a say, and where trust in a repository is remembered.
pub struct Loaded {
    /// The layers.
    pub layers: Layers,
    /// The state directory that the other layers name: a repository cannot vouch for itself.
    pub trust_dir: PathBuf,
}

/// Reads every layer.
pub fn load_layers(global: &GlobalArgs) -> Result<Loaded, Failure> {
    let env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let user =
        find_config_dir(&env).map(|dir| load_file(dir.join("sexton/config.toml"))).transpose()?.flatten();
    let mut layers = Layers { user, foreign: None, repo: None, env, flags: flags(global)?, default_store: DEFAULT_STORE };
    let trust_dir = Config::resolve(&layers)?.state_dir.value;
    layers.repo = load_repo_file()?.map(|file| {
        let trusted = trust::is_trusted(&trust_dir, &file);
        RepoLayer { file, trusted }
    });
    Ok(Loaded { layers, trust_dir })
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

fn flags(global: &GlobalArgs) -> Result<Vec<(&'static str, &'static str, String)>, Failure> {
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
