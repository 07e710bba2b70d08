//! Recovery of another tool's project under faults: killed before any call that changes something and run again, it
//! reaches the same final state, although its store cannot record partial work.

#![cfg(all(feature = "store-tf", feature = "proc-linux", feature = "worktree-git"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(clippy::print_stderr, reason = "prints how much of the campaign ran")]

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use support::effort::crash_stride;
use support::project::{Project, children_of, start_ticks};
use support::strace::{kill_at, mutating_calls, trace};
use support::{eventually, is_running};

const DEAD: usize = 4;

/// A project with dead orphans that have work, and one live orphan. It can be reset any number of times.
struct CrashedProject {
    project: Project,
    living: u64,
}

impl CrashedProject {
    fn set() -> CrashedProject {
        let project = Project::new();
        (0..=DEAD).for_each(|number| project.plant(&format!("T-{number}")));
        // A worktree in the same root that no record names.
        project.plant("T-9");
        copy(&project.test_env.work_dir(), &project.test_env.path().join("work.aside"));
        let mut crashed = CrashedProject { project, living: 0 };
        crashed.reset();
        crashed
    }

    /// Restores the initial state, with a new live agent.
    fn reset(&mut self) {
        std::fs::remove_dir_all(self.project.test_env.work_dir()).unwrap();
        let _ = std::fs::remove_dir_all(self.project.test_env.state_dir());
        copy(&self.project.test_env.path().join("work.aside"), &self.project.test_env.work_dir());
        let place = self.project.worktree("T-0");
        self.living = self.project.orphan(&place);
        let now = jiff::Timestamp::now().to_string();
        let entry = |number: usize| {
            let (pid, ticks) = match number {
                0 => (self.living, Some(start_ticks(self.living))),
                // Pids without a process; every second record has no start time.
                _ => (4_100_000 + number as u64, number.is_multiple_of(2).then_some(7)),
            };
            json!({"session_id": format!("s{number}"), "ticket_id": format!("T-{number}"), "pid": pid,
                   "process_start_time": ticks, "started_at": now, "status": "running", "extra": number,
                   "worktree_path": self.project.worktree(&format!("T-{number}")),
                   "completed_at": null, "return_code": null})
        };
        let entries: Vec<_> = (0..=DEAD).map(entry).collect();
        let document = json!({"version": 1, "sessions": entries, "last_updated": now, "kept": true});
        std::fs::write(self.project.file(), document.to_string()).unwrap();
    }

    /// Returns the state after a recovery, without what differs from run to run.
    fn outcome(&self) -> Value {
        let mut document = self.project.document();
        document["last_updated"] = Value::Null;
        for entry in document["sessions"].as_array_mut().unwrap() {
            assert!(entry["completed_at"].is_string(), "{entry}");
            for changing in ["completed_at", "started_at", "pid", "process_start_time"] {
                entry[changing] = Value::Null;
            }
        }
        let git = |arguments: &[&str]| self.project.repository.git(arguments);
        json!({
            "file": document,
            "trees": git(&["for-each-ref", "--format=%(refname) %(tree)"]),
            "worktrees": git(&["worktree", "list", "--porcelain"]),
            "worktree_root": names(&self.project.root().join(".tf/ralph/worktrees")),
            "beside": names(&self.project.root().join(".tf/ralph")),
        })
    }

    fn require_nothing_lost(&self, when: &str) {
        for number in 0..=DEAD {
            let name = format!("refs/sexton/rescue/s{number}");
            let refs = self.project.repository.git(&["for-each-ref", "--format=%(refname)", &name]);
            assert_eq!(refs, name, "{when}");
            let note = self.project.repository.git(&["show", &format!("{name}:note")]);
            assert_eq!(note, format!("of T-{number}"), "{when}");
        }
        let other = self.project.worktree("T-9").join("note");
        assert_eq!(std::fs::read_to_string(other).unwrap(), "of T-9\n", "{when}");
        assert!(!is_running(self.living), "{when}: the orphan runs");
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// Returns the names in a directory, without lock files and hidden files.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.contains("lock") && !name.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn i7_interrupted_recovery_of_another_tools_project_converges() {
    let mut crashed = CrashedProject::set();
    let url = crashed.project.url();
    let recover = ["--store", &url, "recover"];
    let calls = mutating_calls(&trace(&crashed.project.test_env, &recover));
    crashed.require_nothing_lost("the first run");
    let whole = crashed.outcome();
    assert!(whole["file"]["sessions"].as_array().unwrap().iter().all(|entry| entry["status"] == "orphaned"));
    assert_eq!(whole["worktree_root"], json!(["T-9"]));
    let tried: Vec<_> = calls.iter().step_by(crash_stride(30)).collect();
    let mut killed = 0;
    for call in &tried {
        crashed.reset();
        let children = children_of(crashed.living);
        killed += usize::from(kill_at(&crashed.project.test_env, call, &recover));
        let when = format!("killed before {} number {}", call.name, call.nth);
        let ran = crashed.project.test_env.sexton(&recover);
        assert_eq!(ran.code, 0, "{when}:\n{}{}", ran.stdout, ran.stderr);
        let when = format!("{when}:\n{}{}", ran.stdout, ran.stderr);
        eventually("no child of the orphan runs", || children.iter().all(|pid| !is_running(*pid)));
        crashed.require_nothing_lost(&when);
        assert_eq!(crashed.outcome(), whole, "{when}");
        let text = std::fs::read(crashed.project.file()).unwrap();
        let again = crashed.project.test_env.json(&recover);
        assert_eq!((again["orphans"].as_u64(), again["failed"].as_u64()), (Some(0), Some(0)), "{when}");
        assert_eq!(std::fs::read(crashed.project.file()).unwrap(), text, "{when}: a second run changed it");
    }
    eprintln!("{killed} of {} runs were killed; {} calls change something", tried.len(), calls.len());
    assert!(calls.len() > 150, "only {} calls change something", calls.len());
    // The position of a call in a run depends on the number of processes on the machine.
    assert!(killed * 10 >= tried.len() * 7, "only {killed} of {} runs were killed", tried.len());
}
