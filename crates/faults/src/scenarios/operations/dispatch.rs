//! A loop over two tickets, each worked on by its own agent and merged.

use std::path::PathBuf;

use serde_json::{Value, json};
use sexton_test_harness::repository::Repository;
use sexton_test_harness::{TestEnv, eventually, processes_with};

use super::words;

const TICKETS: [&str; 2] = ["first", "second"];

/// Returns the environment variable that every process of the loop has.
fn mark(test_env: &TestEnv) -> String {
    format!("HOME={}", test_env.path().display())
}

/// Returns where tickets are closed: inside the repository, where git does not track it.
fn closed(test_env: &TestEnv) -> PathBuf {
    test_env.work_dir().join(".git/closed")
}

pub(super) fn prepare(test_env: &TestEnv) -> Vec<String> {
    Repository::in_work_dir(test_env);
    let closed = closed(test_env);
    std::fs::create_dir(&closed).unwrap();
    let agent = test_env.path().join("agent.sh");
    // It can be interrupted anywhere and started again on what it left.
    let script = format!(
        "set -eu\nexport GIT_CONFIG_GLOBAL=/dev/null\necho \"work on $1\" > \"$1\"\ngit add --all\n\
         git diff --cached --quiet || git commit --quiet --message \"$1\"\ntouch '{}/'\"$1\"\n",
        closed.display()
    );
    std::fs::write(&agent, script).unwrap();
    let query = format!(
        "for ticket in {}; do test -e '{}/'$ticket || echo $ticket; done",
        TICKETS.join(" "),
        closed.display()
    );
    let agent = format!("sh '{}' {{ticket}}", agent.display());
    words(&["ralph", "start", "--ticket-query", &query, "--agent", &agent])
}

/// Requires that the work on each ticket is in the base branch, once.
pub(crate) fn require_merged(test_env: &TestEnv) {
    let repository = Repository::of_work_dir(test_env);
    repository.git(&["fsck", "--no-dangling", "--no-progress"]);
    for ticket in TICKETS {
        let text = repository.git(&["show", &format!("main:{ticket}")]);
        assert_eq!(text, format!("work on {ticket}"));
        let commits = repository.git(&["log", "--format=%h", "--no-merges", "main", "--", ticket]);
        assert_eq!(commits.lines().count(), 1, "{ticket} was merged more than once: {commits}");
    }
}

/// Each ticket is merged, once; nothing runs, and no worktree is left.
pub(super) fn outcome(test_env: &TestEnv) -> Value {
    let repository = Repository::of_work_dir(test_env);
    // Commands of the harness have this mark too; none of them runs at this point.
    eventually("nothing runs that the loop started", || processes_with(&mark(test_env)).is_empty());
    require_merged(test_env);
    assert_eq!(repository.git(&["status", "--porcelain"]), "", "the user's own worktree is not clean");
    assert_eq!(repository.worktrees().len(), 1, "a worktree is left");
    let record = test_env.record("ralph:work");
    // A loop that was killed after its last ticket is followed by one that finds nothing to do.
    let tickets = record["loop"]["tickets"].as_object().unwrap();
    for (ticket, progress) in tickets {
        assert_eq!(progress["stage"]["work"]["work"], "merged", "{ticket}: {progress}");
        assert_eq!(progress["iterations"], 1, "{ticket} was started more than once");
    }
    let running = test_env.json(&["ps"]);
    assert_eq!(running.as_array().map(Vec::len), Some(1), "only the bystander runs: {running}");
    json!({
        "files": repository.git(&["ls-tree", "-r", "main"]),
        "branches": repository.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]),
        "phase": record["loop"]["phase"],
    })
}
