//! Runs every command of README.md and docs/ with the real binary, a temporary repository and state directory, and
//! fake agents. The test fails if a command does not do what its page states.
//!
//! Commands of a page share one shell and run in order. `# exits 4` after a command states its exit code; the default
//! is 0. Blocks that are not marked `sh` are not run. The environment of a page contains
//! `./agent.sh`, `./worker`, a committed `src/main.rs` and a `.sexton.toml` in a repository; `claude`, `codex`, `pi`
//! and `tk` on the path; a session `orphan` whose owner was killed while it had work in its worktree; and a session
//! `lost` on a machine that no longer exists.

#![cfg(all(
    feature = "store-sqlite",
    feature = "store-json",
    feature = "proc-linux",
    feature = "proc-portable",
    feature = "worktree-git"
))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use support::crashed_env::kill_supervisor_and_command;
use support::page::{Reader, Step, pages_below, steps};
use support::records::edit_record;
use support::repository::Repository;
use support::{Bystander, GENEROUS, TestEnv, eventually, processes_with, program};

/// Pages that must have commands. The test fails if one loses its last command or is not found.
const WITH_COMMANDS: [&str; 9] = [
    "README.md",
    "docs/configuration.md",
    "docs/hooks.md",
    "docs/recovery.md",
    "docs/resume.md",
    "docs/sessions.md",
    "docs/stores.md",
    "docs/terminal.md",
    "docs/worktrees.md",
];

/// Commands that this test does not run, and what checks them instead.
const ELSEWHERE: [(&str, &str); 1] = [("cargo ", "`cargo xtask tidy` compares them with the existing tasks")];

/// The time limit for a page on a loaded machine.
const PAGE_LIMIT: Duration = Duration::from_secs(240);

/// A fake agent: prints a line, writes a file, and closes its ticket.
const AGENT: &str = r#"#!/bin/sh
echo "working: $*"
echo "$*" >> notes.md
for word in $*; do case "$word" in T-*) tk close "$word";; esac; done
echo done
"#;

/// A fake ticket tool: `tk ready` lists the open tickets.
const TICKETS: &str = r#"#!/bin/sh
open="$HOME/tickets"
case "$1" in
    ready|list) cat "$open";;
    show) grep "^$2" "$open";;
    close) grep -v "^$2 " "$open" > "$open.new.$$"; mv "$open.new.$$" "$open";;
esac
"#;

/// A fake agent that runs for three seconds.
const SLOW_AGENT: &str = "#!/bin/sh\necho working; echo more >> notes.md; sleep 3; echo done\n";

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// The environment of a page.
struct Place {
    test_env: TestEnv,
}

impl Place {
    fn new() -> Place {
        let test_env =
            TestEnv::new().with_settings("contain = \"tree\"\nowner.grace = \"1s\"\nstop.grace = \"2s\"\n");
        let work = test_env.work_dir();
        fs::create_dir(work.join("src")).unwrap();
        fs::write(work.join("src/main.rs"), "fn main() {}\n").unwrap();
        for name in ["agent.sh", "worker"] {
            write_program(&work.join(name), SLOW_AGENT);
        }
        fs::write(work.join(".sexton.toml"), "notify.command = \"true\"\n").unwrap();
        Repository::in_work_dir(&test_env);
        let bin = test_env.path().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(program(), bin.join("sexton")).unwrap();
        for name in ["claude", "codex", "pi"] {
            write_program(&bin.join(name), AGENT);
        }
        write_program(&bin.join("tk"), TICKETS);
        fs::write(test_env.path().join("tickets"), "T-101 the parser\nT-102 the docs\n").unwrap();
        let place = Place { test_env };
        place.orphan();
        let lost = place.test_env.ok(&["run", "-d", "--name", "lost", "--", "sleep", "600"]);
        kill_supervisor_and_command(&place.test_env, &lost);
        edit_record(&place.test_env, &lost, |session| session.host.hostname = "gone-for-good".to_owned());
        place
    }

    /// Creates a session with work in its worktree, whose owner and supervisor were killed.
    fn orphan(&self) {
        let mut owner = Bystander::start();
        let script = "echo '// more' >> src/main.rs; echo a > note; exec sleep 600";
        let owned =
            ["run", "-d", "-w", "--owner-pid", &owner.pid(), "--name", "orphan", "--", "sh", "-c", script];
        let id = self.test_env.ok(&owned);
        let tree = PathBuf::from(self.test_env.record(&id)["worktree"]["path"].as_str().unwrap());
        eventually("its work is there", || tree.join("note").exists());
        support::kill_9(self.test_env.record(&id)["supervisor"]["pid"].as_u64().unwrap());
        owner.end();
    }

    /// Runs the steps, and returns what went wrong.
    fn try_out(&self, steps: &[Step], limit: Duration) -> Vec<String> {
        let prepare = |command: &mut Command| {
            self.test_env.enclose(command);
            let path =
                format!("{}:{}", self.test_env.path().join("bin").display(), std::env::var("PATH").unwrap());
            command.env("PATH", path).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            command.env_remove("SEXTON_STORE").env("XDG_DATA_HOME", self.test_env.path().join("data"));
        };
        Reader { folder: self.test_env.path(), limit, prepare: &prepare }.try_out(steps)
    }

    /// Stops the sessions that the page left running, and returns what is left after that.
    fn leave(self) -> Vec<String> {
        self.test_env.ok(&["stop", "--all", "--force"]);
        let mark = format!("SEXTON_STATE_DIR={}", self.test_env.state_dir().display());
        let begun = std::time::Instant::now();
        loop {
            let left = processes_with(&mark);
            if left.is_empty() {
                return Vec::new();
            }
            if begun.elapsed() > GENEROUS {
                return vec![format!("processes are left: {left:?}")];
            }
            thread::park_timeout(Duration::from_millis(20));
        }
    }
}

fn root() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    own.join("../..").canonicalize().unwrap()
}

fn is_run_here(step: &Step) -> bool {
    !ELSEWHERE.iter().any(|(start, _)| step.text.starts_with(start))
}

#[test]
fn every_command_of_the_documentation_exits_as_its_page_states() {
    let root = root();
    let pages = [root.join("README.md"), root.join("CONTRIBUTING.md")]
        .into_iter()
        .chain(pages_below(&root.join("docs")));
    let pages: Vec<(String, Vec<Step>)> = pages
        .map(|path| {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            let found = steps(&fs::read_to_string(path).unwrap());
            (name, found.into_iter().filter(is_run_here).collect::<Vec<_>>())
        })
        .filter(|(_, steps)| !steps.is_empty())
        .collect();
    let missing: Vec<_> =
        WITH_COMMANDS.iter().filter(|page| !pages.iter().any(|(name, _)| name == *page)).collect();
    assert!(missing.is_empty(), "pages without a command: {missing:?}");
    let findings: Vec<String> = thread::scope(|scope| {
        let tried: Vec<_> = pages
            .iter()
            .map(|(name, steps)| {
                scope.spawn(move || {
                    let place = Place::new();
                    let mut findings = place.try_out(steps, PAGE_LIMIT);
                    findings.extend(place.leave());
                    findings.into_iter().map(|finding| format!("{name}, {finding}")).collect::<Vec<_>>()
                })
            })
            .collect();
        tried.into_iter().flat_map(|page| page.join().unwrap()).collect()
    });
    assert!(findings.is_empty(), "{}", findings.join("\n\n"));
}

#[test]
fn a_command_with_another_exit_code_is_reported() {
    let place = Place::new();
    let page = "```sh\nsexton ps\nsexton show missing   # exits 4\nsexton show missing\nfalse # exits 2\ntrue\n```\n";
    let findings = place.try_out(&steps(page), PAGE_LIMIT);
    assert_eq!(findings.len(), 2, "{findings:#?}");
    assert!(
        findings[0].starts_with("line 4: `sexton show missing` exits 4, and the page says 0"),
        "{findings:#?}"
    );
    assert!(findings[0].contains("no session has the id or name `missing`"), "{findings:#?}");
    assert!(findings[1].starts_with("line 5: `false # exits 2` exits 1"), "{findings:#?}");
}

#[test]
fn a_command_that_does_not_exit_is_killed_and_reported() {
    let place = Place::new();
    let findings = place.try_out(&steps("```sh\ntrue\nsleep 600\ntrue\n```\n"), Duration::from_secs(2));
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].starts_with("line 3: `sleep 600` does not end"), "{findings:#?}");
    assert_eq!(place.leave(), Vec::<String>::new());
}

#[test]
fn only_sh_blocks_are_commands() {
    let page = "```text\nno\n```\n```sh\none \\\n  two\n\n# remark\ncat <<'END' > x\nbody\nEND\nlast # exits 3, because\n```\nno\n";
    let found = steps(page);
    let texts: Vec<_> = found.iter().map(|step| (step.line, step.text.as_str(), step.exit)).collect();
    assert_eq!(
        texts,
        [(5, "one \\\n  two", 0), (9, "cat <<'END' > x\nbody\nEND", 0), (12, "last # exits 3, because", 3)]
    );
}
