//! The recovery of three orphans with work in their worktrees, beside a worktree of the user's own.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sexton_field::Yard;
use sexton_field::repository::Repository;
use sexton_field::scene::end_behind_its_back;

use super::rows::records;
use super::words;

const ORPHANS: usize = 3;

pub(super) fn prepare(yard: &Yard) -> Vec<String> {
    let repository = Repository::in_work_dir(yard);
    for number in 0..ORPHANS {
        let ready = yard.path().join(format!("ready-{number}"));
        let script = format!(
            "echo {number} > new; echo more >> tracked; git add new; touch {}; exec sleep 600",
            ready.display()
        );
        let name = format!("orphan-{number}");
        let id = yard.ok(&["run", "-d", "-w", "--name", &name, "--", "sh", "-c", &script]);
        sexton_field::eventually("the work is done", || ready.exists());
        end_behind_its_back(yard, &id);
    }
    let users = tree_of_the_user(&records(yard));
    repository.git(&["worktree", "add", "--quiet", "--detach", users.to_str().unwrap()]);
    std::fs::write(users.join("unsaved"), "mine\n").unwrap();
    words(&["recover"])
}

/// The record of an orphan among all. One listing is enough for whoever asks for each of them.
fn orphan(records: &Value, number: usize) -> &Value {
    let name = format!("orphan-{number}");
    let found = records.as_array().unwrap().iter().find(|record| record["name"] == name.as_str());
    found.unwrap_or_else(|| panic!("{name} has no record: {records}"))
}

/// A worktree that the user made among those of sessions.
fn tree_of_the_user(records: &Value) -> PathBuf {
    let root = PathBuf::from(orphan(records, 0)["worktree"]["root"].as_str().unwrap());
    root.join("tree-of-the-user")
}

/// The work of every orphan is in its rescue, its worktree is gone, its record says so; and the user's own
/// worktree is as it was.
pub(super) fn outcome(yard: &Yard) -> Value {
    let (repository, records) = (Repository::of_work_dir(yard), records(yard));
    require_work(&repository, &records);
    for number in 0..ORPHANS {
        let record = orphan(&records, number);
        assert_eq!(record["status"], "orphaned", "{record}");
        assert_eq!(record["recovery"]["worktree"], "removed", "{record}");
        let tree = record["worktree"]["path"].as_str().unwrap();
        assert!(!Path::new(tree).exists(), "{tree} was not removed");
    }
    let trees = repository.git(&["for-each-ref", "--format=%(refname) %(tree)"]);
    let worktrees = repository.worktrees();
    assert_eq!(worktrees.len(), 2, "the repository and the user's worktree: {worktrees:?}");
    json!({"records": records, "trees": trees})
}

/// The work of each orphan is where it was or in its rescue, whole; and the user's worktree is as it was.
pub(crate) fn require_saved_or_there(yard: &Yard) {
    require_work(&Repository::of_work_dir(yard), &records(yard));
}

fn require_work(repository: &Repository, records: &Value) {
    for number in 0..ORPHANS {
        let record = orphan(records, number);
        let tree = PathBuf::from(record["worktree"]["path"].as_str().unwrap());
        let (new, tracked) = (format!("{number}\n"), "as committed\nmore\n");
        let is_whole = |tree: &PathBuf| {
            let read = |name: &str| std::fs::read_to_string(tree.join(name)).unwrap_or_default();
            read("new") == new && read("tracked") == tracked
        };
        let there = is_whole(&tree) || in_the_trash(&tree).iter().any(is_whole);
        let saved = |name: &str| {
            let object = format!("refs/sexton/rescue/{}:{name}", record["id"].as_str().unwrap());
            let output = repository.command(&["cat-file", "blob", &object]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let rescued = saved("new") == new && saved("tracked") == tracked;
        assert!(there || rescued, "the work of orphan {number} is nowhere");
    }
    let users = tree_of_the_user(records);
    let unsaved = std::fs::read_to_string(users.join("unsaved")).unwrap_or_default();
    assert_eq!(unsaved, "mine\n", "the worktree of the user was touched");
    assert!(repository.worktrees().contains(&users), "the worktree of the user was unregistered");
}

/// What lies in the trash of the yard that this worktree is in.
fn in_the_trash(tree: &Path) -> Vec<PathBuf> {
    let folders = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let hidden = folders(tree.parent().unwrap()).into_iter();
    let hidden = hidden.filter(|path| path.file_name().unwrap().as_encoded_bytes().starts_with(b"."));
    hidden.flat_map(|trash| folders(&trash)).collect()
}
