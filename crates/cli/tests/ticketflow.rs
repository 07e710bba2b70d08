//! A pi-ticketflow project, used in place: Sexton recovers it and keeps its file valid for pi-ticketflow.

#![cfg(all(feature = "store-tf", feature = "proc-linux", feature = "worktree-git"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use serde_json::json;
use support::project::{Project, children_of, difference, start_ticks};
use support::{TestEnv, eventually, is_running};

const FIXTURE: &str = include_str!("fixtures/dispatch-sessions.json");

/// Creates a project from the fixture: one agent without a dispatcher, one with a live dispatcher, and records of
/// agents that no longer exist.
fn fixture() -> (Project, String, [u64; 2]) {
    let mut project = Project::new();
    ["T-1", "T-2", "T-3", "T-4"].iter().for_each(|ticket| project.plant(ticket));
    let (living, held) = (project.worktree("T-1"), project.worktree("T-4"));
    let agents = [project.orphan(&living), project.held(&held)];
    let now = jiff::Timestamp::now();
    let text = FIXTURE
        .replace("PROJECT", project.root().to_str().unwrap())
        .replace("STARTED", &now.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string())
        .replace("RECENT", &now.strftime("%Y-%m-%dT%H:%M:%S").to_string())
        .replace("4000001", &agents[0].to_string())
        .replace("4000011", &start_ticks(agents[0]).to_string())
        .replace("4000004", &agents[1].to_string())
        .replace("4000014", &start_ticks(agents[1]).to_string());
    std::fs::write(project.file(), &text).unwrap();
    (project, text, agents)
}

#[test]
fn recovering_a_project_changes_only_the_intended_fields() {
    let (project, before, [living, held]) = fixture();
    let child = children_of(living);
    let url = project.url();
    let report = project.test_env.json(&["--store", &url, "recover"]);
    assert_eq!((report["orphans"].as_u64(), report["ended"].as_u64()), (Some(3), Some(1)), "{report:#}");
    assert_eq!((report["left_alone"].as_u64(), report["failed"].as_u64()), (Some(1), Some(0)), "{report:#}");
    eventually("the orphan has ended", || !is_running(living));
    assert!(child.iter().all(|pid| !is_running(*pid)), "a child of the orphan was left");
    assert!(is_running(held), "an agent with a live dispatcher was killed");
    let mut rescues = project.repository.rescues();
    rescues.sort();
    assert_eq!(rescues, ["dispatch-dead", "dispatch-legacy", "dispatch-living"]);
    for (id, ticket) in [("dispatch-living", "T-1"), ("dispatch-dead", "T-2"), ("dispatch-legacy", "T-3")] {
        assert!(!project.worktree(ticket).exists(), "{ticket} is still there");
        let note = project.repository.git(&["show", &format!("refs/sexton/rescue/{id}:note")]);
        assert_eq!(note, format!("of {ticket}"));
        assert!(project.repository.branches().contains(&format!("ralph/{ticket} ")), "a branch was deleted");
    }
    assert!(project.worktree("T-4").join("note").exists());
    let after = std::fs::read_to_string(project.file()).unwrap();
    let settings = {
        let mut settings = insta::Settings::clone_current();
        settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", "[NOW]");
        settings
    };
    settings.bind(|| insta::assert_snapshot!(difference(&before, &after)));

    let again = project.test_env.json(&["--store", &url, "recover"]);
    assert_eq!((again["orphans"].as_u64(), again["scanned"].as_u64()), (Some(0), Some(1)), "{again:#}");
    assert_eq!(std::fs::read_to_string(project.file()).unwrap(), after, "a second run changed something");
}

#[test]
fn a_dry_run_reports_the_same_as_the_recovery_and_changes_nothing() {
    let (project, before, [living, _]) = fixture();
    let url = project.url();
    let planned = project.test_env.json(&["--store", &url, "recover", "--dry-run"]);
    assert_eq!(std::fs::read_to_string(project.file()).unwrap(), before);
    assert!(is_running(living) && project.worktree("T-2").exists());
    let done = project.test_env.json(&["--store", &url, "recover"]);
    for key in ["orphans", "left_alone", "unknown", "failed", "worktrees"] {
        assert_eq!(planned[key], done[key], "{key} differs from the dry run");
    }
    assert_eq!(planned["worktrees"]["rescued"], 3, "{planned:#}");
}

#[test]
fn running_sessions_are_listed_and_can_be_stopped() {
    let (project, _, [living, held]) = fixture();
    let url = project.url();
    let listed = project.test_env.json(&["--store", &url, "ps"]);
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(listed.len(), 4, "{listed:?}");
    let ran = project.test_env.sexton(&["--store", &url, "stop", "dispatch-held"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!is_running(held) && is_running(living));
    assert_eq!(project.entry("dispatch-held")["status"], "failed");
}

/// Writes one running record without a process start time.
fn record_legacy(project: &Project, pid: u64, started_at: &str) {
    let path = project.worktree("T-1");
    let entry = json!({"session_id": "legacy", "ticket_id": "T-1", "pid": pid, "process_start_time": null,
                       "started_at": started_at, "worktree_path": path, "status": "running"});
    let document = json!({"version": 1, "sessions": [entry], "last_updated": started_at});
    std::fs::write(project.file(), document.to_string()).unwrap();
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

#[test]
fn i2_a_record_without_a_start_time_kills_only_if_program_start_and_directory_match() {
    let mut project = Project::new();
    project.plant("T-1");
    let url = project.url();
    let before_it_was_started = "2026-01-02T03:04:05Z".to_owned();
    let elsewhere = project.test_env.path().to_owned();
    let inside = project.worktree("T-1");
    let wrong_place = project.orphan(&elsewhere);
    let agent = project.orphan(&inside);
    for (what, pid, started_at) in
        [("its directory", wrong_place, now()), ("its start", agent, before_it_was_started.clone())]
    {
        record_legacy(&project, pid, &started_at);
        let text = std::fs::read(project.file()).unwrap();
        let report = project.test_env.json(&["--store", &url, "recover"]);
        assert_eq!((report["unknown"].as_u64(), report["orphans"].as_u64()), (Some(1), Some(0)), "{what}");
        assert!(is_running(pid), "it was killed although {what} does not match");
        assert_eq!(std::fs::read(project.file()).unwrap(), text, "{what}");
        assert!(inside.join("note").exists(), "{what}");
    }
    // Directory and start match, the program name does not.
    let stranger = children_of(agent)[0];
    record_legacy(&project, stranger, &now());
    let report = project.test_env.json(&["--store", &url, "recover"]);
    assert_eq!(report["unknown"], 1, "{report:#}");
    assert!(is_running(stranger), "it was killed although its program does not match");
    // Everything matches.
    record_legacy(&project, agent, &now());
    let report = project.test_env.json(&["--store", &url, "recover"]);
    assert_eq!((report["orphans"].as_u64(), report["ended"].as_u64()), (Some(1), Some(1)), "{report:#}");
    assert!(!is_running(agent) && !inside.exists());
    assert_eq!(project.entry("legacy")["status"], "orphaned");
}

#[test]
fn i3_a_worktree_in_use_is_kept_and_its_record_stays_running() {
    let mut project = Project::new();
    project.plant("T-1");
    let url = project.url();
    record_legacy(&project, 4_000_000, &now());
    let inside = project.worktree("T-1");
    let visitor = project.orphan(&inside);
    let before = std::fs::read_to_string(project.file()).unwrap();
    for code in [3, 0] {
        // The same problem is new only once.
        let ran = project.test_env.sexton(&["--store", &url, "recover"]);
        assert_eq!(ran.code, code, "{}{}", ran.stdout, ran.stderr);
        assert!(is_running(visitor) && inside.join("note").exists());
        assert_eq!(std::fs::read_to_string(project.file()).unwrap(), before, "the record changed");
    }
    for pid in [children_of(visitor), vec![visitor]].concat() {
        support::kill_9(pid);
        eventually("the visitor is gone", || !is_running(pid));
    }
    project.test_env.ok(&["--store", &url, "recover"]);
    assert_eq!(project.entry("legacy")["status"], "orphaned");
    assert!(!inside.exists());
}

#[test]
fn i5_paths_outside_the_worktree_root_or_without_git_are_kept() {
    let project = Project::new();
    project.plant("T-1");
    let url = project.url();
    let outside = project.test_env.path().join("user-tree");
    project.repository.git(&["worktree", "add", "--quiet", "--detach", outside.to_str().unwrap()]);
    let plain = project.worktree("plain");
    std::fs::create_dir(&plain).unwrap();
    let paths =
        [outside.clone(), plain.clone(), project.root(), project.worktree("T-1").join("folder"), "/".into()];
    let entries: Vec<_> = paths
        .iter()
        .enumerate()
        .map(|(n, path)| {
            json!({"session_id": format!("s{n}"), "ticket_id": null, "pid": 4_000_000, "process_start_time": 7,
                   "started_at": now(), "worktree_path": path, "status": "running"})
        })
        .collect();
    std::fs::write(project.file(), json!({"version": 1, "sessions": entries}).to_string()).unwrap();
    let report = project.test_env.json(&["--store", &url, "recover"]);
    assert_eq!(report["worktrees"]["kept"], 5, "{report:#}");
    for path in [&outside, &plain, &project.worktree("T-1").join("folder"), &project.root()] {
        assert!(path.exists(), "{} was removed", path.display());
    }
    assert!(project.repository.worktrees().contains(&outside));
    assert!(project.worktree("T-1").join("note").exists(), "a worktree that no record names was touched");
}

#[test]
fn the_worktree_root_of_a_trusted_project_is_used() {
    let project = Project::new();
    let config = project.root().join(".tf/ralph/config.json");
    std::fs::write(config, r#"{"parallelWorktreesDir": "../agents", "maxIterations": 5}"#).unwrap();
    let worktree_root = project.root().parent().unwrap().join("agents");
    std::fs::create_dir(&worktree_root).unwrap();
    let tree = worktree_root.join("T-9");
    project.repository.git(&["worktree", "add", "--quiet", "-b", "ralph/T-9", tree.to_str().unwrap()]);
    std::fs::write(tree.join("note"), "work\n").unwrap();
    let entry = json!({"session_id": "s1", "ticket_id": "T-9", "pid": 4_000_000, "process_start_time": 7,
                       "started_at": now(), "worktree_path": "../agents/T-9", "status": "running"});
    std::fs::write(project.file(), json!({"version": 1, "sessions": [entry]}).to_string()).unwrap();
    project.test_env.ok(&["trust"]);
    let url = project.url();
    let report = project.test_env.json(&["--store", &url, "recover"]);
    assert_eq!(report["worktrees"]["removed"], 1, "{report:#}");
    assert!(!tree.exists());
    assert_eq!(project.repository.git(&["show", "refs/sexton/rescue/s1:note"]), "work");
}

#[test]
fn i6_an_invalid_or_newer_file_is_not_changed_by_a_byte() {
    let project = Project::new();
    let url = project.url();
    let whole = json!({"version": 1, "sessions": []}).to_string();
    for text in
        ["", "{\"version\": 1, \"sessions\": [", "{\"version\": 2, \"sessions\": []}", "[]", &whole[1..]]
    {
        std::fs::write(project.file(), text).unwrap();
        for command in [&["recover"][..], &["prune"], &["finish", "s1", "--code", "0"]] {
            let ran = project.test_env.sexton(&project.arguments(&url, command));
            assert_eq!(ran.code, 5, "{text}: {command:?}: {}{}", ran.stdout, ran.stderr);
        }
        assert_eq!(project.test_env.sexton(&["--store", &url, "ps"]).code, 5, "{text}");
        assert_eq!(std::fs::read_to_string(project.file()).unwrap(), text);
    }
}

#[test]
fn a_session_that_the_file_cannot_store_is_refused_and_leaves_nothing() {
    let project = Project::new();
    let url = project.url();
    std::fs::write(project.file(), "{\"version\": 1, \"sessions\": []}").unwrap();
    let text = std::fs::read_to_string(project.file()).unwrap();
    for command in [&["run", "-d", "--", "touch", "ran"][..], &["run", "-d", "-w", "--", "touch", "ran"]] {
        let ran = project.test_env.sexton(&project.arguments(&url, command));
        assert_ne!(ran.code, 0, "{command:?}");
        assert!(ran.stderr.contains("a tf store cannot keep session"), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: `sexton migrate --from"), "{}", ran.stderr);
        assert_eq!(std::fs::read_to_string(project.file()).unwrap(), text);
    }
    assert!(!project.root().join("ran").exists(), "the command ran");
    let sessions = std::fs::read_dir(project.test_env.state_dir().join("sessions"));
    assert_eq!(sessions.map_or(0, Iterator::count), 0, "a session's files were left");
}

#[test]
fn backups_of_two_projects_are_pruned_separately() {
    let (one, other) = (Project::new(), Project::new());
    let text = r#"{"version": 1, "sessions": []}"#;
    for project in [&one, &other] {
        std::fs::write(project.file(), text).unwrap();
    }
    let (first, second) = (one.url(), other.url());
    let backup = one.test_env.ok(&["--store", &first, "backup"]);
    for _ in 0..12 {
        one.test_env.ok(&["--store", &second, "backup"]);
    }
    assert!(std::path::Path::new(&backup).exists(), "a backup of one project was deleted for another");
    let listed = one.test_env.json(&["--store", &first, "backup", "--list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let restored = one.test_env.json(&["--store", &first, "restore", &backup]);
    assert_eq!(restored["restored"], 0, "{restored}");
}

#[test]
fn the_store_is_listed_among_the_backends() {
    let test_env = TestEnv::new();
    assert!(test_env.ok(&["backends"]).contains("a pi-ticketflow dispatch-sessions.json, in place"));
}
