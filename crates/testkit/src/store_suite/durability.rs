//! When a commit is acknowledged: with `Power`, only after its data was synced. Checked by tracing the system calls
//! of a real writer.

use std::path::Path;

use sexton_core::store::Durability;

use super::Subject;
use super::test_env::TestEnv;
use super::trace::{Call, TRACED, read_calls};
use super::worker;
use crate::role::Helper;
use crate::strace::traced;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("durability":
    i6_commit_is_synced_before_it_is_acknowledged,
    i6_new_store_is_synced_with_its_directory,
    i6_replaced_file_is_synced_with_its_directory,
    process_durability_does_not_sync_commits,
);

/// Number of commits of a traced writer.
const COMMITS: usize = 8;

/// Runs a worker to its end. Returns each printed line with the calls before it.
fn trace(test_env: &TestEnv, role: &str, durability: Durability, count: usize) -> Vec<(String, Vec<Call>)> {
    let output = test_env.elsewhere("trace");
    let plain = test_env.helper_command(role, durability, &[&count.to_string()]);
    let writer = Helper::spawn(&mut traced(&plain, &output, &[TRACED]));
    let lines = writer.remaining_lines();
    assert!(writer.finish().0.success(), "strace could not run the writer: is it installed?");
    assert_eq!(lines.len(), count, "the writer acknowledges each commit");
    let text = std::fs::read(&output).expect("the trace can be read");
    let mut calls = read_calls(&String::from_utf8_lossy(&text)).into_iter();
    let mut up_to = |line: &String| calls.by_ref().take_while(|call| !call.prints(line)).collect();
    lines.iter().map(|line| (line.clone(), up_to(line))).collect()
}

/// Checks that each file that `id` was written to was synced afterwards.
fn require_synced(id: &str, calls: &[Call]) {
    let written: Vec<&Path> = calls.iter().filter_map(|call| call.find_written(id)).collect();
    assert!(!written.is_empty(), "{id} was acknowledged and never written: {calls:?}");
    for path in written {
        let last = calls.iter().rposition(|call| call.find_written(id) == Some(path));
        let mut later = calls.iter().skip(last.unwrap_or(0));
        assert!(
            later.any(|call| call.syncs(path)),
            "{id} was acknowledged before {} was synced",
            path.display()
        );
    }
}

fn i6_commit_is_synced_before_it_is_acknowledged(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    for (id, calls) in trace(&test_env, worker::APPEND, Durability::Power, COMMITS) {
        require_synced(&id, &calls);
    }
}

fn i6_new_store_is_synced_with_its_directory(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let commits = trace(&test_env, worker::APPEND, Durability::Power, COMMITS);
    let (id, first) = commits.first().expect("there was a first commit");
    // Without a synced directory entry, a power failure loses the file even if its content was synced.
    let directory = test_env.directory().canonicalize().expect("the directory is there");
    let synced = first.iter().any(|call| call.syncs(&directory));
    assert!(synced, "the store's directory was not synced before the first acknowledgement");
    for path in first.iter().filter_map(|call| call.find_written(id)) {
        let Some(made) = first.iter().position(|call| call.makes(path)) else { continue };
        // The last name is relevant.
        let renamed = first.iter().enumerate().rev().find_map(|(at, call)| match call {
            Call::Rename { from, to } if from == path => Some((at, to.as_path())),
            _ => None,
        });
        let (at, name) = renamed.unwrap_or((made, path));
        let folder = name.parent().expect("a file has a directory");
        let named = first.iter().skip(at).any(|call| call.syncs(folder));
        assert!(named, "{id} was acknowledged before the name of {} was synced", path.display());
    }
}

fn i6_replaced_file_is_synced_with_its_directory(subject: &Subject) {
    /// Enough that a store that compacts its file does so.
    const FLIPS: usize = 200;
    let test_env = TestEnv::with(subject, worker::pair());
    let directory = test_env.directory().canonicalize().expect("the directory is there");
    for (flip, calls) in trace(&test_env, worker::FLIP, Durability::Power, FLIPS) {
        for (at, call) in calls.iter().enumerate() {
            let Call::Rename { from, to } = call else { continue };
            if to.parent() != Some(&*directory) {
                continue;
            }
            let (before, after) = calls.split_at(at);
            let to = to.display();
            assert!(
                before.iter().any(|call| call.syncs(from)),
                "flip {flip}: {to} was replaced by a file that was not synced"
            );
            assert!(
                after.iter().any(|call| call.syncs(&directory)),
                "flip {flip}: the new {to} was acknowledged before its name was synced"
            );
        }
    }
}

fn process_durability_does_not_sync_commits(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    // The first commit may sync what it creates.
    for (id, calls) in trace(&test_env, worker::APPEND, Durability::Process, COMMITS).into_iter().skip(1) {
        let syncs: Vec<&Call> = calls.iter().filter(|call| matches!(call, Call::Sync(_))).collect();
        assert!(syncs.is_empty(), "{id} waited for the disk: {syncs:?}");
        let written = calls.iter().any(|call| call.find_written(&id).is_some());
        assert!(written, "{id} was acknowledged and never written");
    }
}
