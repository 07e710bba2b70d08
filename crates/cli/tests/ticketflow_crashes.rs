//! Recovery of another tool's project under attack: killed before any call that changes something and run
//! again, it ends as if it had not been, though its store has no place for what was half done.

#![cfg(all(feature = "store-tf", feature = "proc-linux", feature = "worktree-git"))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stderr, reason = "how much of a campaign was run is worth knowing")]

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use support::effort::crash_stride;
use support::project::{Project, children_of, start_ticks};
use support::strace::{kill_at, mutating_calls, trace};
use support::{eventually, is_running};

const DEAD: usize = 4;

/// A project of dead orphans with work, and one that lives; put back as often as a test likes.
struct Scene {
    project: Project,
    living: u64,
}

impl Scene {
    fn set() -> Scene {
        let project = Project::new();
        (0..=DEAD).for_each(|number| project.plant(&format!("T-{number}")));
        // Somebody else's, in the same yard: no record names it.
        project.plant("T-9");
        copy(&project.yard.work_dir(), &project.yard.path().join("work.aside"));
        let mut scene = Scene { project, living: 0 };
        scene.reset();
        scene
    }

    /// Puts everything back, with a new agent in the place of the one that was ended.
    fn reset(&mut self) {
        std::fs::remove_dir_all(self.project.yard.work_dir()).unwrap();
        let _ = std::fs::remove_dir_all(self.project.yard.state_dir());
        copy(&self.project.yard.path().join("work.aside"), &self.project.yard.work_dir());
        let place = self.project.worktree("T-0");
        self.living = self.project.orphan(&place);
        let now = jiff::Timestamp::now().to_string();
        let entry = |number: usize| {
            let (pid, ticks) = match number {
                0 => (self.living, Some(start_ticks(self.living))),
                // Pids that no process has; every second one was recorded without its ticks.
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

    /// Everything that recovery leaves behind, without what is different in every run.
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
            "yard": names(&self.project.root().join(".tf/ralph/worktrees")),
            "beside": names(&self.project.root().join(".tf/ralph")),
        })
    }

    fn require_nothing_lost(&self, when: &str) {
        for number in 0..=DEAD {
            let name = format!("refs/sexton/rescue/s{number}:note");
            assert_eq!(self.project.repository.git(&["show", &name]), format!("of T-{number}"), "{when}");
        }
        let other = self.project.worktree("T-9").join("note");
        assert_eq!(std::fs::read_to_string(other).unwrap(), "of T-9\n", "{when}");
        assert!(!is_running(self.living), "{when}: the orphan runs");
    }
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// What lies in a directory, without the files that locks are held on.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.contains("lock") && !name.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn i7_a_recovery_of_another_tools_project_killed_at_any_change_ends_as_if_it_had_not_been() {
    let mut scene = Scene::set();
    let url = scene.project.url();
    let recover = ["--store", &url, "recover"];
    let calls = mutating_calls(&trace(&scene.project.yard, &recover));
    scene.require_nothing_lost("the first run");
    let whole = scene.outcome();
    assert!(whole["file"]["sessions"].as_array().unwrap().iter().all(|entry| entry["status"] == "orphaned"));
    assert_eq!(whole["yard"], json!(["T-9"]));
    let tried: Vec<_> = calls.iter().step_by(crash_stride(30)).collect();
    let mut killed = 0;
    for call in &tried {
        scene.reset();
        let children = children_of(scene.living);
        killed += usize::from(kill_at(&scene.project.yard, call, &recover));
        let when = format!("killed before {} number {}", call.name, call.nth);
        let ran = scene.project.yard.sexton(&recover);
        assert_eq!(ran.code, 0, "{when}:\n{}{}", ran.stdout, ran.stderr);
        eventually("no child of the orphan runs", || children.iter().all(|pid| !is_running(*pid)));
        scene.require_nothing_lost(&when);
        assert_eq!(scene.outcome(), whole, "{when}");
        let text = std::fs::read(scene.project.file()).unwrap();
        let again = scene.project.yard.json(&recover);
        assert_eq!((again["orphans"].as_u64(), again["failed"].as_u64()), (Some(0), Some(0)), "{when}");
        assert_eq!(std::fs::read(scene.project.file()).unwrap(), text, "{when}: a second run changed it");
    }
    eprintln!("{killed} of {} runs were killed; {} calls change something", tried.len(), calls.len());
    assert!(calls.len() > 150, "only {} calls change something", calls.len());
    // Where a call stands in a run moves a little with how many processes the machine has.
    assert!(killed * 10 >= tried.len() * 7, "only {killed} of {} runs were killed", tried.len());
}
