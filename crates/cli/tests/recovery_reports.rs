//! What people read after a crash: the report of a recovery at 80 and at 120 columns, the saved work, the
//! worktrees, the numbers.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::PathBuf;
use std::process::Command;

use support::records::edit_record;
use support::repository::Repository;
use support::scene::end_behind_its_back;
use support::{Bystander, Ran, Yard, eventually, kill_9};

/// What is shown, with what differs from run to run replaced.
fn shown(yard: &Yard, columns: &str, arguments: &[&str]) -> String {
    Ran::of(&yard.command(arguments).env("COLUMNS", columns).output().unwrap()).shown(yard)
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
    settings.add_filter(r"\[YARD\][^ ]*…", "[CUT-PATH]");
    settings.set_omit_expression(true);
    settings
}

/// A yard in which everything that a report can say has happened: orphans with and without work, one in
/// whose tree somebody stands, one that nobody can judge, one that runs.
struct Aftermath {
    yard: Yard,
    _repository: Repository,
    /// Those with work, without, and with a visitor.
    orphans: [String; 3],
    visitor: Bystander,
    unknown: u64,
}

impl Aftermath {
    fn of_a_crash() -> Aftermath {
        let yard = Yard::new().with_settings(
            "contain = \"tree\"\nstore.durability = \"process\"\nowner.grace = \"10m\"\nstop.grace = \"300ms\"\n",
        );
        let repository = Repository::in_work_dir(&yard);
        let start = |name: &str, script: &str| {
            let script = format!("{script}; touch ../../ready-{name}; exec sleep 600");
            let id = yard.ok(&["run", "-d", "-w", "--name", name, "--", "sh", "-c", &script]);
            let tree = PathBuf::from(yard.record(&id)["worktree"]["path"].as_str().unwrap());
            eventually("its work is done", || tree.join(format!("../../ready-{name}")).exists());
            (id, tree)
        };
        let (working, _) = start("parser", "echo more >> tracked; echo mine > new; rm folder/other");
        let (idle, _) = start("idle", ":");
        let (visited, tree) = start("visited", "echo mine > new");
        let (unknown, _) = start("container", ":");
        yard.ok(&["run", "-d", "--name", "healthy", "--", "sleep", "600"]);
        for id in [&working, &idle, &visited] {
            end_behind_its_back(&yard, id);
        }
        let record = yard.record(&unknown);
        kill_9(record["supervisor"]["pid"].as_u64().unwrap());
        edit_record(&yard, &unknown, |session| {
            for identity in [&mut session.process, &mut session.supervisor] {
                identity.as_mut().unwrap().pid_namespace = Some(1);
            }
        });
        let visitor = Bystander(Command::new("sleep").arg("600").current_dir(tree).spawn().unwrap());
        let unknown = record["process"]["pid"].as_u64().unwrap();
        Aftermath { yard, _repository: repository, orphans: [working, idle, visited], visitor, unknown }
    }
}

impl Drop for Aftermath {
    fn drop(&mut self) {
        kill_9(self.unknown);
    }
}

#[test]
fn a_recovery_tells_what_was_done_and_what_to_type_next() {
    for columns in ["80", "120"] {
        let mut scene = Aftermath::of_a_crash();
        settings().bind(|| {
            let foretold = shown(&scene.yard, columns, &["recover", "--dry-run"]);
            insta::assert_snapshot!(format!("recover_dry_run_at_{columns}"), foretold);
            insta::assert_snapshot!(
                format!("recover_at_{columns}"),
                shown(&scene.yard, columns, &["recover"]).replace(&scene.visitor.pid(), "[PID]")
            );
        });
        scene.visitor.end();
        settings().bind(|| {
            insta::assert_snapshot!(
                format!("recover_again_at_{columns}"),
                shown(&scene.yard, columns, &["recover"])
            );
        });
    }
}

#[test]
fn saved_work_worktrees_and_numbers_are_shown() {
    let scene = Aftermath::of_a_crash();
    settings().bind(|| {
        insta::assert_snapshot!("worktree_list", shown(&scene.yard, "200", &["worktree", "list"]));
        scene.yard.sexton(&["recover"]);
        // Those of one second are in no particular order.
        let listed = shown(&scene.yard, "80", &["rescue", "list"]);
        let mut lines: Vec<_> = listed.lines().collect();
        lines[1..3].sort_by_key(|line| line.contains("parser"));
        insta::assert_snapshot!("rescue_list", lines.join("\n"));
        insta::assert_snapshot!(
            "rescue_show",
            shown(&scene.yard, "80", &["rescue", "show", &scene.orphans[0]])
        );
        insta::assert_snapshot!("metrics", shown(&scene.yard, "80", &["metrics"]));
        let into = scene.yard.path().join("back");
        let restore = ["rescue", "restore", &scene.orphans[0], "--into", into.to_str().unwrap()];
        insta::assert_snapshot!("rescue_restore", shown(&scene.yard, "80", &restore));
    });
}
