//! The location of the file: the project around it, and its worktree root.
//!
//! The configuration beside the file comes with the repository. It decides where worktrees are removed only
//! if the user trusts it, and the worktree root may never contain the project itself or be beside it.

use std::io;
use std::path::{Component, Path, PathBuf};

use sexton_core::store::Damage;
use sexton_durable::{SMALL_FILE, is_trusted, read_regular};

/// The directory that marks a project.
const MARKER: &str = ".tf";
/// The configuration beside the file.
const CONFIG: &str = "config.json";
/// The configuration key of the worktree root.
const WORKTREE_ROOT_KEY: &str = "parallelWorktreesDir";
/// The worktree root beside the file, if none is configured.
const DEFAULT_WORKTREE_ROOT: &str = "worktrees";

/// The location of a file, and where the user's trust is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The file.
    pub(crate) path: PathBuf,
    /// The directory of trust records; without it nothing is trusted.
    pub(crate) trust_dir: Option<PathBuf>,
}

impl Place {
    /// Returns the project around the file, as it is now.
    pub(crate) fn project(&self) -> Project {
        Project::around(&self.path, self.trust_dir.as_deref())
    }
}

/// A project of the other tool.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// The directory above `.tf`.
    pub(crate) root: PathBuf,
    /// The directory of its worktrees.
    pub(crate) worktree_root: PathBuf,
    /// The parts of its configuration that could not be used.
    pub(crate) findings: Vec<Damage>,
}

impl Project {
    /// Determines the project of the file at `path`.
    fn around(path: &Path, trust_dir: Option<&Path>) -> Project {
        let beside = path.parent().unwrap_or(Path::new("."));
        let beside = beside.canonicalize().unwrap_or_else(|_| beside.to_owned());
        let marked = beside.ancestors().find(|one| one.file_name().is_some_and(|name| name == MARKER));
        let root = marked.and_then(Path::parent).unwrap_or(&beside).to_owned();
        match find_worktree_root(&beside, &root, trust_dir) {
            Ok(worktree_root) => Project { root, worktree_root, findings: Vec::new() },
            Err(what) => {
                let what = format!("{what}; worktrees are in `{DEFAULT_WORKTREE_ROOT}` beside the file");
                let findings = vec![Damage { place: CONFIG.to_owned(), what, harmless: true }];
                Project { root, worktree_root: beside.join(DEFAULT_WORKTREE_ROOT), findings }
            }
        }
    }

    /// Returns the path of a record's worktree. A worktree in the worktree root gets the root's canonical
    /// path, however its directory is written.
    pub(crate) fn resolve(&self, written: &str) -> PathBuf {
        let path = self.root.join(written);
        match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
            (Some(parent), Some(name)) if parent == self.worktree_root => parent.join(name),
            _ => path,
        }
    }
}

/// Returns the worktree root of the project at `root`, or why the configured one is not used. The default is
/// never resolved as a link: content of a repository must not lead out of it.
fn find_worktree_root(beside: &Path, root: &Path, trust_dir: Option<&Path>) -> Result<PathBuf, String> {
    let default = beside.join(DEFAULT_WORKTREE_ROOT);
    let config = beside.join(CONFIG);
    let Some(text) = load(&config)? else { return Ok(default) };
    let Some(written) = read_key(&text)? else { return Ok(default) };
    let configured = plain(&root.join(&written));
    if configured == default {
        return Ok(default);
    }
    let key = format!("`{WORKTREE_ROOT_KEY}` (`{}`)", written.escape_debug());
    let trusted = trust_dir.is_some_and(|trust_dir| is_trusted(trust_dir, &config, text.as_bytes()));
    if !trusted && !sexton_mutant::is("tf_root_untrusted") {
        return Err(format!(
            "{key} is ignored: this repository is not trusted (`sexton trust` there allows it)"
        ));
    }
    let worktree_root = configured.canonicalize().unwrap_or(configured);
    // Otherwise the project itself or its siblings would be worktrees that recovery may remove.
    if root.starts_with(&worktree_root) && !sexton_mutant::is("tf_root_untrusted") {
        return Err(format!("{key} is refused: it contains the project itself"));
    }
    Ok(worktree_root)
}

fn load(config: &Path) -> Result<Option<String>, String> {
    match read_regular(config, SMALL_FILE) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8 text".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

fn read_key(text: &str) -> Result<Option<String>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let config: serde_json::Value =
        serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match &config[WORKTREE_ROOT_KEY] {
        serde_json::Value::Null => Ok(None),
        serde_json::Value::String(worktree_root)
            if !worktree_root.is_empty() && !worktree_root.contains('\0') =>
        {
            Ok(Some(worktree_root.clone()))
        }
        other => Err(format!("`{WORKTREE_ROOT_KEY}` is {other}")),
    }
}

/// Returns the path without `.` and `..`, lexically: a worktree root need not exist yet.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use sexton_durable::remember_trust;

    use super::*;

    const BESIDE: &str = "src/.tf/ralph/worktrees";

    /// Returns a project with this configuration, for a user who trusts it or not.
    fn project(config: Option<&str>, trusted: bool) -> (tempfile::TempDir, Project) {
        let dir = tempfile::tempdir().unwrap();
        let ralph = dir.path().canonicalize().unwrap().join("src/.tf/ralph");
        let state = dir.path().join("state");
        fs::create_dir_all(ralph.join("worktrees")).unwrap();
        fs::create_dir(&state).unwrap();
        if let Some(config) = config {
            fs::write(ralph.join(CONFIG), config).unwrap();
            if trusted {
                remember_trust(&state, &ralph.join(CONFIG), config.as_bytes()).unwrap();
            }
        }
        let path = ralph.join("dispatch-sessions.json");
        let project = Place { path, trust_dir: Some(state) }.project();
        (dir, project)
    }

    fn worktree_root_of(config: Option<&str>, trusted: bool) -> (PathBuf, Vec<String>) {
        let (dir, project) = project(config, trusted);
        let above = dir.path().canonicalize().unwrap();
        assert_eq!(project.root, above.join("src"));
        let findings = project.findings.into_iter().map(|finding| finding.what).collect();
        (project.worktree_root.strip_prefix(above).unwrap().to_owned(), findings)
    }

    #[test]
    fn the_worktree_root_is_configured_or_beside_the_file() {
        for text in [None, Some("{}"), Some(r#"{"parallelWorktreesDir": ".tf/x/../ralph/worktrees"}"#)] {
            for trusted in [true, false] {
                assert_eq!(worktree_root_of(text, trusted), (PathBuf::from(BESIDE), vec![]), "{text:?}");
            }
        }
        let text = r#"{"parallelWorktreesDir": "../wt/./x", "maxIterations": 5}"#;
        assert_eq!(worktree_root_of(Some(text), true), (PathBuf::from("wt/x"), vec![]));
        let text = "\u{feff}{\"parallelWorktreesDir\": \"a\"}";
        assert_eq!(worktree_root_of(Some(text), true), (PathBuf::from("src/a"), vec![]));
    }

    #[test]
    fn i11_an_untrusted_project_cannot_set_its_worktree_root() {
        for worktree_root in ["..", "../wt", "a", "/", "."] {
            let (found, findings) =
                worktree_root_of(Some(&format!(r#"{{"parallelWorktreesDir": "{worktree_root}"}}"#)), false);
            assert_eq!(found, PathBuf::from(BESIDE), "{worktree_root}");
            assert!(findings.len() == 1 && findings[0].contains("is ignored"), "{findings:?}");
            assert!(findings[0].contains("parallelWorktreesDir") && findings[0].contains("sexton trust"));
        }
    }

    #[test]
    fn i5_a_worktree_root_that_contains_the_project_is_rejected() {
        for worktree_root in ["..", "../..", ".", "/", "a/.."] {
            let (found, findings) =
                worktree_root_of(Some(&format!(r#"{{"parallelWorktreesDir": "{worktree_root}"}}"#)), true);
            assert_eq!(found, PathBuf::from(BESIDE), "{worktree_root}");
            assert!(findings.len() == 1 && findings[0].contains("is refused"), "{findings:?}");
        }
    }

    #[test]
    fn i11_a_symlink_as_the_default_worktree_root_is_not_followed() {
        let (dir, project) = project(None, true);
        fs::remove_dir(&project.worktree_root).unwrap();
        symlink("../../..", &project.worktree_root).unwrap();
        let again =
            Place { path: project.worktree_root.with_file_name("dispatch-sessions.json"), trust_dir: None };
        let beside = dir.path().canonicalize().unwrap().join(BESIDE);
        assert_eq!(again.project().worktree_root, beside, "not the target of the link");
    }

    #[test]
    fn an_unusable_configuration_is_reported_and_the_default_is_used() {
        for text in ["", "[", r#"{"parallelWorktreesDir": 7}"#, r#"{"parallelWorktreesDir": ""}"#] {
            let (worktree_root, findings) = worktree_root_of(Some(text), true);
            assert_eq!((worktree_root, findings.len()), (PathBuf::from(BESIDE), 1), "{text}");
        }
    }

    #[test]
    fn paths_of_worktrees_are_normalized() {
        let (dir, project) = project(None, false);
        symlink(&project.root, dir.path().join("link")).unwrap();
        let expected = project.worktree_root.join("T-1");
        let through_link = dir.path().join("link/.tf/ralph/worktrees/T-1");
        assert_eq!(project.resolve(through_link.to_str().unwrap()), expected);
        assert_eq!(project.resolve(".tf/ralph/worktrees/T-1"), expected);
        assert_eq!(project.resolve("/elsewhere/T-1"), PathBuf::from("/elsewhere/T-1"));
    }
}
