//! A test environment after a crash: orphans with work in their worktrees, among processes and files that recovery
//! must not touch. It is created once and can be reset any number of times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::records::{edit_record, move_elsewhere};
use crate::repository::{Repository, files_under};
use crate::{Bystander, TestEnv, eventually, is_running, kill_9};

/// The work that every command of the crashed environment does, and the additional work for its number.
const WORK: &str = "echo changed > tracked; mkdir -p deep/er; echo $1 > deep/er/untracked; \
                    ln -s tracked link; echo exit > tool; chmod +x tool; echo secret > local.env; \
                    case $1 in \
                      *0|*5) rm folder/other;; \
                      *1|*6) git add tracked; echo again >> tracked;; \
                      *2|*7) git commit -qam own-$1; echo more > tracked;; \
                      *3|*8) git checkout -q --detach; git commit -qam detached-$1; echo more > tracked;; \
                      *4|*9) : > .git-is-busy; touch $(git rev-parse --git-dir)/index.lock;; \
                    esac";

/// A test environment after a crash.
pub struct CrashedEnv {
    /// The test environment.
    pub test_env: TestEnv,
    /// The repository of its worktrees.
    pub repository: Repository,
    /// The sessions that recovery must clean up.
    pub orphans: Vec<String>,
    /// Every file of every orphan's worktree, by its git name in the rescue.
    pub work: BTreeMap<String, Vec<u8>>,
    /// The sessions that recovery must not touch: one runs, one belongs to another host.
    others: [String; 2],
    registered: Bystander,
    /// Directories that belong to no session, inside and outside the worktree root.
    strangers: [PathBuf; 3],
}

impl CrashedEnv {
    /// Creates one with this number of orphans.
    pub fn set(store: &'static str, orphans: usize) -> CrashedEnv {
        CrashedEnv::around(TestEnv::on(store), orphans)
    }

    /// Creates one in a new directory below `directory`.
    pub fn inside(directory: &Path, store: &'static str, orphans: usize) -> CrashedEnv {
        CrashedEnv::around(TestEnv::inside(directory, store), orphans)
    }

    fn around(test_env: TestEnv, orphans: usize) -> CrashedEnv {
        let test_env = test_env.with_settings(
            "contain = \"tree\"\nstore.durability = \"process\"\nowner.grace = \"10ms\"\nstop.grace = \"200ms\"\n",
        );
        let repository = Repository::in_work_dir(&test_env);
        let registered = Bystander(Command::new("sleep").arg("86400").stdin(Stdio::null()).spawn().unwrap());
        let runs = test_env.ok(&["register", "--pid", &registered.pid(), "--name", "registered"]);
        let orphans: Vec<_> = (0..orphans).map(|number| orphan(&test_env, number)).collect();
        let root = PathBuf::from(test_env.record(&orphans[0])["worktree"]["root"].as_str().unwrap());
        let elsewhere = test_env.ok(&["run", "-d", "-w", "--name", "elsewhere", "--", "sleep", "600"]);
        kill_supervisor_and_command(&test_env, &elsewhere);
        edit_record(&test_env, &elsewhere, move_elsewhere);
        let strangers =
            [root.join("notes"), root.join("tree-of-the-user"), test_env.path().join("user-tree")];
        std::fs::create_dir(&strangers[0]).unwrap();
        std::fs::write(strangers[0].join("a-note"), "mine\n").unwrap();
        for tree in &strangers[1..] {
            repository.git(&["worktree", "add", "--quiet", "--detach", tree.to_str().unwrap()]);
            std::fs::write(tree.join("unsaved"), "mine\n").unwrap();
        }
        let mut crashed_env = CrashedEnv {
            work: BTreeMap::new(),
            others: [runs, elsewhere],
            test_env,
            repository,
            orphans,
            registered,
            strangers,
        };
        crashed_env.work = crashed_env.load_work();
        assert!(crashed_env.work.len() >= 6 * crashed_env.orphans.len());
        copy(&crashed_env.test_env.state_dir(), &crashed_env.aside("state"));
        copy(&crashed_env.test_env.work_dir(), &crashed_env.aside("work"));
        crashed_env
    }

    /// Restores the initial state.
    pub fn reset(&self) {
        for (directory, name) in [(self.test_env.state_dir(), "state"), (self.test_env.work_dir(), "work")] {
            std::fs::remove_dir_all(&directory).unwrap();
            copy(&self.aside(name), &directory);
        }
    }

    fn aside(&self, name: &str) -> PathBuf {
        self.test_env.path().join(format!("{name}.aside"))
    }

    fn load_work(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.orphans.iter().flat_map(|id| {
            let path = self.test_env.record(id)["worktree"]["path"].as_str().unwrap().to_owned();
            let files = files_under(Path::new(&path)).into_iter();
            files.map(move |(name, bytes)| (format!("refs/sexton/rescue/{id}:{}", name.display()), bytes))
        });
        files.collect()
    }

    /// Returns the state after a recovery, without what differs from run to run.
    pub fn outcome(&self) -> Value {
        let mut records = self.test_env.json(&["ps", "-a"]);
        for record in records.as_array_mut().unwrap() {
            let record = record.as_object_mut().unwrap();
            record.remove("revision");
            record.remove("finished_at");
            // In a long test the kernel reuses pids; then the same death is reported with another cause.
            if let Some(recovery) =
                record["recovery"].as_object_mut().filter(|found| is_dead(&found["cause"]))
            {
                recovery.remove("cause");
                recovery.remove("evidence");
            }
        }
        let mut counters = self.test_env.json(&["metrics"])["counters"].as_object().unwrap().clone();
        let mut orphans = 0;
        counters.retain(|name, count| {
            if name.starts_with("orphans.") {
                orphans += count.as_u64().unwrap();
            }
            !name.starts_with("orphans.") && !name.starts_with("recover")
        });
        let git = |arguments: &[&str]| self.repository.git(arguments);
        json!({
            "records": records,
            "counters": counters,
            "orphans": orphans,
            "trees": git(&["for-each-ref", "--format=%(refname) %(tree)"]),
            "branches": self.repository.branches(),
            "worktrees": git(&["worktree", "list", "--porcelain"]),
            "git directory": stable_paths_under(&self.repository.path().join(".git")),
            "worktree_root": stable_paths_under(&self.test_env.state_dir().join("worktrees")),
            "sessions": names_under(&self.test_env.state_dir().join("sessions")),
            "exits": names_under(&self.test_env.state_dir().join("exits")),
        })
    }

    /// Requires that all work is saved, and that everything recovery must not touch is unchanged.
    pub fn require_nothing_lost(&self) {
        self.repository.require_objects(&self.work);
        assert!(is_running(self.registered.0.id().into()), "a process of no orphan was killed");
        for id in &self.others {
            assert_eq!(self.test_env.record(id)["status"], "running", "the status of {id} changed");
        }
        let elsewhere =
            self.test_env.record(&self.others[1])["worktree"]["path"].as_str().unwrap().to_owned();
        assert!(Path::new(&elsewhere).join("tracked").exists(), "a worktree of another host was removed");
        assert_eq!(std::fs::read(self.strangers[0].join("a-note")).unwrap(), b"mine\n");
        for tree in &self.strangers[1..] {
            assert_eq!(std::fs::read(tree.join("unsaved")).unwrap(), b"mine\n");
            assert!(self.repository.worktrees().contains(tree), "{} was unregistered", tree.display());
        }
    }

    /// Requires that every orphan is recorded as orphaned and its worktree is removed.
    pub fn require_settled(&self) {
        for id in &self.orphans {
            let record = self.test_env.record(id);
            assert_eq!(record["status"], "orphaned", "{record}");
            assert_eq!(record["recovery"]["worktree"], "removed", "{record}");
            assert_eq!(record["recovery"]["rescue_ref"], format!("refs/sexton/rescue/{id}"));
            assert!(!Path::new(record["worktree"]["path"].as_str().unwrap()).exists());
        }
    }
}

/// Starts a session, waits for its work, and kills its supervisor and command, so that nothing is cleaned up. Every
/// fifth session ends with its owner instead: its supervisor records the end, and its worktree is pending.
fn orphan(test_env: &TestEnv, number: usize) -> String {
    let ready = test_env.path().join(format!("ready-{number}"));
    let script = format!("set -e; {WORK}; touch {}; exec sleep 600", ready.display());
    let command = ["--", "sh", "-c", &script, "sh", &number.to_string()].map(str::to_owned);
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    let mut owner = Bystander::start();
    let owner_pid = owner.pid();
    let owned = number % 5 == 4;
    let options: &[&str] = if owned { &["--owner-pid", &owner_pid] } else { &[] };
    let id = test_env.ok(&[&["run", "-d", "-w"], options, &command].concat());
    eventually("the work is done", || ready.exists());
    if owned {
        owner.end();
        assert_eq!(test_env.wait_until_ended(&id)["recovery"]["worktree"], "pending");
        let supervisor = test_env.record(&id)["supervisor"]["pid"].as_u64().unwrap();
        eventually("its supervisor has ended", || !is_running(supervisor));
    } else {
        kill_supervisor_and_command(test_env, &id);
    }
    id
}

/// Kills a session's supervisor and then its command, so that the record still has the status `running`.
pub fn kill_supervisor_and_command(test_env: &TestEnv, id: &str) {
    let record = test_env.record(id);
    for whose in ["supervisor", "process"] {
        let pid = record[whose]["pid"].as_u64().unwrap();
        kill_9(pid);
        eventually("it is gone", || !is_running(pid));
    }
}

fn is_dead(cause: &Value) -> bool {
    cause == "process_dead" || cause == "pid_reused"
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// Returns the paths under `directory` without those that differ from run to run: the objects of a repository, and
/// lock files, which are created when a process has to wait and are never deleted.
fn stable_paths_under(directory: &Path) -> Vec<String> {
    let ignored = ["objects/", "/.locks/", "sexton-rescues.lock"];
    let names = names_under(directory).into_iter();
    names.filter(|name| !ignored.iter().any(|part| name.contains(part))).collect()
}

/// Returns the paths under `directory`, sorted.
fn names_under(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().map(Result::unwrap) {
            names.push(entry.path().strip_prefix(directory).unwrap().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    names.sort();
    names
}

/// Returns every path under `directory` with its size and modification time, to detect changes. SQLite's shared
/// memory is left out: readers change it too.
pub fn stamps_under(directory: &Path) -> Vec<(String, u64, std::time::SystemTime)> {
    let stamp = |name: String| {
        let found = std::fs::symlink_metadata(directory.join(&name)).unwrap();
        (name, found.len(), found.modified().unwrap())
    };
    names_under(directory).into_iter().filter(|name| !name.ends_with(".db-shm")).map(stamp).collect()
}
