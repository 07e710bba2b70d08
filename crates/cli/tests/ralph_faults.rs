//! The ticket loop under faults: a failed open, a failed read, a full disk, a killed loop. The next loop loses nothing.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use support::tickets::{QUICK, Tickets};
use support::{eventually, kill_9, program, send_signal};

/// Returns `command` under strace with these options, in the test environment of the tickets.
fn traced(tickets: &Tickets, command: &Command, options: &[&str]) -> Command {
    let mut traced = Command::new("strace");
    traced.args(["-qq", "-o"]).arg(trace_of(tickets)).args(options);
    traced.arg(command.get_program()).args(command.get_args());
    tickets.test_env.enclose(&mut traced);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    traced
}

fn trace_of(tickets: &Tickets) -> PathBuf {
    tickets.test_env.path().join("trace")
}

#[test]
fn i4_a_worktree_is_removed_although_any_open_of_it_failed_once() {
    let tickets = Tickets::new(&[]);
    let agent = tickets.agent();
    let mut injected = 0;
    // strace counts calls per thread. The thread that creates a worktree makes fewer, so the fault hits the thread that
    // removes it after the merge.
    for nth in 9.. {
        let ticket = format!("late-{nth}");
        let ralph = tickets.command(&["ralph", "run", &ticket, "--agent", &agent]);
        let inject = format!("inject=openat2:error=EMFILE:when={nth}");
        let ran = tickets.run(&mut traced(
            &tickets,
            &ralph,
            &["-f", "--seccomp-bpf", "-e", "trace=openat2", "-e", &inject],
        ));
        assert_eq!(ran.code, 0, "open {nth}: {}", ran.stderr);
        assert!(ran.stdout.contains("merged"), "open {nth}: {}", ran.stdout);
        assert_eq!(tickets.repository.worktrees().len(), 1, "open {nth}: {}", ran.stderr);
        if !std::fs::read_to_string(trace_of(&tickets)).unwrap().contains("INJECTED") {
            break;
        }
        injected += 1;
    }
    assert!(injected >= 3, "only {injected} opens failed");
}

#[test]
fn i8_a_ticket_is_merged_although_any_open_of_the_store_failed_once() {
    let tickets = Tickets::new(&[]);
    let agent = tickets.agent();
    let mark = tickets.test_env.state_dir().join("sessions.db.mark");
    let mut injected = 0;
    for nth in 1.. {
        let ticket = format!("ok-{nth}");
        let run = || tickets.command(&["ralph", "run", &ticket, "--agent", &agent]);
        let inject = format!("inject=openat:error=EIO:when={nth}");
        let options =
            ["-f", "-b", "execve", "-P", mark.to_str().unwrap(), "-e", "trace=openat", "-e", &inject];
        let mut ran = tickets.run(&mut traced(&tickets, &run(), &options));
        let was_injected = std::fs::read_to_string(trace_of(&tickets)).unwrap().contains("INJECTED");
        assert!(!ran.stderr.contains("set aside"), "open {nth}: {}", ran.stderr);
        if ran.code != 0 {
            // A loop that could not start reports an error, and the next loop does all the work.
            ran = tickets.run(&mut run());
        }
        assert_eq!(ran.code, 0, "open {nth}: {}", ran.stderr);
        assert!(ran.stdout.contains("merged"), "open {nth}: {}", ran.stdout);
        if !was_injected {
            break;
        }
        injected += 1;
    }
    assert!(injected >= 3, "only {injected} opens failed");
    tickets.require_nothing_runs();
}

#[test]
fn i7_the_next_loop_merges_the_branch_of_a_killed_loop_and_deletes_it() {
    let tickets = Tickets::new(&[]);
    let agent = tickets.agent();
    let ralph = || tickets.command(&["ralph", "run", "ok-1", "--agent", &agent]);
    let mut killed = tickets.spawn(&mut ralph());
    tickets.wait_for_work("ok-1");
    // Its agent succeeds while the loop is stopped, so the loop does not notice.
    send_signal(killed.id().into(), Signal::STOP);
    let mut session = Value::Null;
    eventually("the session is recorded as completed", || {
        let all = tickets.test_env.json(&["ps", "--all"]);
        let done = |one: &&Value| one["ticket"] == "ok-1" && one["status"] == "completed";
        session = all.as_array().unwrap().iter().find(done).cloned().unwrap_or_default();
        session["id"].is_string()
    });
    kill_9(killed.id().into());
    killed.wait().unwrap();
    // The worktree is removed before the next loop starts; its branch stays, because it is not merged yet.
    let removed = tickets.run(&mut tickets.command(&["worktree", "rm", session["id"].as_str().unwrap()]));
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    assert_eq!(tickets.repository.worktrees().len(), 1, "{}", removed.stdout);
    assert_eq!(tickets.repository.branches().lines().count(), 2, "the branch with the work is missing");
    let ran = tickets.run(&mut ralph());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("merged"), "{}", ran.stdout);
    assert_eq!(tickets.repository.branches().lines().count(), 1, "the merged branch is left: {}", ran.stderr);
    tickets.require_nothing_runs();
}

#[test]
fn i8_a_failed_read_of_git_output_does_not_panic_and_the_next_loop_continues() {
    let tickets = Tickets::new(&[]);
    let agent = tickets.agent();
    let mut injected = 0;
    // The loop reads output of programs through a pipe; the standard library panics if that read fails.
    for nth in 4..=14 {
        let ticket = format!("ok-{nth}");
        let ralph = tickets.command(&["ralph", "run", &ticket, "--agent", &agent]);
        let inject = format!("inject=read:error=EIO:when={nth}");
        let options = ["-f", "-b", "execve", "-e", "trace=read", "-e", &inject];
        let ran = tickets.run(&mut traced(&tickets, &ralph, &options));
        assert!(!ran.stderr.contains("panicked"), "read {nth}: {}", ran.stderr);
        injected += usize::from(ran.stderr.contains("cannot run git"));
        let ran = tickets.run(&mut tickets.command(&["ralph", "run", &ticket, "--agent", &agent]));
        assert_eq!(ran.code, 0, "read {nth}: {}", ran.stderr);
    }
    assert!(injected > 0, "git never failed: the test proves nothing");
    tickets.require_nothing_runs();
}

#[test]
fn a_full_disk_stops_the_loop_and_the_next_loop_loses_nothing() {
    let settings = format!("owner.grace = \"200ms\"\n{QUICK}");
    let tickets = Tickets::with_settings(&["ok-1", "ok-2", "ok-3", "ok-4"], &settings);
    // Only the loop itself gets ENOSPC, and only after it has written its registration.
    let ralph = tickets.start(&["--parallel", "2"]);
    let mut command = traced(&tickets, &ralph, &["-e", "inject=pwrite64:error=ENOSPC:when=30+"]);
    let ran = tickets.run(&mut command);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("full") || ran.stderr.contains("No space left"), "{}", ran.stderr);
    tickets.require_nothing_runs();
    let ran = tickets.run(&mut tickets.start(&["--parallel", "2"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    tickets.require_exactly(&["ok-1", "ok-2", "ok-3", "ok-4"]);
    assert_eq!(tickets.record()["loop"]["iteration"], 4);
}

#[test]
fn i4_merged_work_is_synced_before_its_worktree_is_removed() {
    // Without `store.durability = "process"`, which does not sync.
    let settings = QUICK.replace("store.durability = \"process\"\n", "");
    let tickets = Tickets::with_settings(&[], &settings);
    let output = tickets.test_env.path().join("trace");
    let agent = tickets.agent();
    let mut strace = std::process::Command::new("strace");
    tickets.enclose(&mut strace);
    strace
        .args(["-f", "-b", "execve", "-y", "-e", "trace=syncfs,rename,renameat,renameat2", "-o"])
        .arg(&output);
    strace.arg(program()).args(["ralph", "run", "ok-1", "--agent", &agent]);
    let ran = tickets.run(&mut strace);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    tickets.require_exactly(&["ok-1"]);
    let trace = std::fs::read_to_string(&output).unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    let synced = lines.iter().position(|line| line.contains("syncfs("));
    // A worktree is created in the trash directory and renamed, and renamed back for its removal.
    let gone = lines.iter().rposition(|line| line.contains("rename") && line.contains("/.trash"));
    assert!(gone.is_some(), "the worktree was not removed by the loop: {trace}");
    assert!(
        synced.is_some() && synced < gone,
        "the worktree was removed before the merge was synced: {trace}"
    );
}
