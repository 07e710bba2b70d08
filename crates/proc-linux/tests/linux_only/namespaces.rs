//! Other pid namespaces: their pids denote other processes, so they are never used for a decision.

use std::path::Path;
use std::process::Command;

use pollster::block_on;
use sexton_core::{Liveness, ProbeError, ProcessIdentity};

use super::play::{Case, TestProcess, idle, probe, role};

pub const CASES: &[Case] = &[
    ("i2_process_recorded_in_another_pid_namespace_is_unknown", another_namespace_is_unknown),
    ("i2_proc_of_another_namespace_is_rejected", foreign_proc_is_rejected),
];

const RECORD: &str = "SEXTON_TEST_RECORD";

/// Runs a program in new namespaces. For an ordinary user that includes a user namespace with root.
pub fn unshared(flags: &[&str], program: &Path) -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(flags).arg("--").arg(program);
    command
}

/// Runs this program in a role as the first process of a new pid namespace; all processes in there end with
/// it.
pub fn role_in_pid_namespace(name: &str, flags: &[&str]) -> Command {
    let role = role(name);
    let mut command =
        unshared(&[&["--pid", "--fork", "--kill-child"], flags].concat(), Path::new(role.get_program()));
    for (key, value) in role.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command
}

fn another_namespace_is_unknown() {
    let process = TestProcess::start(&mut idle());
    let record = serde_json::to_string(&process.identity()).unwrap();
    let status =
        role_in_pid_namespace("foreign record", &["--mount-proc"]).env(RECORD, record).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Role: a process that has the record of a process in another namespace.
pub fn judge_a_foreign_record() {
    let record: ProcessIdentity = serde_json::from_str(&std::env::var(RECORD).unwrap()).unwrap();
    for pid in [record.pid, 1] {
        let seen = block_on(probe().observe(&ProcessIdentity { pid, ..record.clone() }));
        assert_eq!(seen, Liveness::Unknown("it was recorded in another pid namespace".to_owned()));
    }
}

fn foreign_proc_is_rejected() {
    let status = role_in_pid_namespace("foreign proc", &[]).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Role: a process whose `/proc` shows the outer namespace.
pub fn open_under_a_foreign_proc() {
    let refused = sexton_proc_linux::open().err().expect("the probe must not open here");
    assert!(matches!(refused, ProbeError::ForeignProc { .. }), "{refused}");
}
