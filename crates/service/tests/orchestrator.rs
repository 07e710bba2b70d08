//! Runs the example orchestrator as a user would: it works, and it can be killed.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pollster::block_on;
use sexton_core::{Query, Status};
use sexton_service::Service;
use sexton_store_sqlite as _;

/// Returns the path of the example, which cargo builds with the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().with_file_name("examples").join("orchestrator");
    assert!(program.exists(), "{} is not built: `cargo build --examples`", program.display());
    program
}

fn orchestrate(state_dir: &Path, agent: &[&str]) -> Command {
    let mut command = Command::new(example());
    command.arg(state_dir).args(agent).stdin(Stdio::null());
    command
}

fn lines_until(child: &mut Child, last: &str) -> Vec<String> {
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    for line in output.lines() {
        lines.push(line.unwrap());
        if lines.last().is_some_and(|line| line == last) {
            break;
        }
    }
    lines
}

fn statuses(state_dir: &Path) -> Vec<Status> {
    let service = Service::at(state_dir, ("sqlite", "sessions.db")).unwrap();
    let store = service.open_for_reading().unwrap();
    block_on(store.list(&Query::all())).unwrap().sessions.iter().map(|session| session.status).collect()
}

#[test]
fn example_starts_an_agent_for_each_ticket_and_waits() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        orchestrate(&dir.path().join("state"), &["sh", "-c", "test -n \"$TICKET\""]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let expected = "recovered: 0 orphaned, 0 ended\nT-1: started\nT-2: started\nT-3: started\n\
                    T-1: completed\nT-2: completed\nT-3: completed\n";
    assert_eq!(printed, expected);
}

#[test]
fn i10_next_orchestrator_recovers_a_killed_one() {
    let dir = tempfile::tempdir().unwrap();
    let state_dir = dir.path().join("state");
    let mut first = orchestrate(&state_dir, &["sleep", "600"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = lines_until(&mut first, "T-3: started");
    assert_eq!(lines.len(), 4, "{lines:?}");
    first.kill().unwrap();
    first.wait().unwrap();

    let second = orchestrate(&state_dir, &["true"]).output().unwrap();
    let printed = String::from_utf8(second.stdout).unwrap();
    assert!(printed.starts_with("recovered: 3 orphaned, 3 ended\n"), "{printed}");
    assert!(statuses(&state_dir).iter().all(|status| status.is_finished()), "{:?}", statuses(&state_dir));
}

#[test]
fn agent_that_cannot_be_executed_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let output = orchestrate(&dir.path().join("state"), &["/nonexistent/agent"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains("No such file"), "{stderr}");
    assert_eq!(statuses(&dir.path().join("state")), [Status::Failed]);
}
