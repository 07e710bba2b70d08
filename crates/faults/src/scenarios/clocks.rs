//! Clocks that are four hundred days off, in either direction.

use sexton_field::records::insert_records;
use sexton_field::repository::Repository;
use sexton_field::{Ran, Yard, eventually, is_running};

use super::deeds::finished;
use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "clocks",
    promises: "I2 I9",
    what: "clocks 400 days ahead and behind: nothing that runs is ended, forgotten or removed",
    mutants: &["prune_running", "stale_is_dead"],
    tools: &[("faketime", "faketime"), ("git", "git")],
    minutes: 1,
    run,
};

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        for offset in ["+400d", "-400d"] {
            for command in [&["recover"][..], &["prune"], &["prune", "--ttl", "1s", "--keep", "0"]] {
                for _ in 0..trials.either(1, 5) {
                    let name = format!("{store}, {offset}, {command:?}");
                    trials.trial(&name, || live_through(store, offset, command));
                }
            }
        }
    }
}

fn live_through(store: &'static str, offset: &str, command: &[&str]) -> u64 {
    let yard = Yard::on(store).with_settings("contain = \"tree\"\n");
    Repository::in_work_dir(&yard);
    let bystanders = Bystanders::plant(&yard);
    insert_records(&yard, (0..5).map(finished).collect());
    let ready = yard.path().join("ready");
    let script = format!("echo work > new; touch {}; exec sleep 600", ready.display());
    let id = yard.ok(&["run", "-d", "-w", "--", "sh", "-c", &script]);
    eventually("it works", || ready.exists());
    let before = yard.record(&id);
    let process = before["process"]["pid"].as_u64().unwrap();

    let mut faked = std::process::Command::new("faketime");
    yard.enclose(&mut faked);
    faked.args(["-f", offset]).arg(sexton_field::program()).args(command);
    let ran = Ran::of(&faked.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);

    assert!(is_running(process), "a session that runs was ended");
    let after = yard.record(&id);
    assert_eq!(after["status"], "running");
    let tree = after["worktree"]["path"].as_str().unwrap();
    assert!(std::path::Path::new(tree).join("new").exists(), "its worktree was removed");
    bystanders.require_untouched(&yard);
    yard.ok(&["stop", "--force", &id]);
    1
}
