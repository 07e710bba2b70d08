//! A loop over two tickets, each worked on by an agent of its own and merged.

use std::path::PathBuf;

use serde_json::{Value, json};
use sexton_field::repository::Repository;
use sexton_field::{Yard, eventually, processes_with};

use super::words;

const TICKETS: [&str; 2] = ["first", "second"];

/// What all that the loop starts has in its environment.
fn mark(yard: &Yard) -> String {
    format!("HOME={}", yard.path().display())
}

/// Where tickets are closed: inside the repository, where neither git nor a status sees it.
fn closed(yard: &Yard) -> PathBuf {
    yard.work_dir().join(".git/closed")
}

pub(super) fn prepare(yard: &Yard) -> Vec<String> {
    Repository::in_work_dir(yard);
    let closed = closed(yard);
    std::fs::create_dir(&closed).unwrap();
    let agent = yard.path().join("agent.sh");
    // It can be cut off anywhere and begun again on what it left.
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

/// The work on each ticket is in the base branch, once.
pub(crate) fn require_merged(yard: &Yard) {
    let repository = Repository::of_work_dir(yard);
    repository.git(&["fsck", "--no-dangling", "--no-progress"]);
    for ticket in TICKETS {
        let text = repository.git(&["show", &format!("main:{ticket}")]);
        assert_eq!(text, format!("work on {ticket}"));
        let commits = repository.git(&["log", "--format=%h", "--no-merges", "main", "--", ticket]);
        assert_eq!(commits.lines().count(), 1, "{ticket} was merged more than once: {commits}");
    }
}

/// Each ticket is merged, once; nothing runs, and no worktree is left.
pub(super) fn outcome(yard: &Yard) -> Value {
    let repository = Repository::of_work_dir(yard);
    // The program that asks is not yet, or no longer, one that the loop started.
    eventually("nothing runs that the loop started", || processes_with(&mark(yard)).is_empty());
    require_merged(yard);
    assert_eq!(repository.git(&["status", "--porcelain"]), "", "the user's own worktree is not clean");
    assert_eq!(repository.worktrees().len(), 1, "a worktree is left");
    let record = yard.record("ralph:work");
    // A loop that was killed after its last ticket is followed by one that finds nothing to do.
    let tickets = record["loop"]["tickets"].as_object().unwrap();
    for (ticket, progress) in tickets {
        assert_eq!(progress["stage"]["work"]["work"], "merged", "{ticket}: {progress}");
        assert_eq!(progress["iterations"], 1, "{ticket} was taken on more than once");
    }
    let running = yard.json(&["ps"]);
    assert_eq!(running.as_array().map(Vec::len), Some(1), "only the bystander runs: {running}");
    json!({
        "files": repository.git(&["ls-tree", "-r", "main"]),
        "branches": repository.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]),
        "phase": record["loop"]["phase"],
    })
}
