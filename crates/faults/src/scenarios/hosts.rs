//! Two hosts that share a store, a clone of a host, and removals that the kernel refuses: no host touches the
//! sessions of another, and no removal is reported that did not happen.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sexton_test_harness::crashed_env::kill_supervisor_and_command;
use sexton_test_harness::repository::Repository;
use sexton_test_harness::{Ran, TestEnv, is_running, program};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};
use crate::mounts::require_root;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "hosts",
    promises: "I5 I7 I12",
    what: "another host over the same store, a clone of this one, and files that cannot be deleted",
    mutants: &["retention_ignores_hosts", "clone_is_reboot", "removal_always_done"],
    tools: &[("unshare", "util-linux"), ("hostname", "hostname"), ("chattr", "e2fsprogs"), ("git", "git")],
    minutes: 1,
    runs_alone: false,
    run,
};

const SETTINGS: &str =
    "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"200ms\"\nrecover.stray_age = \"0s\"\n";

fn run(trials: &mut Trials) {
    require_root();
    for round in 0..trials.either(1, 10) {
        for store in ["sqlite", "json"] {
            trials.trial(&format!("{store}, retention of another host, round {round}"), || {
                keep_finished(store)
            });
            trials.trial(&format!("{store}, a clone recovers, round {round}"), || keep_running(store));
            trials.trial(&format!("{store}, a file stays, round {round}"), || report_undeleted(store));
        }
    }
}

/// One host with a repository, and another that shares only its store.
struct Hosts {
    test_env: TestEnv,
    bystanders: Bystanders,
}

impl Hosts {
    fn set(store: &'static str) -> Hosts {
        let test_env = TestEnv::on(store).with_settings(SETTINGS);
        Repository::in_work_dir(&test_env);
        std::fs::write(test_env.path().join("boot-id"), "11111111-2222-4333-8444-555555555555\n").unwrap();
        let bystanders = Bystanders::plant(&test_env);
        Hosts { test_env, bystanders }
    }

    /// Runs the binary on a machine with another name and boot id, after `script` has changed what it can
    /// see.
    fn on_the_other(&self, state_dir: &Path, script: &str, arguments: &[&str]) -> Ran {
        let mut command = Command::new("unshare");
        self.test_env.enclose(&mut command);
        let script = format!(
            "set -e; hostname another-host; mount --bind \"$BOOT\" /proc/sys/kernel/random/boot_id; {script}\n\
             cd /; exec \"$@\""
        );
        command.env("BOOT", self.test_env.path().join("boot-id")).env("SEXTON_STATE_DIR", state_dir);
        command
            .env("WORK", self.test_env.work_dir())
            .env("TREES", self.test_env.state_dir().join("worktrees"));
        command.args(["--uts", "--mount", "sh", "-c", &script, "sh"]).arg(program()).args(arguments);
        Ran::of(&command.output().unwrap())
    }

    fn start(&self, script: &str) -> (String, PathBuf) {
        let id = self.test_env.ok(&["run", "-d", "-w", "--", "sh", "-c", script]);
        let tree = PathBuf::from(self.test_env.record(&id)["worktree"]["path"].as_str().unwrap());
        (id, tree)
    }
}

/// A finished session with work in its worktree: the other host, which sees neither the repository nor the
/// worktree, deletes nothing.
fn keep_finished(store: &'static str) -> u64 {
    let hosts = Hosts::set(store);
    let (id, tree) = hosts.start("echo precious > new; exit 3");
    hosts.test_env.wait_until_ended(&id);
    let other = hosts.test_env.path().join("other-state");
    let unseen = "mount -t tmpfs none \"$WORK\"; mount -t tmpfs none \"$TREES\"";
    for arguments in [["prune", "--ttl", "0s", "--keep", "0"], ["recover", "--ttl", "0s", "--keep", "0"]] {
        let ran = hosts.on_the_other(&other, unseen, &arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
    }
    let recovered = hosts.test_env.sexton(&["recover"]);
    assert_eq!(recovered.code, 0, "{}", recovered.stderr);
    assert_eq!(hosts.test_env.record(&id)["exit"]["code"], 3, "another host deleted the record");
    let work = std::fs::read_to_string(tree.join("new")).unwrap_or_default();
    assert_eq!(work, "precious\n", "the worktree was removed as a stray");
    hosts.bystanders.require_untouched(&hosts.test_env);
    2
}

/// A running session: a clone of its machine, with the same state directory, does not mistake itself for a
/// reboot.
fn keep_running(store: &'static str) -> u64 {
    let hosts = Hosts::set(store);
    let (id, tree) = hosts.start("echo precious > new; exec sleep 600");
    let before = hosts.test_env.record(&id);
    let ran = hosts.on_the_other(&hosts.test_env.state_dir(), "", &["recover"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(hosts.test_env.record(&id), before, "a clone changed the record of the other");
    assert!(tree.is_dir(), "a clone removed the worktree of the other");
    assert!(is_running(before["process"]["pid"].as_u64().unwrap()));
    hosts.bystanders.require_untouched(&hosts.test_env);
    1
}

/// A file that the kernel refuses to delete: each report lists it, only the first as new, until it can be
/// deleted.
fn report_undeleted(store: &'static str) -> u64 {
    let hosts = Hosts::set(store);
    let (id, tree) = hosts.start("exec sleep 600");
    std::fs::write(tree.join("stuck"), "stuck\n").unwrap();
    change_attributes(&["+i"], &tree.join("stuck"));
    kill_supervisor_and_command(&hosts.test_env, &id);
    let report = |ran: &Ran| -> Value { serde_json::from_str(&ran.stdout).unwrap() };
    let first = hosts.test_env.sexton(&["recover", "--json"]);
    let again = hosts.test_env.sexton(&["recover", "--json"]);
    change_attributes(&["-R", "-i"], tree.parent().unwrap());
    let counts = &report(&first)["worktrees"];
    assert_eq!((&counts["removed"], &counts["failed"]), (&0.into(), &1.into()), "{}", first.stdout);
    assert_eq!((first.code, again.code), (3, 0), "a problem is new once");
    assert_eq!(report(&again)["problems"].as_array().map(Vec::len), Some(1), "{}", again.stdout);
    hosts.test_env.ok(&["recover"]);
    let left = std::fs::read_dir(tree.parent().unwrap().join(".trash")).unwrap().count();
    assert_eq!(left, 0, "a file that can be deleted now is still there");
    assert_eq!(hosts.test_env.record(&id)["status"], "orphaned");
    hosts.bystanders.require_untouched(&hosts.test_env);
    1
}

fn change_attributes(change: &[&str], path: &Path) {
    assert!(Command::new("chattr").args(change).arg(path).status().unwrap().success());
}
