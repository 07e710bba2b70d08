//! The program as process 1 of a pid namespace, as in a container, where every orphan becomes its child.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, geteuid};
use serde_json::json;
use support::mcp::Mcp;
use support::{Ran, TestEnv, eventually, is_running, program, send_signal, state_of};

/// Returns a command that runs the binary as process 1 of a new pid namespace. Without root it uses a user namespace
/// too.
fn as_process_1(test_env: &TestEnv, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    test_env.enclose(&mut command);
    if !geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
    command.arg(program()).args(arguments);
    command
}

/// Waits for the process 1 that `unshare` starts, and returns its pid in the test's namespace.
fn process_1(unshare: &Child) -> u64 {
    let mut found = None;
    eventually("process 1 has started", || {
        found = children(unshare.id().into()).first().copied();
        found.is_some_and(|pid| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.starts_with(program().as_bytes()))
        })
    });
    found.unwrap()
}

/// Returns the children of a process.
fn children(of: u64) -> Vec<u64> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    let parent = |pid: &u64| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse::<u64>().ok()
    };
    pids.filter(|pid| parent(pid) == Some(of)).collect()
}

/// Returns the zombies among the descendants of a process.
fn zombies(of: u64) -> Vec<u64> {
    let children = children(of);
    let below = children.iter().flat_map(|child| zombies(*child));
    let here = children.iter().copied().filter(|child| state_of(*child) == Some('Z'));
    here.chain(below).collect()
}

/// Returns whether a descendant of this process was started by `leave_orphans`.
fn has_orphans(of: u64) -> bool {
    let is_orphan =
        |pid: &u64| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == ORPHAN);
    children(of).iter().any(|child| is_orphan(child) || has_orphans(*child))
}

/// The command line of the processes that `leave_orphans` starts.
const ORPHAN: &[u8] = b"sleep\x000.1\x00";

/// Starts processes in the namespace of `process_1` whose parent exits at once, as with `docker exec`.
fn leave_orphans(process_1: u64, count: usize) {
    let mut command = Command::new("nsenter");
    command.args(["--target", &process_1.to_string(), "--pid", "--mount"]);
    if !geteuid().is_root() {
        command.args(["--user", "--preserve-credentials"]);
    }
    let script = format!("for i in $(seq {count}); do sleep 0.1 & done");
    let done = Ran::of(&command.args(["sh", "-c", &script]).stdin(Stdio::null()).output().unwrap());
    assert_eq!(done.code, 0, "{}", done.stderr);
}

#[test]
fn i9_a_server_that_is_process_1_leaves_no_zombie() {
    let test_env = TestEnv::new();
    let mut mcp = Mcp::of(as_process_1(&test_env, &["mcp", "--allow-run", "--allow-stop"]));
    mcp.shake_hands();
    let init = process_1(&mcp.child);
    for _ in 0..50 {
        mcp.ok("start_session", &json!({"command": "true"}));
    }
    // Supervisors of nested sessions become children of the server when the outer session ends.
    let program = program();
    for _ in 0..5 {
        let nested = [program.as_str(), "run", "-d", "--no-owner", "--", "true"];
        mcp.ok("execute_command", &json!({"command": nested}));
    }
    leave_orphans(init, 20);
    // Reaping does not consume the exit status of the server's own children.
    let failed = mcp.call("execute_command", &json!({"command": "false"}));
    assert_eq!((&failed["exit_code"], &failed["status"]), (&json!(1), &json!("failed")), "{failed}");
    eventually("every orphan was waited for", || !has_orphans(init) && zombies(init).is_empty());
    let (status, stderr) = mcp.leave();
    assert!(status.success(), "{stderr}");
}

#[test]
fn i9_other_commands_that_are_process_1_leave_no_zombie() {
    let test_env = TestEnv::new();
    for arguments in [&["run", "--", "sleep", "600"][..], &["ps", "--watch", "--json"]] {
        let mut command = as_process_1(&test_env, arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let init = process_1(&child);
        leave_orphans(init, 20);
        eventually("every orphan was waited for", || !has_orphans(init) && zombies(init).is_empty());
        assert!(is_running(init), "{arguments:?}");
        // SIGKILL to process 1 ends everything in its namespace.
        send_signal(init, Signal::KILL);
        child.wait().unwrap();
    }
    test_env.sexton(&["stop", "--all", "--force"]);
}

#[test]
fn process_1_exits_like_its_command_and_forwards_signals() {
    let test_env = TestEnv::new();
    let run = |script: &str| {
        let output = as_process_1(&test_env, &["run", "--", "sh", "-c", script]).output().unwrap();
        Ran::of(&output)
    };
    assert_eq!(run("exit 7").code, 7);
    assert_eq!(run("kill -9 $$").code, 137);
    assert_eq!(run("echo out").stdout, "out\n");

    let mut mcp = Mcp::of(as_process_1(&test_env, &["mcp", "--allow-run"]));
    mcp.shake_hands();
    mcp.start_sleep();
    let init = process_1(&mcp.child);
    send_signal(init, Signal::TERM);
    let (status, stderr) = mcp.wait();
    assert!(status.success() && stderr.contains("stopped 1 session"), "{status}: {stderr}");
}
