//! A repository with tickets, a query that names those that are open, and an agent that does with each what its
//! name says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::repository::Repository;
use super::{Ran, Yard, eventually, processes_with};

/// What every loop of these tests works with. Pauses are short, and an attempt that hangs is soon noticed.
pub const QUICK: &str = "contain = \"tree\"\nstore.durability = \"process\"\nstop.grace = \"500ms\"\n\
    [ralph]\nsleep_between_tickets = \"0s\"\nsleep_between_retries = \"50ms\"\nmax_restarts = 1\n";

/// The agent. Every kind can be cut off anywhere and begun again on what it left.
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

/// Names what is open, in the order of the list.
const QUERY: &str =
    r#"while read -r ticket; do test -e "$HOME/closed/$ticket" || echo "$ticket"; done < "$HOME/tickets""#;

/// A yard with a repository and tickets.
pub struct Tickets {
    pub yard: Yard,
    pub repository: Repository,
    marker: String,
}

impl Tickets {
    /// These tickets, open.
    pub fn new(tickets: &[&str]) -> Tickets {
        Tickets::with_settings(tickets, QUICK)
    }

    pub fn with_settings(tickets: &[&str], settings: &str) -> Tickets {
        let yard = Yard::new().with_settings(settings);
        let repository = Repository::in_work_dir(&yard);
        let home = yard.path();
        std::fs::write(home.join("first"), repository.git(&["rev-parse", "HEAD"])).unwrap();
        std::fs::write(repository.path().join("tracked"), "as it is now\n").unwrap();
        repository.git(&["commit", "--quiet", "--all", "--message", "the state of things"]);
        std::fs::create_dir(home.join("closed")).unwrap();
        std::fs::write(home.join("agent.sh"), AGENT).unwrap();
        let list: String = tickets.iter().map(|ticket| format!("{ticket}\n")).collect();
        std::fs::write(home.join("tickets"), list).unwrap();
        let marker = format!("RALPH_TEST={}", home.display());
        Tickets { yard, repository, marker }
    }

    /// The agent as `--agent` takes it.
    pub fn agent(&self) -> String {
        format!("sh '{}' {{ticket}}", self.yard.path().join("agent.sh").display())
    }

    /// `sexton ralph start` on the open tickets.
    pub fn start(&self, more: &[&str]) -> Command {
        let agent = self.agent();
        let mut arguments = vec!["ralph", "start", "--ticket-query", QUERY];
        if !more.contains(&"--agent") {
            arguments.extend(["--agent", &agent]);
        }
        arguments.extend(more);
        self.command(&arguments)
    }

    /// The program in this yard, and in the repository; all that descends from it can be found.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.yard.command(arguments);
        self.enclose(&mut command);
        command
    }

    /// Puts any command there.
    pub fn enclose(&self, command: &mut Command) {
        self.yard.enclose(command);
        let (name, value) = self.marker.split_once('=').unwrap();
        command.env(name, value).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.env_remove("RALPH_FORCE_LEGACY_SESSIONS");
    }

    /// Runs it to its end.
    pub fn run(&self, command: &mut Command) -> Ran {
        Ran::of(&command.output().unwrap())
    }

    /// Runs it in the background, with what it says in a file.
    pub fn spawn(&self, command: &mut Command) -> Child {
        let log = std::fs::File::options().append(true).create(true).open(self.log()).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null());
        command.spawn().unwrap()
    }

    /// What background loops said.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Where that is.
    pub fn log(&self) -> PathBuf {
        self.yard.path().join("loop.log")
    }

    /// The record of the last loop.
    pub fn record(&self) -> Value {
        self.yard.record("ralph:work")
    }

    /// What became of each ticket, as the record of the loop says: `merged`, `nothing`, `set_aside` …
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

    /// The files of the base branch.
    pub fn files(&self) -> Vec<String> {
        let listed = self.repository.git(&["ls-tree", "-r", "--name-only", "main"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Requires that nothing runs that any loop of this yard started.
    pub fn require_nothing_runs(&self) {
        eventually("nothing runs that the loop started", || processes_with(&self.marker).is_empty());
    }

    /// Waits until the ticket has come so far that its file is in its worktree.
    pub fn wait_for_work(&self, ticket: &str) -> PathBuf {
        let mut found = None;
        eventually("the agent has begun", || {
            let worktrees = self.repository.worktrees();
            found = worktrees.into_iter().skip(1).map(|tree| tree.join(ticket)).find(|file| file.exists());
            found.is_some()
        });
        found.unwrap()
    }

    /// Whether the base branch is as it was but for the files of these tickets.
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
