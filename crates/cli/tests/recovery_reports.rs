//! Output after a crash: the report of a recovery at 80 and at 120 columns, the rescues, the worktrees, the metrics.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::path::PathBuf;
use std::process::Command;

use support::crashed_env::kill_supervisor_and_command;
use support::records::edit_record;
use support::repository::Repository;
use support::{Bystander, Ran, TestEnv, eventually, kill_9};

/// Returns the output, with what differs from run to run replaced.
fn shown(test_env: &TestEnv, columns: &str, arguments: &[&str]) -> String {
    Ran::of(&test_env.command(arguments).env("COLUMNS", columns).output().unwrap()).shown(test_env)
}

fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[a-z0-9]{16}\b", "[SESSION-ID-16CH]");
    settings.add_filter(r"\bprocess \d+\b", "process [PID]");
    settings.add_filter(r"\b[0-9a-f]{40}\b", "[COMMIT]");
    settings.add_filter(r"\([0-9a-f]{12}\)", "([COMMIT])");
    settings.add_filter(r"work-[0-9a-f]{8}\b", "work-[HASH]");
    settings.add_filter(r"\b\d+s +", "[AGE] ");
    settings.add_filter(r"\(/\S*/sleep\)", "(sleep)");
    settings.add_filter(r"(milliseconds_total) \d+", "$1 [MS]");
    settings.add_filter(r"\[TEST-ENV\][^ ]*…", "[CUT-PATH]");
    settings.set_omit_expression(true);
    settings
}

/// A test environment with every case of a report: orphans with and without work, one whose worktree is in use by a
/// process, one session with unknown liveness, and one that runs.
struct Aftermath {
    test_env: TestEnv,
    _repository: Repository,
    /// With work, without work, and with a process in its worktree.
    orphans: [String; 3],
    visitor: Bystander,
    unknown: u64,
}

impl Aftermath {
    fn of_a_crash() -> Aftermath {
        let test_env = TestEnv::new().with_settings(
            "contain = \"tree\"\nstore.durability = \"process\"\nowner.grace = \"10m\"\nstop.grace = \"300ms\"\n",
        );
        let repository = Repository::in_work_dir(&test_env);
        let start = |name: &str, script: &str| {
            let script = format!("{script}; touch ../../ready-{name}; exec sleep 600");
            let id = test_env.ok(&["run", "-d", "-w", "--name", name, "--", "sh", "-c", &script]);
            let tree = PathBuf::from(test_env.record(&id)["worktree"]["path"].as_str().unwrap());
            eventually("its work is done", || tree.join(format!("../../ready-{name}")).exists());
            (id, tree)
        };
        let (working, _) = start("parser", "echo more >> tracked; echo mine > new; rm folder/other");
        let (idle, _) = start("idle", ":");
        let (visited, tree) = start("visited", "echo mine > new");
        let (unknown, _) = start("container", ":");
        test_env.ok(&["run", "-d", "--name", "healthy", "--", "sleep", "600"]);
        for id in [&working, &idle, &visited] {
            kill_supervisor_and_command(&test_env, id);
        }
        let record = test_env.record(&unknown);
        kill_9(record["supervisor"]["pid"].as_u64().unwrap());
        edit_record(&test_env, &unknown, |session| {
            for identity in [&mut session.process, &mut session.supervisor] {
                identity.as_mut().unwrap().pid_namespace = Some(1);
            }
        });
        let visitor = Bystander(Command::new("sleep").arg("600").current_dir(tree).spawn().unwrap());
        let unknown = record["process"]["pid"].as_u64().unwrap();
        Aftermath { test_env, _repository: repository, orphans: [working, idle, visited], visitor, unknown }
    }
}

impl Drop for Aftermath {
    fn drop(&mut self) {
        kill_9(self.unknown);
    }
}

#[test]
fn recover_reports_its_actions_and_the_next_commands() {
    for columns in ["80", "120"] {
        let mut aftermath = Aftermath::of_a_crash();
        settings().bind(|| {
            let planned = shown(&aftermath.test_env, columns, &["recover", "--dry-run"]);
            insta::assert_snapshot!(format!("recover_dry_run_at_{columns}"), planned);
            insta::assert_snapshot!(
                format!("recover_at_{columns}"),
                shown(&aftermath.test_env, columns, &["recover"]).replace(&aftermath.visitor.pid(), "[PID]")
            );
        });
        aftermath.visitor.end();
        settings().bind(|| {
            insta::assert_snapshot!(
                format!("recover_again_at_{columns}"),
                shown(&aftermath.test_env, columns, &["recover"])
            );
        });
    }
}

#[test]
fn rescues_worktrees_and_metrics_are_shown() {
    let aftermath = Aftermath::of_a_crash();
    settings().bind(|| {
        insta::assert_snapshot!("worktree_list", shown(&aftermath.test_env, "200", &["worktree", "list"]));
        aftermath.test_env.sexton(&["recover"]);
        // Rescues of the same second have no fixed order.
        let listed = shown(&aftermath.test_env, "80", &["rescue", "list"]);
        let mut lines: Vec<_> = listed.lines().collect();
        lines[1..3].sort_by_key(|line| line.contains("parser"));
        insta::assert_snapshot!("rescue_list", lines.join("\n"));
        insta::assert_snapshot!(
            "rescue_show",
            shown(&aftermath.test_env, "80", &["rescue", "show", &aftermath.orphans[0]])
        );
        insta::assert_snapshot!("metrics", shown(&aftermath.test_env, "80", &["metrics"]));
        let into = aftermath.test_env.path().join("back");
        let restore = ["rescue", "restore", &aftermath.orphans[0], "--into", into.to_str().unwrap()];
        insta::assert_snapshot!("rescue_restore", shown(&aftermath.test_env, "80", &restore));
    });
}
