//! The unresolved problems of recoveries, stored beside the store: one file per store, which exists only
//! while there is a problem.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sexton_core::recover::Problem;
use sexton_core::store::StoreInfo;
use sexton_durable::{create_private_dir, find, find_regular, replace_file, sync_parent};

/// More than a user leaves unresolved. Problems beyond that are found again and reported as new.
const MAX_SIZE: u64 = 4 << 20;
const MAX_PROBLEMS: usize = 4096;

/// Returns the remembered problems of a store from the state directory at `state`. A damaged file counts as
/// empty: the worst effect is that a problem is reported as new again.
pub(crate) fn load_problems(state: &Path, store: &StoreInfo) -> io::Result<Vec<Problem>> {
    let path = path(state, store);
    match find_regular(&path, MAX_SIZE) {
        Ok(content) => Ok(content.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Vec::new()),
        Err(error) => Err(explain("read", &path, &error)),
    }
}

/// Replaces the remembered problems of a store.
pub(crate) fn save_problems(state: &Path, store: &StoreInfo, problems: &[Problem]) -> io::Result<()> {
    let path = path(state, store);
    if problems.is_empty() {
        return match find(fs::remove_file(&path)) {
            Ok(None) => Ok(()),
            Ok(Some(())) => sync_parent(&path),
            Err(error) => Err(explain("remove", &path, &error)),
        };
    }
    let mut text = serde_json::to_vec_pretty(&problems[..problems.len().min(MAX_PROBLEMS)])?;
    text.push(b'\n');
    create_private_dir(path.parent().unwrap_or(state))
        .and_then(|()| replace_file(&path, |file| file.write_all(&text)))
        .map_err(|error| explain("write", &path, &error))
}

fn path(state: &Path, store: &StoreInfo) -> PathBuf {
    let id = store.uuid.clone().unwrap_or_default();
    state.join("problems").join(format!("{}-{id}.json", store.backend))
}

fn explain(action: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {action} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use sexton_core::recover::ProblemKind;
    use sexton_core::store::Capabilities;

    use super::*;

    #[test]
    fn i7_problems_are_stored_per_store_and_removed_when_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let store = |uuid: &str| StoreInfo {
            backend: "json",
            path: dir.path().join("s.jsonl"),
            uuid: Some(uuid.to_owned()),
            capabilities: Capabilities::EVERYTHING,
        };
        let problem = Problem::new(ProblemKind::Trash, "cannot delete it").at("/w/.trash/a").remembered();
        assert_eq!(load_problems(dir.path(), &store("a")).unwrap(), []);
        save_problems(dir.path(), &store("a"), &[]).unwrap();
        assert!(!dir.path().join("problems").exists(), "an empty list must create no file");
        save_problems(dir.path(), &store("a"), std::slice::from_ref(&problem)).unwrap();
        assert_eq!(load_problems(dir.path(), &store("a")).unwrap(), [problem]);
        assert_eq!(load_problems(dir.path(), &store("b")).unwrap(), []);
        save_problems(dir.path(), &store("a"), &[]).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("problems")).unwrap().count(), 0);
        fs::write(dir.path().join("problems/json-a.json"), "[{").unwrap();
        assert_eq!(load_problems(dir.path(), &store("a")).unwrap(), [], "damaged");
    }
}
