//! Clocks that are 400 days wrong, in either direction.

use sexton_test_harness::records::insert_records;
use sexton_test_harness::repository::Repository;
use sexton_test_harness::{Ran, TestEnv, eventually, is_running};

use super::operations::finished;
use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "clocks",
    promises: "I2 I9",
    what: "clocks 400 days ahead and behind: nothing that runs is stopped, deleted or removed",
    mutants: &["prune_running", "stale_is_dead"],
    tools: &[("faketime", "faketime"), ("git", "git")],
    minutes: 1,
    runs_alone: false,
    run,
};

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        for offset in ["+400d", "-400d"] {
            for command in [&["recover"][..], &["prune"], &["prune", "--ttl", "1s", "--keep", "0"]] {
                for _ in 0..trials.either(1, 5) {
                    let name = format!("{store}, {offset}, {command:?}");
                    trials.trial(&name, || run_with_clock_offset(store, offset, command));
                }
            }
        }
    }
}

fn run_with_clock_offset(store: &'static str, offset: &str, command: &[&str]) -> u64 {
    let test_env = TestEnv::on(store).with_settings("contain = \"tree\"\n");
    Repository::in_work_dir(&test_env);
    let bystanders = Bystanders::plant(&test_env);
    insert_records(&test_env, (0..5).map(finished).collect());
    let ready = test_env.path().join("ready");
    let script = format!("echo work > new; touch {}; exec sleep 600", ready.display());
    let id = test_env.ok(&["run", "-d", "-w", "--", "sh", "-c", &script]);
    eventually("it works", || ready.exists());
    let before = test_env.record(&id);
    let process = before["process"]["pid"].as_u64().unwrap();

    let mut faked = std::process::Command::new("faketime");
    test_env.enclose(&mut faked);
    faked.args(["-f", offset]).arg(sexton_test_harness::program()).args(command);
    let ran = Ran::of(&faked.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);

    assert!(is_running(process), "a running session was stopped");
    let after = test_env.record(&id);
    assert_eq!(after["status"], "running");
    let tree = after["worktree"]["path"].as_str().unwrap();
    assert!(std::path::Path::new(tree).join("new").exists(), "its worktree was removed");
    bystanders.require_untouched(&test_env);
    test_env.ok(&["stop", "--force", &id]);
    1
}
