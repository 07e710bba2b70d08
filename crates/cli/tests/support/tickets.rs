//! A repository with tickets, a query that lists the open ones, and an agent whose behaviour depends on the name of the
//! ticket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::repository::Repository;
use super::{Ran, TestEnv, eventually, processes_with};

/// The settings of all loops in these tests: short pauses and few retries.
pub const QUICK: &str = "contain = \"tree\"\nstore.durability = \"process\"\nstop.grace = \"500ms\"\n\
    [ralph]\nsleep_between_tickets = \"0s\"\nsleep_between_retries = \"50ms\"\nmax_restarts = 1\n";

/// The agent. Every kind of ticket can be interrupted anywhere and restarted on the work that is left.
const AGENT: &str = r#"
set -eu
ticket=$1
echo "working on $ticket, attempt $SEXTON_ATTEMPT"
close() { touch "$HOME/closed/$ticket"; }
commit() { git add --all; git diff --cached --quiet || git commit --quiet --message "$ticket"; }
case $ticket in
ok-*) echo "work on $ticket" > "$ticket"; sleep 0.2; commit; sleep 0.1; close ;;
late-*) echo "work on $ticket" > "$ticket"; sleep 0.2; close ;;
kids-*)
    echo "work on $ticket" > "$ticket"; commit; close
    (setsid sleep 600 &) ; sleep 600 & ;;
idle-*) close ;;
fail-*) echo junk > "$ticket"; commit; echo more > "$ticket.tmp"; exit 7 ;;
hang-*) echo junk > "$ticket"; sleep 600 ;;
deaf-*) trap '' INT TERM HUP; echo junk > "$ticket"; while :; do sleep 1; done ;;
clash-*)
    git reset --quiet --hard "$(cat "$HOME/first")"
    echo "$ticket" > tracked; commit; close ;;
second-*)
    test -e "$ticket" || { echo "half of $ticket" > "$ticket"; exit 1; }
    echo "the rest" >> "$ticket"; commit; close ;;
*) exit 9 ;;
esac
"#;

/// Lists the open tickets, in the order of the file.
const QUERY: &str =
    r#"while read -r ticket; do test -e "$HOME/closed/$ticket" || echo "$ticket"; done < "$HOME/tickets""#;

/// A test environment with a repository and tickets.
pub struct Tickets {
    pub test_env: TestEnv,
    pub repository: Repository,
    marker: String,
}

impl Tickets {
    /// Creates an environment with these tickets, all open.
    pub fn new(tickets: &[&str]) -> Tickets {
        Tickets::with_settings(tickets, QUICK)
    }

    pub fn with_settings(tickets: &[&str], settings: &str) -> Tickets {
        let test_env = TestEnv::new().with_settings(settings);
        let repository = Repository::in_work_dir(&test_env);
        let home = test_env.path();
        std::fs::write(home.join("first"), repository.git(&["rev-parse", "HEAD"])).unwrap();
        std::fs::write(repository.path().join("tracked"), "as it is now\n").unwrap();
        repository.git(&["commit", "--quiet", "--all", "--message", "the state of things"]);
        std::fs::create_dir(home.join("closed")).unwrap();
        std::fs::write(home.join("agent.sh"), AGENT).unwrap();
        let list: String = tickets.iter().map(|ticket| format!("{ticket}\n")).collect();
        std::fs::write(home.join("tickets"), list).unwrap();
        let marker = format!("RALPH_TEST={}", home.display());
        Tickets { test_env, repository, marker }
    }

    /// Returns the agent, as an argument of `--agent`.
    pub fn agent(&self) -> String {
        format!("sh '{}' {{ticket}}", self.test_env.path().join("agent.sh").display())
    }

    /// Returns a `sexton ralph start` command on the open tickets.
    pub fn start(&self, more: &[&str]) -> Command {
        let agent = self.agent();
        let mut arguments = vec!["ralph", "start", "--ticket-query", QUERY];
        if !more.contains(&"--agent") {
            arguments.extend(["--agent", &agent]);
        }
        arguments.extend(more);
        self.command(&arguments)
    }

    /// Returns a command that runs the program in this test environment. Its descendants carry a marker variable.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.test_env.command(arguments);
        self.enclose(&mut command);
        command
    }

    /// Isolates `command` in this test environment and sets the marker variable.
    pub fn enclose(&self, command: &mut Command) {
        self.test_env.enclose(command);
        let (name, value) = self.marker.split_once('=').unwrap();
        command.env(name, value).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.env_remove("RALPH_FORCE_LEGACY_SESSIONS");
    }

    /// Runs a command until it exits.
    pub fn run(&self, command: &mut Command) -> Ran {
        Ran::of(&command.output().unwrap())
    }

    /// Runs a command in the background, with its output in a file.
    pub fn spawn(&self, command: &mut Command) -> Child {
        let log = std::fs::File::options().append(true).create(true).open(self.log()).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null());
        command.spawn().unwrap()
    }

    /// Returns the output of the background loops.
    pub fn output(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Returns the path of that file.
    pub fn log(&self) -> PathBuf {
        self.test_env.path().join("loop.log")
    }

    /// Returns the record of the last loop.
    pub fn record(&self) -> Value {
        self.test_env.record("ralph:work")
    }

    /// Returns the state of each ticket from the record of the loop: `merged`, `nothing`, `set_aside` …
    pub fn states(&self) -> BTreeMap<String, String> {
        let record = self.record();
        let tickets = record["loop"]["tickets"].as_object().unwrap();
        let state = |progress: &Value| {
            let stage = &progress["stage"];
            let state = if stage["at"] == "done" { &stage["work"]["work"] } else { &stage["at"] };
            state.as_str().unwrap_or_else(|| panic!("{stage}")).to_owned()
        };
        tickets.iter().map(|(ticket, progress)| (ticket.clone(), state(progress))).collect()
    }

    /// Returns the files of the base branch.
    pub fn files(&self) -> Vec<String> {
        let listed = self.repository.git(&["ls-tree", "-r", "--name-only", "main"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Requires that no process of a loop of this test environment is running.
    pub fn require_nothing_runs(&self) {
        eventually("no process of the loop runs", || processes_with(&self.marker).is_empty());
    }

    /// Waits until the agent has written the ticket's file, and returns its path.
    pub fn wait_for_work(&self, ticket: &str) -> PathBuf {
        let mut found = None;
        eventually("the agent has begun", || {
            let worktrees = self.repository.worktrees();
            found = worktrees.into_iter().skip(1).map(|tree| tree.join(ticket)).find(|file| file.exists());
            found.is_some()
        });
        found.unwrap()
    }

    /// Requires that the base branch has exactly the initial files and the files of these tickets.
    pub fn require_exactly(&self, merged: &[&str]) {
        let mut expected = vec![".gitignore", "folder/other", "tracked"];
        expected.extend(merged);
        expected.sort_unstable();
        assert_eq!(self.files(), expected);
        for ticket in merged {
            let text = self.repository.git(&["show", &format!("main:{ticket}")]);
            assert_eq!(text, format!("work on {ticket}"));
            let commits = self.repository.git(&["log", "--format=%h", "--no-merges", "main", "--", ticket]);
            assert_eq!(commits.lines().count(), 1, "{ticket} was merged more than once: {commits}");
        }
        assert_eq!(self.repository.git(&["show", "main:tracked"]), "as it is now");
        assert_eq!(self.repository.git(&["status", "--porcelain"]), "", "the main worktree is not clean");
        assert!(Path::new(self.repository.path()).join("tracked").exists());
    }
}
