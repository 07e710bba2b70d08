//! The loop where something fails: a look, a read, the disk, the loop itself. The next one loses nothing.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use support::tickets::{QUICK, Tickets};
use support::{eventually, kill_9, program, send_signal};

/// `command` of the tickets' yard under strace, with what it is told.
fn traced(tickets: &Tickets, command: &Command, options: &[&str]) -> Command {
    let mut traced = Command::new("strace");
    traced.args(["-qq", "-o"]).arg(trace_of(tickets)).args(options);
    traced.arg(command.get_program()).args(command.get_args());
    tickets.yard.enclose(&mut traced);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    traced
}

fn trace_of(tickets: &Tickets) -> PathBuf {
    tickets.yard.path().join("trace")
}

#[test]
fn i4_a_worktree_goes_though_any_look_at_it_failed_once() {
    let tickets = Tickets::new(&[]);
    let agent = tickets.agent();
    let mut struck = 0;
    // Looks are counted in each thread: the one that makes a worktree takes fewer, so that this strikes the one
    // that clears it away after the merge.
    for look in 9.. {
        let ticket = format!("late-{look}");
        let ralph = tickets.command(&["ralph", "run", &ticket, "--agent", &agent]);
        let inject = format!("inject=openat2:error=EMFILE:when={look}");
        let ran = tickets.run(&mut traced(
            &tickets,
            &ralph,
            &["-f", "--seccomp-bpf", "-e", "trace=openat2", "-e", &inject],
        ));
        assert_eq!(ran.code, 0, "look {look}: {}", ran.stderr);
        assert!(ran.stdout.contains("merged"), "look {look}: {}", ran.stdout);
        assert_eq!(tickets.repository.worktrees().len(), 1, "look {look}: {}", ran.stderr);
        if !std::fs::read_to_string(trace_of(&tickets)).unwrap().contains("INJECTED") {
            break;
        }
        struck += 1;
    }
    assert!(struck >= 3, "only {struck} looks failed");
}

#[test]
fn i8_a_ticket_is_merged_though_any_look_at_its_record_failed_once() {
    let tickets = Tickets::new(&[]);
    let agent = tickets.agent();
    let mark = tickets.yard.state_dir().join("sessions.db.mark");
    let mut struck = 0;
    for look in 1.. {
        let ticket = format!("ok-{look}");
        let run = || tickets.command(&["ralph", "run", &ticket, "--agent", &agent]);
        let inject = format!("inject=openat:error=EIO:when={look}");
        let options =
            ["-f", "-b", "execve", "-P", mark.to_str().unwrap(), "-e", "trace=openat", "-e", &inject];
        let mut ran = tickets.run(&mut traced(&tickets, &run(), &options));
        let was_struck = std::fs::read_to_string(trace_of(&tickets)).unwrap().contains("INJECTED");
        assert!(!ran.stderr.contains("set aside"), "look {look}: {}", ran.stderr);
        if ran.code != 0 {
            // One that could not even begin says so, and the next one does it all.
            ran = tickets.run(&mut run());
        }
        assert_eq!(ran.code, 0, "look {look}: {}", ran.stderr);
        assert!(ran.stdout.contains("merged"), "look {look}: {}", ran.stdout);
        if !was_struck {
            break;
        }
        struck += 1;
    }
    assert!(struck >= 3, "only {struck} looks failed");
    tickets.require_nothing_runs();
}

#[test]
fn i7_a_loop_that_was_killed_before_it_merged_leaves_no_branch_either() {
    let tickets = Tickets::new(&[]);
    let agent = tickets.agent();
    let ralph = || tickets.command(&["ralph", "run", "ok-1", "--agent", &agent]);
    let mut killed = tickets.spawn(&mut ralph());
    tickets.wait_for_work("ok-1");
    // Its agent comes to a good end, of which the loop never hears.
    send_signal(killed.id().into(), Signal::STOP);
    let mut session = Value::Null;
    eventually("the session is recorded as completed", || {
        let all = tickets.yard.json(&["ps", "--all"]);
        let done = |one: &&Value| one["ticket"] == "ok-1" && one["status"] == "completed";
        session = all.as_array().unwrap().iter().find(done).cloned().unwrap_or_default();
        session["id"].is_string()
    });
    kill_9(killed.id().into());
    killed.wait().unwrap();
    // The worktree goes before the next loop looks; its branch stays, because nobody has merged it yet.
    let removed = tickets.run(&mut tickets.command(&["worktree", "rm", session["id"].as_str().unwrap()]));
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    assert_eq!(tickets.repository.worktrees().len(), 1, "{}", removed.stdout);
    assert_eq!(tickets.repository.branches().lines().count(), 2, "the work is on its branch");
    let ran = tickets.run(&mut ralph());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("merged"), "{}", ran.stdout);
    assert_eq!(tickets.repository.branches().lines().count(), 1, "a merged branch stays: {}", ran.stderr);
    tickets.require_nothing_runs();
}

#[test]
fn i8_a_loop_that_could_not_read_what_git_said_does_not_panic_and_the_next_one_goes_on() {
    let tickets = Tickets::new(&[]);
    let agent = tickets.agent();
    let mut struck = 0;
    // What a program says to the loop is read through a pipe; the standard library panics where that fails.
    for nth in 4..=14 {
        let ticket = format!("ok-{nth}");
        let ralph = tickets.command(&["ralph", "run", &ticket, "--agent", &agent]);
        let inject = format!("inject=read:error=EIO:when={nth}");
        let options = ["-f", "-b", "execve", "-e", "trace=read", "-e", &inject];
        let ran = tickets.run(&mut traced(&tickets, &ralph, &options));
        assert!(!ran.stderr.contains("panicked"), "read {nth}: {}", ran.stderr);
        struck += usize::from(ran.stderr.contains("cannot run git"));
        let ran = tickets.run(&mut tickets.command(&["ralph", "run", &ticket, "--agent", &agent]));
        assert_eq!(ran.code, 0, "read {nth}: {}", ran.stderr);
    }
    assert!(struck > 0, "git ran every time: the test proves nothing");
    tickets.require_nothing_runs();
}

#[test]
fn a_store_that_is_full_ends_the_loop_and_the_next_one_loses_nothing() {
    let settings = format!("owner.grace = \"200ms\"\n{QUICK}");
    let tickets = Tickets::with_settings(&["ok-1", "ok-2", "ok-3", "ok-4"], &settings);
    // Only the loop itself meets the full disk; what it writes first, its registration, still has room.
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
fn i4_what_was_merged_is_on_the_disk_before_its_worktree_goes() {
    // Not `store.durability = "process"`, which asks for less.
    let settings = QUICK.replace("store.durability = \"process\"\n", "");
    let tickets = Tickets::with_settings(&[], &settings);
    let output = tickets.yard.path().join("trace");
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
    // A worktree comes out of the trash, where it is made, and goes into it again.
    let gone = lines.iter().rposition(|line| line.contains("rename") && line.contains("/.trash"));
    assert!(gone.is_some(), "the worktree was not removed by the loop: {trace}");
    assert!(synced.is_some() && synced < gone, "it went before what was merged was on the disk: {trace}");
}
