//! Every state that a worktree can be in when its session dies: recovered, and restored, everything is as it
//! was; or it is kept, as it was, and that is said.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sexton_field::repository::{Repository, files_under};
use sexton_field::scene::end_behind_its_back;
use sexton_field::strace::{Family, kill_family_at, mutating_calls, trace_family};
use sexton_field::{Yard, eventually};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "matrix",
    promises: "I4 I7",
    what: "every state that a worktree can be in, recovered under SIGKILL and restored",
    mutants: &["no_untracked", "no_index", "no_nested_check"],
    tools: &[("strace", "strace"), ("taskset", "util-linux"), ("git", "git")],
    minutes: 2,
    run,
};

/// How many bytes are many.
const QUICK: &str = "5000000";
const FULL: &str = "100000000";

/// What becomes of a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Rescued, removed, and restored as it was.
    Restored,
    /// Kept as it was, for this reason.
    Kept(&'static str),
    /// Kept as it was, for good: it cannot be told any more whose it is.
    Disowned,
    /// Nothing is left to rescue or to keep but what git has.
    Gone,
}

/// A state: what the session's command does, and what happens to the repository when it is dead.
struct State {
    name: &'static str,
    work: &'static str,
    after: fn(&Site),
    repository: Kind,
    fate: Fate,
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

/// Most states are a script in a plain repository, and come back.
const PLAIN: State =
    State { name: "", work: "", after: |_| (), repository: Kind::Plain, fate: Fate::Restored };

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
        fate: Fate::Kept("inner"),
        ..PLAIN
    },
    State {
        name: "submodule",
        work: "git -c protocol.file.allow=always submodule -q update --init; echo more >> module/tracked",
        repository: Kind::WithSubmodule,
        fate: Fate::Kept("module"),
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
        fate: Fate::Kept("locked"),
        ..PLAIN
    },
    State {
        name: "directory gone",
        work: "echo more >> tracked; git add tracked",
        after: |site| std::fs::remove_dir_all(&site.tree).unwrap(),
        fate: Fate::Gone,
        ..PLAIN
    },
    State {
        name: "admin entry gone",
        work: "echo more >> tracked",
        after: |site| std::fs::remove_dir_all(site.admin()).unwrap(),
        fate: Fate::Disowned,
        ..PLAIN
    },
    State {
        name: "repository moved",
        work: "echo more >> tracked",
        after: |site| {
            std::fs::rename(site.yard.work_dir(), site.yard.path().join("elsewhere")).unwrap();
            std::fs::create_dir(site.yard.work_dir()).unwrap();
        },
        fate: Fate::Disowned,
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
            // One undisturbed; the others killed twice on the way, wherever.
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

/// A yard with a dead session in it.
struct Site {
    yard: Yard,
    bystanders: Bystanders,
    id: String,
    tree: PathBuf,
    git_is_too_old: bool,
}

impl Site {
    fn make(state: &State, store: &'static str, large: &str) -> Site {
        let settings = "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"200ms\"\n";
        let yard = Yard::on(store).with_settings(settings);
        let repository = Repository::in_work_dir(&yard);
        prepare(state.repository, &yard, &repository);
        let bystanders = Bystanders::plant(&yard);
        let ready = yard.path().join("ready");
        let script = format!(
            "set -e; export GIT_CONFIG_GLOBAL=/dev/null GIT_EDITOR=true; {}; touch {}; exec sleep 600",
            state.work.replace("LARGE", large),
            ready.display()
        );
        let id = yard.ok(&["run", "-d", "-w", "--", "sh", "-c", &script]);
        eventually("the work is done", || {
            let ended = yard.record(&id)["finished_at"].is_string();
            assert!(!ended, "it failed: {}", yard.ok(&["logs", &id]));
            ready.exists()
        });
        end_behind_its_back(&yard, &id);
        let tree = PathBuf::from(yard.record(&id)["worktree"]["path"].as_str().unwrap());
        let git_is_too_old = !repository.command(&["status", "--short"]).output().unwrap().status.success();
        let git_is_too_old = git_is_too_old && state.repository == Kind::RelativeLinks;
        Site { yard, bystanders, id, tree, git_is_too_old }
    }

    /// Where git keeps what belongs to the worktree.
    fn admin(&self) -> PathBuf {
        let link = std::fs::read_to_string(self.tree.join(".git")).unwrap();
        self.tree.join(link.trim().strip_prefix("gitdir: ").unwrap())
    }

    fn git(&self, tree: &Path, arguments: &[&str]) -> String {
        let repository = Repository::of_work_dir(&self.yard);
        let mut command = repository.command(arguments);
        let output = command.current_dir(tree).env("GIT_OPTIONAL_LOCKS", "0").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What a worktree is, to git and on disk.
    fn portrait(&self, tree: &Path) -> Portrait {
        // Git itself knows relative links from version 2.48 on; where it is older, the files are what one sees.
        let git = |arguments: &[&str]| match self.git_is_too_old {
            true => String::new(),
            false => self.git(tree, arguments),
        };
        Portrait {
            files: files_under(tree),
            status: git(&["status", "--porcelain=v2", "--untracked-files=all", "--ignored"]),
            staged: git(&["diff", "--cached", "--binary", "--no-renames"]),
            head: git(&["log", "--format=%H %s", "HEAD"]),
            conflicts: git(&["ls-files", "--unmerged"]),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Portrait {
    files: BTreeMap<PathBuf, Vec<u8>>,
    status: String,
    staged: String,
    head: String,
    conflicts: String,
}

impl Portrait {
    /// Without printing a hundred megabytes.
    fn require_same(&self, before: &Portrait) {
        let names = |portrait: &Portrait| portrait.files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(self), names(before), "files are missing, or there are more");
        for (name, bytes) in &self.files {
            assert!(before.files[name] == *bytes, "{} is not as it was", name.display());
        }
        assert_eq!(self.status, before.status);
        assert!(self.staged == before.staged, "what is staged is not what it was");
        assert_eq!((&self.head, &self.conflicts), (&before.head, &before.conflicts));
    }
}

fn prepare(kind: Kind, yard: &Yard, repository: &Repository) {
    match kind {
        Kind::Plain => {}
        Kind::RelativeLinks => {
            repository.git(&["config", "core.repositoryFormatVersion", "1"]);
            repository.git(&["config", "extensions.relativeWorktrees", "true"]);
        }
        Kind::Bare => {
            let (work, bare) = (yard.work_dir(), yard.path().join("bare"));
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
            let other = Repository::at(yard, &yard.path().join("other"));
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
    let site = Site::make(state, store, large);
    let before = (state.fate == Fate::Restored).then(|| site.portrait(&site.tree));
    let files = files_under(&site.tree);
    (state.after)(&site);
    let mut faults = 1;
    if !kills.is_empty() {
        faults += kill_recovery(&site, state, large, kills);
    }
    let recovered = site.yard.sexton(&["recover"]);
    match state.fate {
        Fate::Restored => {
            assert_eq!(recovered.code, 0, "{}{}", recovered.stdout, recovered.stderr);
            assert!(!site.tree.exists(), "it was not removed");
            let into = site.yard.path().join("restored");
            site.yard.ok(&["rescue", "restore", &site.id, "--into", into.to_str().unwrap()]);
            site.portrait(&into).require_same(&before.unwrap());
        }
        Fate::Kept(why) => {
            assert_eq!(recovered.code, 3, "that it is kept is not said: {}", recovered.stdout);
            let said = site.yard.json(&["show", &site.id]).to_string();
            assert!(said.contains(why), "why it is kept is not said: {said}");
            assert!(files_under(&site.tree) == files, "what is kept is not as it was");
        }
        Fate::Disowned => {
            assert_eq!(recovered.code, 0, "{}{}", recovered.stdout, recovered.stderr);
            assert_eq!(site.yard.record(&site.id)["recovery"]["worktree"], "kept");
            assert!(files_under(&site.tree) == files, "what is kept is not as it was");
        }
        Fate::Gone => {
            assert_eq!(recovered.code, 0, "{}{}", recovered.stdout, recovered.stderr);
            let repository = Repository::of_work_dir(&site.yard);
            assert_eq!(repository.worktrees().len(), 1, "its entry is left");
            // What was staged was git's to keep, and is.
            let index = format!("refs/sexton/rescue/{}^2:index", site.id);
            assert_eq!(repository.git(&["cat-file", "-t", &index]), "blob", "the index is lost");
        }
    }
    site.bystanders.require_untouched(&site.yard);
    // Again, nothing changes.
    let record = site.yard.record(&site.id);
    site.yard.sexton(&["recover"]);
    let again = site.yard.record(&site.id);
    assert_eq!((&record["status"], &record["exit"]), (&again["status"], &again["exit"]));
    faults
}

/// Kills recoveries before changes that are chosen by these numbers.
fn kill_recovery(site: &Site, state: &State, large: &str, kills: &[u64]) -> u64 {
    if matches!(state.fate, Fate::Kept(_)) || large == QUICK {
        // Its recovery has another exit code than a trace wants; and a trace takes its time.
        return kills.iter().map(|number| kill_somewhere(site, *number)).sum();
    }
    // Which calls there are is seen in a twin of it.
    let twin = Site::make(state, "sqlite", "1");
    (state.after)(&twin);
    let calls = mutating_calls(&trace_family(&twin.yard, Family::All, &["recover"]));
    let chosen = kills.iter().map(|number| &calls[usize::try_from(number % calls.len() as u64).unwrap()]);
    chosen.map(|call| u64::from(kill_family_at(&site.yard, Family::All, call, &["recover"], ""))).sum()
}

fn kill_somewhere(site: &Site, number: u64) -> u64 {
    let call = sexton_field::strace::Call {
        name: "write".to_owned(),
        nth: usize::try_from(number % 12).unwrap() + 1,
    };
    u64::from(kill_family_at(&site.yard, Family::All, &call, &["recover"], ""))
}
