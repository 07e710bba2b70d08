//! Where the file lies: the project around it, and the yard of its worktrees.

use std::fs;
use std::path::{Component, Path, PathBuf};

use sexton_core::store::Damage;

/// The directory that marks a project.
const MARKER: &str = ".tf";
/// The configuration beside the file.
const CONFIG: &str = "config.json";
/// Its key for the yard.
const YARD_KEY: &str = "parallelWorktreesDir";
/// The yard beside the file, where nothing else is configured.
const DEFAULT_YARD: &str = "worktrees";
/// Larger than any configuration.
const LARGEST_CONFIG: u64 = 1 << 20;

/// A project of the other tool.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// The directory above `.tf`.
    pub(crate) root: PathBuf,
    /// Where its worktrees are.
    pub(crate) yard: PathBuf,
    /// What of its configuration could not be used.
    pub(crate) findings: Vec<Damage>,
}

impl Project {
    /// Looks at the surroundings of the file at `path`.
    pub(crate) fn around(path: &Path) -> Project {
        let beside = path.parent().unwrap_or(Path::new("."));
        let beside = beside.canonicalize().unwrap_or_else(|_| beside.to_owned());
        let marked = beside.ancestors().find(|one| one.file_name().is_some_and(|name| name == MARKER));
        let root = marked.and_then(Path::parent).unwrap_or(&beside).to_owned();
        let (configured, findings) = match load_yard(&beside.join(CONFIG)) {
            Ok(configured) => (configured, Vec::new()),
            Err(what) => (None, vec![Damage { place: CONFIG.to_owned(), what, harmless: true }]),
        };
        let yard = configured.map_or_else(|| beside.join(DEFAULT_YARD), |yard| plain(&root.join(yard)));
        let yard = yard.canonicalize().unwrap_or(yard);
        Project { root, yard, findings }
    }

    /// The path that a record means. Whichever way its directory is written, a worktree that lies in the
    /// yard is named by the yard's own path.
    pub(crate) fn resolve(&self, written: &str) -> PathBuf {
        let path = self.root.join(written);
        match (path.parent().and_then(|parent| parent.canonicalize().ok()), path.file_name()) {
            (Some(parent), Some(name)) if parent == self.yard => parent.join(name),
            _ => path,
        }
    }
}

fn load_yard(config: &Path) -> Result<Option<String>, String> {
    let unusable = |why: String| format!("{why}; the yard is `{DEFAULT_YARD}` beside the file");
    match fs::metadata(config) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Ok(metadata) if metadata.len() > LARGEST_CONFIG => {
            return Err(unusable("it is too large".to_owned()));
        }
        _ => {}
    }
    let text = fs::read_to_string(config).map_err(|error| unusable(format!("it cannot be read: {error}")))?;
    let text = text.trim_start_matches('\u{feff}');
    let config: serde_json::Value =
        serde_json::from_str(text).map_err(|error| unusable(format!("it is not JSON: {error}")))?;
    match &config[YARD_KEY] {
        serde_json::Value::Null => Ok(None),
        serde_json::Value::String(yard) if !yard.is_empty() && !yard.contains('\0') => Ok(Some(yard.clone())),
        other => Err(unusable(format!("`{YARD_KEY}` is {other}"))),
    }
}

/// The path without `.` and `..`, as far as its own names say: a yard need not exist yet.
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
    use super::*;

    fn project(config: Option<&str>) -> (tempfile::TempDir, Project) {
        let dir = tempfile::tempdir().unwrap();
        let ralph = dir.path().join("src/.tf/ralph");
        fs::create_dir_all(ralph.join("worktrees")).unwrap();
        if let Some(config) = config {
            fs::write(ralph.join(CONFIG), config).unwrap();
        }
        let project = Project::around(&ralph.join("dispatch-sessions.json"));
        (dir, project)
    }

    fn yard_of(config: Option<&str>) -> (PathBuf, usize) {
        let (dir, project) = project(config);
        let above = dir.path().canonicalize().unwrap();
        assert_eq!(project.root, above.join("src"));
        (project.yard.strip_prefix(above).unwrap().to_owned(), project.findings.len())
    }

    #[test]
    fn the_yard_is_configured_from_the_root_or_lies_beside_the_file() {
        let beside = PathBuf::from("src/.tf/ralph/worktrees");
        assert_eq!(yard_of(None), (beside.clone(), 0));
        assert_eq!(yard_of(Some("{}")), (beside.clone(), 0));
        let text = r#"{"parallelWorktreesDir": "../wt/./x", "maxIterations": 5}"#;
        assert_eq!(yard_of(Some(text)), (PathBuf::from("wt/x"), 0));
        assert_eq!(yard_of(Some("\u{feff}{\"parallelWorktreesDir\": \"a\"}")), (PathBuf::from("src/a"), 0));
    }

    #[test]
    fn a_configuration_that_cannot_be_used_is_named_and_the_default_is_used() {
        for text in ["", "[", r#"{"parallelWorktreesDir": 7}"#, r#"{"parallelWorktreesDir": ""}"#] {
            assert_eq!(yard_of(Some(text)), (PathBuf::from("src/.tf/ralph/worktrees"), 1), "{text}");
        }
    }

    #[test]
    fn a_worktree_in_the_yard_has_one_path_however_it_is_written() {
        let (dir, project) = project(None);
        std::os::unix::fs::symlink(&project.root, dir.path().join("link")).unwrap();
        let expected = project.yard.join("T-1");
        let through_link = dir.path().join("link/.tf/ralph/worktrees/T-1");
        assert_eq!(project.resolve(through_link.to_str().unwrap()), expected);
        assert_eq!(project.resolve(".tf/ralph/worktrees/T-1"), expected);
        assert_eq!(project.resolve("/elsewhere/T-1"), PathBuf::from("/elsewhere/T-1"));
    }
}
