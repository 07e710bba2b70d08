//! A yard after a crash: orphans with work in their worktrees, among much that is none of recovery's
//! business. It is made once and put back as often as a test likes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::records::edit_record;
use crate::repository::{Repository, files_under};
use crate::{Bystander, Yard, eventually, is_running, kill_9};

/// Every command of the scene does this much; what it does besides depends on its number.
const WORK: &str = "echo changed > tracked; mkdir -p deep/er; echo $1 > deep/er/untracked; \
                    ln -s tracked link; echo exit > tool; chmod +x tool; echo secret > local.env; \
                    case $1 in \
                      *0|*5) rm folder/other;; \
                      *1|*6) git add tracked; echo again >> tracked;; \
                      *2|*7) git commit -qam own-$1; echo more > tracked;; \
                      *3|*8) git checkout -q --detach; git commit -qam detached-$1; echo more > tracked;; \
                      *4|*9) : > .git-is-busy; touch $(git rev-parse --git-dir)/index.lock;; \
                    esac";

/// The scene.
pub struct Scene {
    /// Where it is set.
    pub yard: Yard,
    /// The repository that its worktrees are of.
    pub repository: Repository,
    /// The sessions that recovery is to clean up after.
    pub orphans: Vec<String>,
    /// Every file of every orphan's worktree, named as git names it in its rescue.
    pub work: BTreeMap<String, Vec<u8>>,
    /// The sessions that recovery is to leave alone: one runs, one belongs to another host.
    others: [String; 2],
    registered: Bystander,
    /// What is neither a session nor a worktree of ours, inside the yard and outside.
    strangers: [PathBuf; 3],
}

impl Scene {
    /// Sets the scene, with so many orphans.
    pub fn set(store: &'static str, orphans: usize) -> Scene {
        Scene::around(Yard::on(store), orphans)
    }

    /// Sets it in a folder of this directory.
    pub fn inside(directory: &Path, store: &'static str, orphans: usize) -> Scene {
        Scene::around(Yard::inside(directory, store), orphans)
    }

    fn around(yard: Yard, orphans: usize) -> Scene {
        let yard = yard.with_settings(
            "contain = \"tree\"\nstore.durability = \"process\"\nowner.grace = \"10ms\"\nstop.grace = \"200ms\"\n",
        );
        let repository = Repository::in_work_dir(&yard);
        let registered = Bystander(Command::new("sleep").arg("86400").stdin(Stdio::null()).spawn().unwrap());
        let runs = yard.ok(&["register", "--pid", &registered.pid(), "--name", "registered"]);
        let orphans: Vec<_> = (0..orphans).map(|number| orphan(&yard, number)).collect();
        let root = PathBuf::from(yard.record(&orphans[0])["worktree"]["root"].as_str().unwrap());
        let elsewhere = yard.ok(&["run", "-d", "-w", "--name", "elsewhere", "--", "sleep", "600"]);
        end_behind_its_back(&yard, &elsewhere);
        edit_record(&yard, &elsewhere, |session| session.host.hostname = "another-host".to_owned());
        let strangers = [root.join("notes"), root.join("tree-of-the-user"), yard.path().join("user-tree")];
        std::fs::create_dir(&strangers[0]).unwrap();
        std::fs::write(strangers[0].join("a-note"), "mine\n").unwrap();
        for tree in &strangers[1..] {
            repository.git(&["worktree", "add", "--quiet", "--detach", tree.to_str().unwrap()]);
            std::fs::write(tree.join("unsaved"), "mine\n").unwrap();
        }
        let mut scene = Scene {
            work: BTreeMap::new(),
            others: [runs, elsewhere],
            yard,
            repository,
            orphans,
            registered,
            strangers,
        };
        scene.work = scene.load_work();
        assert!(scene.work.len() >= 6 * scene.orphans.len());
        copy(&scene.yard.state_dir(), &scene.aside("state"));
        copy(&scene.yard.work_dir(), &scene.aside("work"));
        scene
    }

    /// Puts everything back as it was when the scene was set.
    pub fn reset(&self) {
        for (directory, name) in [(self.yard.state_dir(), "state"), (self.yard.work_dir(), "work")] {
            std::fs::remove_dir_all(&directory).unwrap();
            copy(&self.aside(name), &directory);
        }
    }

    fn aside(&self, name: &str) -> PathBuf {
        self.yard.path().join(format!("{name}.aside"))
    }

    fn load_work(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.orphans.iter().flat_map(|id| {
            let path = self.yard.record(id)["worktree"]["path"].as_str().unwrap().to_owned();
            let files = files_under(Path::new(&path)).into_iter();
            files.map(move |(name, bytes)| (format!("refs/sexton/rescue/{id}:{}", name.display()), bytes))
        });
        files.collect()
    }

    /// Everything that recovery leaves behind, without what is different in every run.
    pub fn outcome(&self) -> Value {
        let mut records = self.yard.json(&["ps", "-a"]);
        for record in records.as_array_mut().unwrap() {
            let record = record.as_object_mut().unwrap();
            record.remove("revision");
            record.remove("finished_at");
            // Pids are given out again while a test runs for long: then the same death is told in other words.
            if let Some(recovery) =
                record["recovery"].as_object_mut().filter(|found| is_dead(&found["cause"]))
            {
                recovery.remove("cause");
                recovery.remove("evidence");
            }
        }
        let mut counters = self.yard.json(&["metrics"])["counters"].as_object().unwrap().clone();
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
            "git directory": left_under(&self.repository.path().join(".git")),
            "yard": left_under(&self.yard.state_dir().join("worktrees")),
            "sessions": names_under(&self.yard.state_dir().join("sessions")),
            "exits": names_under(&self.yard.state_dir().join("exits")),
        })
    }

    /// Requires that all work is saved, and that whatever is not recovery's business is as it was.
    pub fn require_nothing_lost(&self) {
        self.repository.require_objects(&self.work);
        assert!(is_running(self.registered.0.id().into()), "a process of somebody else's was ended");
        for id in &self.others {
            assert_eq!(self.yard.record(id)["status"], "running", "{id} was judged");
        }
        let elsewhere = self.yard.record(&self.others[1])["worktree"]["path"].as_str().unwrap().to_owned();
        assert!(Path::new(&elsewhere).join("tracked").exists(), "a worktree of another host's was removed");
        assert_eq!(std::fs::read(self.strangers[0].join("a-note")).unwrap(), b"mine\n");
        for tree in &self.strangers[1..] {
            assert_eq!(std::fs::read(tree.join("unsaved")).unwrap(), b"mine\n");
            assert!(self.repository.worktrees().contains(tree), "{} was unregistered", tree.display());
        }
    }

    /// Requires that every orphan is settled: recorded once, its worktree gone.
    pub fn require_settled(&self) {
        for id in &self.orphans {
            let record = self.yard.record(id);
            assert_eq!(record["status"], "orphaned", "{record}");
            assert_eq!(record["recovery"]["worktree"], "removed", "{record}");
            assert_eq!(record["recovery"]["rescue_ref"], format!("refs/sexton/rescue/{id}"));
            assert!(!Path::new(record["worktree"]["path"].as_str().unwrap()).exists());
        }
    }
}

/// Starts a session that has done some work, and ends it so that nobody cleans up. Every fifth ends with
/// its owner instead: its supervisor has recorded it, and its worktree waits.
fn orphan(yard: &Yard, number: usize) -> String {
    let ready = yard.path().join(format!("ready-{number}"));
    let script = format!("set -e; {WORK}; touch {}; exec sleep 600", ready.display());
    let command = ["--", "sh", "-c", &script, "sh", &number.to_string()].map(str::to_owned);
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    let mut owner = Bystander::start();
    let owner_pid = owner.pid();
    let owned = number % 5 == 4;
    let options: &[&str] = if owned { &["--owner-pid", &owner_pid] } else { &[] };
    let id = yard.ok(&[&["run", "-d", "-w"], options, &command].concat());
    eventually("the work is done", || ready.exists());
    if owned {
        owner.end();
        assert_eq!(yard.wait_until_ended(&id)["recovery"]["worktree"], "pending");
        let supervisor = yard.record(&id)["supervisor"]["pid"].as_u64().unwrap();
        eventually("its supervisor has ended", || !is_running(supervisor));
    } else {
        end_behind_its_back(yard, &id);
    }
    id
}

/// Kills a session's supervisor and command, in this order, so that its record still says that it runs.
pub fn end_behind_its_back(yard: &Yard, id: &str) {
    let record = yard.record(id);
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

/// The paths under `directory` without those that say nothing: the objects of a repository, and the files
/// that kernel locks are held on, which come when somebody has to wait and stay for ever.
fn left_under(directory: &Path) -> Vec<String> {
    let silent = ["objects/", "/.locks/", "sexton-rescues.lock"];
    let names = names_under(directory).into_iter();
    names.filter(|name| !silent.iter().any(|part| name.contains(part))).collect()
}

/// The paths under `directory`, in order.
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

/// Everything under `directory` with its size and the time it was last changed: what a run that changes
/// nothing leaves alone. Not SQLite's shared memory, which is no file to anybody but SQLite.
pub fn stamps_under(directory: &Path) -> Vec<(String, u64, std::time::SystemTime)> {
    let stamp = |name: String| {
        let found = std::fs::symlink_metadata(directory.join(&name)).unwrap();
        (name, found.len(), found.modified().unwrap())
    };
    names_under(directory).into_iter().filter(|name| !name.ends_with(".db-shm")).map(stamp).collect()
}
