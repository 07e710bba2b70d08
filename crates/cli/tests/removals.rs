//! Removals that fail: they are reported, retried by every recovery on every store, and count as new only once.

#![cfg(all(feature = "worktree-git", feature = "proc-linux"))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::repository::Repository;
use support::{Ran, TestEnv, stores};

const QUICK: &str = "contain = \"tree\"\nstore.durability = \"process\"\nstop.grace = \"300ms\"\n";
/// An ordinary user without other processes on this machine: while a process of a user cannot be inspected, no worktree
/// of that user is removed.
const ORDINARY: u32 = 60_017;

/// What prevents the deletion of a worktree.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Obstacle {
    /// An immutable file, which root cannot delete either.
    Immutable,
    /// A directory that root owns, in the worktree of an ordinary user.
    OfRoot,
}

/// A test environment in which root puts something into a worktree that its user cannot delete.
struct Stubborn {
    test_env: TestEnv,
    program: PathBuf,
    obstacle: Obstacle,
}

impl Stubborn {
    /// Returns `None` unless run by root: only root can create such files, which is checked first.
    fn new(store: &'static str, obstacle: Obstacle) -> Option<Stubborn> {
        let test_env = TestEnv::on(store).with_settings(QUICK);
        Repository::in_work_dir(&test_env);
        if !rustix::process::geteuid().is_root() {
            assert!(chown(test_env.path(), Some(0), None).is_err(), "only root can create such files");
            return None;
        }
        let program = test_env.path().join("tested");
        std::fs::copy(support::program(), &program).unwrap();
        std::fs::set_permissions(test_env.path(), PermissionsExt::from_mode(0o755)).unwrap();
        if obstacle == Obstacle::OfRoot {
            give_away(test_env.path());
        }
        Some(Stubborn { test_env, program, obstacle })
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(&self.program);
        self.test_env.enclose(&mut command);
        if self.obstacle == Obstacle::OfRoot {
            command.uid(ORDINARY).gid(ORDINARY);
        }
        Ran::of(&command.args(arguments).output().unwrap())
    }

    fn record(&self, id: &str) -> Value {
        document(&self.run(&["show", id, "--json"]))
    }

    /// Puts the obstacle into a worktree.
    fn add_obstacle(&self, tree: &Path) {
        std::fs::create_dir(tree.join("deep")).unwrap();
        std::fs::write(tree.join("deep/work"), "mine\n").unwrap();
        if self.obstacle == Obstacle::Immutable {
            change_attributes(&["+i"], &tree.join("deep/work"));
        }
    }

    /// Removes the obstacle, as `doctor` advises, without the deletion.
    fn remove_obstacle(&self, tree: &Path) {
        for left in trash_of(tree) {
            match self.obstacle {
                Obstacle::Immutable => change_attributes(&["-R", "-i"], &left),
                Obstacle::OfRoot => give_away(&left),
            }
        }
    }

    /// Creates a session and kills it together with its supervisor; returns its id and worktree.
    fn orphan(&self) -> (String, PathBuf) {
        let started = self.run(&["run", "-d", "-w", "--", "sleep", "600"]);
        assert_eq!(started.code, 0, "{}", started.stderr);
        let id = started.stdout.trim().to_owned();
        let record = self.record(&id);
        let tree = PathBuf::from(record["worktree"]["path"].as_str().unwrap());
        self.add_obstacle(&tree);
        for whose in ["supervisor", "process"] {
            let pid = record[whose]["pid"].as_u64().unwrap();
            support::kill_9(pid);
            support::eventually("it is gone", || !support::is_running(pid));
        }
        (id, tree)
    }

    fn errno(&self) -> &'static str {
        match self.obstacle {
            Obstacle::Immutable => "(os error 1)",
            Obstacle::OfRoot => "(os error 13)",
        }
    }
}

fn change_attributes(change: &[&str], path: &Path) {
    assert!(Command::new("chattr").args(change).arg(path).status().unwrap().success());
}

fn give_away(path: &Path) {
    chown(path, Some(ORDINARY), Some(ORDINARY)).unwrap();
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

fn document(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr))
}

/// Returns the entries in the trash of the worktree root of `tree`.
fn trash_of(tree: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(tree.parent().unwrap().join(".trash")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Returns every path in a text that points into a trash directory and does not exist.
fn missing_paths(text: &str) -> Vec<&str> {
    let words = text.split(|character: char| character.is_whitespace() || "`;:\"".contains(character));
    words.filter(|word| word.contains("/.trash/") && !Path::new(word).exists()).collect()
}

#[test]
fn i7_a_failed_removal_is_reported_as_new_once_and_retried() {
    for (store, obstacle) in stores()
        .into_iter()
        .flat_map(|store| [Obstacle::Immutable, Obstacle::OfRoot].map(|obstacle| (store, obstacle)))
    {
        let Some(place) = Stubborn::new(store, obstacle) else { continue };
        let (id, tree) = place.orphan();
        let first = place.run(&["recover", "--json"]);
        assert_eq!(first.code, 3, "{store}, {obstacle:?}: {}{}", first.stdout, first.stderr);
        let report = document(&first);
        assert_eq!((&report["worktrees"]["removed"], &report["worktrees"]["failed"]), (&0.into(), &1.into()));
        let session = &report["sessions"][0];
        assert_eq!(
            (&session["outcome"], &session["worktree"]),
            (&"failed".into(), &"failed".into()),
            "{report}"
        );
        let error = session["error"].as_str().unwrap();
        assert!(error.contains("deep/work") && error.contains(place.errno()), "{report}");
        let problem = &report["problems"][0];
        assert_eq!((&problem["kind"], &problem["new"]), (&"trash".into(), &true.into()), "{report}");
        assert_eq!(trash_of(&tree).len(), 1);
        let record = place.record(&id);
        let outcome = (&record["status"], &record["recovery"]["worktree"]);
        assert_eq!(outcome, (&"cleanup_failed".into(), &"failed".into()));
        let doctor = place.run(&["doctor"]);
        assert_eq!(doctor.code, 1, "{}", doctor.stdout);
        assert!(doctor.stdout.contains("sudo rm -rf"), "{}", doctor.stdout);

        let again = place.run(&["recover"]);
        assert_eq!(again.code, 0, "{store}: {}{}", again.stdout, again.stderr);
        assert!(again.stderr.contains("unchanged since an earlier recovery"), "{}", again.stderr);
        assert_eq!(missing_paths(&again.stderr), [""; 0]);
        assert_eq!(place.record(&id), record, "{store}: an unchanged problem changed the record");

        place.remove_obstacle(&tree);
        let settled = document(&place.run(&["recover", "--json"]));
        assert_eq!(
            (&settled["worktrees"]["removed"], &settled["failed"]),
            (&1.into(), &0.into()),
            "{settled}"
        );
        assert_eq!((trash_of(&tree), &place.record(&id)["status"]), (Vec::new(), &"orphaned".into()));
        let still = place.run(&["recover"]);
        assert!(still.stderr.contains("nothing to recover"), "{}", still.stderr);
    }
}

#[test]
fn i7_a_failed_worktree_rm_is_reported_and_retried_by_recovery() {
    for obstacle in [Obstacle::Immutable, Obstacle::OfRoot] {
        let Some(place) = Stubborn::new(stores()[0], obstacle) else { continue };
        let started = place.run(&["run", "-d", "-w", "--", "sh", "-c", "sleep 0.2; exit 3"]);
        let id = started.stdout.trim();
        let tree = PathBuf::from(place.record(id)["worktree"]["path"].as_str().unwrap());
        place.add_obstacle(&tree);
        let supervisor = place.record(id)["supervisor"]["pid"].as_u64().unwrap();
        support::eventually("its supervisor has exited", || !support::is_running(supervisor));
        let ran = place.run(&["worktree", "rm", id]);
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        let is_reported =
            ran.stderr.contains("could not be deleted completely") && ran.stderr.contains(place.errno());
        assert!(is_reported, "{}", ran.stderr);
        assert_eq!(trash_of(&tree).len(), 1);
        let record = place.record(id);
        assert_eq!(
            (&record["status"], &record["exit"]["code"]),
            (&"failed".into(), &3.into()),
            "its exit changed"
        );
        assert_eq!(record["recovery"]["worktree"], "pending");
        assert_eq!(place.run(&["recover"]).code, 3, "the problem is new");
        assert_eq!(place.run(&["recover"]).code, 0);
        place.remove_obstacle(&tree);
        assert_eq!(place.run(&["recover"]).code, 0);
        assert_eq!(trash_of(&tree), Vec::<PathBuf>::new());
        let record = place.record(id);
        let outcome = (&record["status"], &record["recovery"]["worktree"]);
        assert_eq!(outcome, (&"failed".into(), &"removed".into()));
    }
}

#[test]
#[cfg(feature = "store-tf")]
fn i7_a_failed_removal_is_remembered_for_a_store_that_cannot_record_it() {
    let project = support::project::Project::new();
    project.plant("T-1");
    let tree = project.worktree("T-1");
    if !rustix::process::geteuid().is_root() {
        assert!(chown(&tree, Some(0), None).is_err(), "only root can create such files");
        return;
    }
    change_attributes(&["+i"], &tree.join("note"));
    let started = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string();
    let entry = serde_json::json!({"session_id": "dispatch-dead", "ticket_id": "T-1", "pid": 4_000_002,
        "process_start_time": 17, "status": "running", "started_at": started, "completed_at": null,
        "return_code": null, "worktree_path": tree});
    std::fs::write(project.file(), serde_json::json!({"version": 1, "sessions": [entry]}).to_string())
        .unwrap();
    let url = project.url();
    let recover = || project.test_env.sexton(&["--store", &url, "recover", "--json"]);
    let first = recover();
    assert_eq!(first.code, 3, "{}{}", first.stdout, first.stderr);
    assert_eq!(document(&first)["worktrees"]["failed"], 1, "{}", first.stdout);
    assert_eq!(project.entry("dispatch-dead")["status"], "orphaned", "its ticket is still taken");
    let again = recover();
    assert_eq!(again.code, 0, "{}{}", again.stdout, again.stderr);
    assert_eq!(document(&again)["problems"][0]["new"], false, "{}", again.stdout);
    trash_of(&tree).iter().for_each(|left| change_attributes(&["-R", "-i"], left));
    let settled = recover();
    assert_eq!((settled.code, trash_of(&tree)), (0, Vec::new()), "{}", settled.stderr);
    assert_eq!(document(&settled)["problems"], serde_json::json!([]));
}
