//! Every state that a worktree can be in when its session dies: after recovery and restore everything is as
//! it was; or it is kept unchanged, and that is reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sexton_test_harness::crashed_env::kill_supervisor_and_command;
use sexton_test_harness::repository::{Repository, files_under};
use sexton_test_harness::strace::{Family, kill_family_at, mutating_calls, trace_family};
use sexton_test_harness::{TestEnv, eventually};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "matrix",
    promises: "I4 I7",
    what: "every state that a worktree can be in, recovered under SIGKILL and restored",
    mutants: &["no_untracked", "no_index", "no_nested_check"],
    tools: &[("strace", "strace"), ("taskset", "util-linux"), ("git", "git")],
    minutes: 2,
    runs_alone: false,
    run,
};

/// How many bytes the large file has.
const QUICK: &str = "5000000";
const FULL: &str = "100000000";

/// What happens to a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Rescued, removed, and restored as it was.
    Restored,
    /// Kept unchanged, for this reason.
    Kept(&'static str),
    /// Kept unchanged permanently: it can no longer be determined which repository it belongs to.
    Unattributed,
    /// Removed before recovery: only what git stored is left to rescue.
    Gone,
}

/// A state: what the session's command does, and what happens to the repository after the session was killed.
struct State {
    name: &'static str,
    work: &'static str,
    after: fn(&DeadSession),
    repository: Kind,
    outcome: Outcome,
}

/// What kind of repository it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    RelativeLinks,
    Bare,
    Sparse,
    WithSubmodule,
}

/// Most states are a script in a plain repository, and are restored.
const PLAIN: State =
    State { name: "", work: "", after: |_| (), repository: Kind::Plain, outcome: Outcome::Restored };

const STATES: &[State] = &[
    State { name: "modified", work: "echo more >> tracked", ..PLAIN },
    State { name: "staged", work: "echo more >> tracked; git add tracked", ..PLAIN },
    State {
        name: "staged and modified again",
        work: "echo more >> tracked; git add tracked; echo still more >> tracked",
        ..PLAIN
    },
    State { name: "untracked", work: "mkdir -p deep/er; echo new > deep/er/new", ..PLAIN },
    State { name: "ignored", work: "echo secret > local.env", ..PLAIN },
    State { name: "deleted", work: "rm tracked; git rm -q folder/other", ..PLAIN },
    State { name: "renamed", work: "git mv tracked moved; echo more >> moved", ..PLAIN },
    State { name: "executable", work: "chmod +x tracked; echo exit > tool; chmod 750 tool", ..PLAIN },
    State { name: "symbolic link", work: "ln -s tracked link; ln -s /nowhere broken", ..PLAIN },
    State { name: "empty directory", work: "mkdir -p empty/inside; echo new > new", ..PLAIN },
    State { name: "100 MB", work: "head -c LARGE /dev/urandom > large; echo end >> large", ..PLAIN },
    State { name: "no UTF-8", work: "echo new > \"$(printf 'na\\377me')\"", ..PLAIN },
    State {
        name: "nested repository",
        work: "git init -q inner; echo work > inner/work",
        outcome: Outcome::Kept("inner"),
        ..PLAIN
    },
    State {
        name: "submodule",
        work: "git -c protocol.file.allow=always submodule -q update --init; echo more >> module/tracked",
        repository: Kind::WithSubmodule,
        outcome: Outcome::Kept("module"),
        ..PLAIN
    },
    State {
        name: "detached HEAD",
        work: "git checkout -q --detach; echo more >> tracked; git commit -qam detached; echo new > new",
        ..PLAIN
    },
    State {
        name: "branch with commits",
        work: "echo more >> tracked; git commit -qam own; echo still more >> tracked",
        ..PLAIN
    },
    State {
        name: "in a merge",
        work: "git checkout -qb other; echo theirs > tracked; git commit -qam theirs; git checkout -q -; \
               echo ours > tracked; git commit -qam ours; ! git merge -q other",
        ..PLAIN
    },
    State {
        name: "in a rebase",
        work: "git checkout -qb other; echo theirs > tracked; git commit -qam theirs; git checkout -q -; \
               echo ours > tracked; git commit -qam ours; ! git rebase -q other",
        ..PLAIN
    },
    State {
        name: "index.lock",
        work: "echo more >> tracked; git add tracked; touch \"$(git rev-parse --git-dir)/index.lock\"",
        ..PLAIN
    },
    State {
        name: "locked",
        work: "echo more >> tracked; git worktree lock --reason mine .",
        outcome: Outcome::Kept("locked"),
        ..PLAIN
    },
    State {
        name: "directory gone",
        work: "echo more >> tracked; git add tracked",
        after: |dead_session| std::fs::remove_dir_all(&dead_session.tree).unwrap(),
        outcome: Outcome::Gone,
        ..PLAIN
    },
    State {
        name: "admin entry gone",
        work: "echo more >> tracked",
        after: |dead_session| std::fs::remove_dir_all(dead_session.admin()).unwrap(),
        outcome: Outcome::Unattributed,
        ..PLAIN
    },
    State {
        name: "repository moved",
        work: "echo more >> tracked",
        after: |dead_session| {
            std::fs::rename(dead_session.test_env.work_dir(), dead_session.test_env.path().join("elsewhere"))
                .unwrap();
            std::fs::create_dir(dead_session.test_env.work_dir()).unwrap();
        },
        outcome: Outcome::Unattributed,
        ..PLAIN
    },
    State {
        name: "relativeWorktrees",
        work: "echo more >> tracked; echo new > new",
        repository: Kind::RelativeLinks,
        ..PLAIN
    },
    State {
        name: "bare repository",
        work: "echo more >> tracked; echo new > new",
        repository: Kind::Bare,
        ..PLAIN
    },
    State {
        name: "sparse checkout",
        work: "echo more >> tracked; test ! -e folder/other; echo new > new",
        repository: Kind::Sparse,
        ..PLAIN
    },
];

fn run(trials: &mut Trials) {
    let large = trials.either(QUICK, FULL);
    for store in trials.either(&["sqlite"][..], &["sqlite", "json"]) {
        for state in STATES {
            // In a full campaign the first round is undisturbed; the others are killed twice, at random
            // calls.
            for round in 0..trials.either(1, 3) {
                let kills: Vec<u64> = match round {
                    0 if trials.either(false, true) => Vec::new(),
                    _ => (0..2).map(|_| trials.random(u64::MAX)).collect(),
                };
                let name = format!("{}, {store}, round {round}", state.name);
                trials.trial(&name, || attempt(state, store, large, &kills));
            }
        }
    }
}

/// A test environment with a dead session in it.
struct DeadSession {
    test_env: TestEnv,
    bystanders: Bystanders,
    id: String,
    tree: PathBuf,
    git_is_too_old: bool,
}

impl DeadSession {
    fn make(state: &State, store: &'static str, large: &str) -> DeadSession {
        let settings = "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"200ms\"\n";
        let test_env = TestEnv::on(store).with_settings(settings);
        let repository = Repository::in_work_dir(&test_env);
        prepare(state.repository, &test_env, &repository);
        let bystanders = Bystanders::plant(&test_env);
        let ready = test_env.path().join("ready");
        let script = format!(
            "set -e; export GIT_CONFIG_GLOBAL=/dev/null GIT_EDITOR=true; {}; touch {}; exec sleep 600",
            state.work.replace("LARGE", large),
            ready.display()
        );
        let id = test_env.ok(&["run", "-d", "-w", "--", "sh", "-c", &script]);
        eventually("the work is done", || {
            let ended = test_env.record(&id)["finished_at"].is_string();
            assert!(!ended, "it failed: {}", test_env.ok(&["logs", &id]));
            ready.exists()
        });
        kill_supervisor_and_command(&test_env, &id);
        let tree = PathBuf::from(test_env.record(&id)["worktree"]["path"].as_str().unwrap());
        let git_is_too_old = !repository.command(&["status", "--short"]).output().unwrap().status.success();
        let git_is_too_old = git_is_too_old && state.repository == Kind::RelativeLinks;
        DeadSession { test_env, bystanders, id, tree, git_is_too_old }
    }

    /// Returns where git keeps the worktree's own files.
    fn admin(&self) -> PathBuf {
        let link = std::fs::read_to_string(self.tree.join(".git")).unwrap();
        self.tree.join(link.trim().strip_prefix("gitdir: ").unwrap())
    }

    fn git(&self, tree: &Path, arguments: &[&str]) -> String {
        let repository = Repository::of_work_dir(&self.test_env);
        let mut command = repository.command(arguments);
        let output = command.current_dir(tree).env("GIT_OPTIONAL_LOCKS", "0").output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {arguments:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the state of a worktree, as git reports it and on disk.
    fn snapshot(&self, tree: &Path) -> TreeSnapshot {
        // Git supports relative links from version 2.48 on; with an older git only the files are compared.
        let git = |arguments: &[&str]| match self.git_is_too_old {
            true => String::new(),
            false => self.git(tree, arguments),
        };
        TreeSnapshot {
            files: files_under(tree),
            status: git(&["status", "--porcelain=v2", "--untracked-files=all", "--ignored"]),
            staged: git(&["diff", "--cached", "--binary", "--no-renames"]),
            head: git(&["log", "--format=%H %s", "HEAD"]),
            conflicts: git(&["ls-files", "--unmerged"]),
        }
    }
}

#[derive(Debug, PartialEq)]
struct TreeSnapshot {
    files: BTreeMap<PathBuf, Vec<u8>>,
    status: String,
    staged: String,
    head: String,
    conflicts: String,
}

impl TreeSnapshot {
    /// Compares without printing a hundred megabytes.
    fn require_same(&self, before: &TreeSnapshot) {
        let names = |snapshot: &TreeSnapshot| snapshot.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(self), names(before), "files are missing, or there are more");
        for (name, bytes) in &self.files {
            assert!(before.files[name] == *bytes, "{} is not as it was", name.display());
        }
        assert_eq!(self.status, before.status);
        assert!(self.staged == before.staged, "what is staged is not what it was");
        assert_eq!((&self.head, &self.conflicts), (&before.head, &before.conflicts));
    }
}

fn prepare(kind: Kind, test_env: &TestEnv, repository: &Repository) {
    match kind {
        Kind::Plain => {}
        Kind::RelativeLinks => {
            repository.git(&["config", "core.repositoryFormatVersion", "1"]);
            repository.git(&["config", "extensions.relativeWorktrees", "true"]);
        }
        Kind::Bare => {
            let (work, bare) = (test_env.work_dir(), test_env.path().join("bare"));
            repository.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
            std::fs::remove_dir_all(&work).unwrap();
            std::fs::rename(bare, &work).unwrap();
            for (name, value) in [("user.name", "A Tester"), ("user.email", "tester@example.org")] {
                repository.git(&["config", name, value]);
            }
        }
        Kind::Sparse => {
            repository.git(&["sparse-checkout", "set", "--no-cone", "/tracked", "/.gitignore", "/new"]);
        }
        Kind::WithSubmodule => {
            let other = Repository::at(test_env, &test_env.path().join("other"));
            let from = other.path().to_str().unwrap();
            repository.git(&[
                "-c",
                "protocol.file.allow=always",
                "submodule",
                "--quiet",
                "add",
                from,
                "module",
            ]);
            repository.git(&["commit", "--quiet", "--message", "with a module"]);
        }
    }
}

fn attempt(state: &State, store: &'static str, large: &str, kills: &[u64]) -> u64 {
    let dead_session = DeadSession::make(state, store, large);
    let before = (state.outcome == Outcome::Restored).then(|| dead_session.snapshot(&dead_session.tree));
    let files = files_under(&dead_session.tree);
    (state.after)(&dead_session);
    let mut faults = 1;
    if !kills.is_empty() {
        faults += kill_recovery(&dead_session, state, large, kills);
    }
    let recovered = dead_session.test_env.sexton(&["recover"]);
    match state.outcome {
        Outcome::Restored => {
            assert_eq!(recovered.code, 0, "{}{}", recovered.stdout, recovered.stderr);
            assert!(!dead_session.tree.exists(), "it was not removed");
            let into = dead_session.test_env.path().join("restored");
            dead_session.test_env.ok(&[
                "rescue",
                "restore",
                &dead_session.id,
                "--into",
                into.to_str().unwrap(),
            ]);
            dead_session.snapshot(&into).require_same(&before.unwrap());
        }
        Outcome::Kept(why) => {
            assert_eq!(recovered.code, 3, "the report does not say that it is kept: {}", recovered.stdout);
            let record = dead_session.test_env.json(&["show", &dead_session.id]).to_string();
            assert!(record.contains(why), "the record does not say why it is kept: {record}");
            assert!(files_under(&dead_session.tree) == files, "the kept worktree was changed");
        }
        Outcome::Unattributed => {
            assert_eq!(recovered.code, 0, "{}{}", recovered.stdout, recovered.stderr);
            assert_eq!(dead_session.test_env.record(&dead_session.id)["recovery"]["worktree"], "kept");
            assert!(files_under(&dead_session.tree) == files, "the kept worktree was changed");
        }
        Outcome::Gone => {
            assert_eq!(recovered.code, 0, "{}{}", recovered.stdout, recovered.stderr);
            let repository = Repository::of_work_dir(&dead_session.test_env);
            assert_eq!(repository.worktrees().len(), 1, "its entry is left");
            // The index is in git's own directory, and so it is rescued.
            let index = format!("refs/sexton/rescue/{}^2:index", dead_session.id);
            assert_eq!(repository.git(&["cat-file", "-t", &index]), "blob", "the index is lost");
        }
    }
    dead_session.bystanders.require_untouched(&dead_session.test_env);
    // A second recovery changes nothing.
    let record = dead_session.test_env.record(&dead_session.id);
    dead_session.test_env.sexton(&["recover"]);
    let again = dead_session.test_env.record(&dead_session.id);
    assert_eq!((&record["status"], &record["exit"]), (&again["status"], &again["exit"]));
    faults
}

/// Kills recoveries before changes that these numbers select.
fn kill_recovery(dead_session: &DeadSession, state: &State, large: &str, kills: &[u64]) -> u64 {
    if matches!(state.outcome, Outcome::Kept(_)) || large == QUICK {
        // Such a recovery has an exit code that the trace does not accept; and a trace takes long.
        return kills.iter().map(|number| kill_somewhere(dead_session, *number)).sum();
    }
    // The calls are taken from a second session like it.
    let twin = DeadSession::make(state, "sqlite", "1");
    (state.after)(&twin);
    let calls = mutating_calls(&trace_family(&twin.test_env, Family::All, &["recover"]));
    let chosen = kills.iter().map(|number| &calls[usize::try_from(number % calls.len() as u64).unwrap()]);
    chosen
        .map(|call| u64::from(kill_family_at(&dead_session.test_env, Family::All, call, &["recover"], "")))
        .sum()
}

fn kill_somewhere(dead_session: &DeadSession, number: u64) -> u64 {
    let call = sexton_test_harness::strace::Call {
        name: "write".to_owned(),
        nth: usize::try_from(number % 12).unwrap() + 1,
    };
    u64::from(kill_family_at(&dead_session.test_env, Family::All, &call, &["recover"], ""))
}
