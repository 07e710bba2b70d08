//! The recovery of three orphans with work in their worktrees, beside a worktree that the user created.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sexton_test_harness::TestEnv;
use sexton_test_harness::crashed_env::kill_supervisor_and_command;
use sexton_test_harness::repository::Repository;

use super::rows::records;
use super::words;

const ORPHANS: usize = 3;

pub(super) fn prepare(test_env: &TestEnv) -> Vec<String> {
    let repository = Repository::in_work_dir(test_env);
    for number in 0..ORPHANS {
        let ready = test_env.path().join(format!("ready-{number}"));
        let script = format!(
            "echo {number} > new; echo more >> tracked; git add new; touch {}; exec sleep 600",
            ready.display()
        );
        let name = format!("orphan-{number}");
        let id = test_env.ok(&["run", "-d", "-w", "--name", &name, "--", "sh", "-c", &script]);
        sexton_test_harness::eventually("the work is done", || ready.exists());
        kill_supervisor_and_command(test_env, &id);
    }
    let users = tree_of_the_user(&records(test_env));
    repository.git(&["worktree", "add", "--quiet", "--detach", users.to_str().unwrap()]);
    std::fs::write(users.join("unsaved"), "mine\n").unwrap();
    words(&["recover"])
}

/// Returns the record of an orphan. It takes a listing, so that callers need only one for all orphans.
fn orphan(records: &Value, number: usize) -> &Value {
    let name = format!("orphan-{number}");
    let found = records.as_array().unwrap().iter().find(|record| record["name"] == name.as_str());
    found.unwrap_or_else(|| panic!("{name} has no record: {records}"))
}

/// Returns the path of a worktree that the user created among those of sessions.
fn tree_of_the_user(records: &Value) -> PathBuf {
    let root = PathBuf::from(orphan(records, 0)["worktree"]["root"].as_str().unwrap());
    root.join("tree-of-the-user")
}

/// The work of every orphan is in its rescue, its worktree is removed, its record says so; and the user's own
/// worktree is unchanged.
pub(super) fn outcome(test_env: &TestEnv) -> Value {
    let (repository, records) = (Repository::of_work_dir(test_env), records(test_env));
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

/// Requires that the work of each orphan is complete in its worktree or in its rescue, and that the user's
/// worktree is unchanged.
pub(crate) fn require_saved_or_there(test_env: &TestEnv) {
    require_work(&Repository::of_work_dir(test_env), &records(test_env));
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

/// Returns the directories in the trash of the root that this worktree is in.
fn in_the_trash(tree: &Path) -> Vec<PathBuf> {
    let folders = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let hidden = folders(tree.parent().unwrap()).into_iter();
    let hidden = hidden.filter(|path| path.file_name().unwrap().as_encoded_bytes().starts_with(b"."));
    hidden.flat_map(|trash| folders(&trash)).collect()
}
