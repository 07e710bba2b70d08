//! A pi-ticketflow project: its file, its worktrees, and the agents that it dispatched.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::repository::Repository;
use crate::{TestEnv, eventually, is_running, kill_9};

/// A project in the working directory of the test environment.
pub struct Project {
    /// The test environment.
    pub test_env: TestEnv,
    /// Its repository.
    pub repository: Repository,
    started: Vec<u64>,
    dispatchers: Vec<Child>,
}

impl Project {
    /// Creates a project without dispatched agents.
    #[allow(clippy::new_without_default, reason = "it creates a directory")]
    pub fn new() -> Project {
        let test_env =
            TestEnv::new().with_settings("store.durability = \"process\"\nstop.grace = \"300ms\"\n");
        let repository = Repository::in_work_dir(&test_env);
        std::fs::create_dir_all(test_env.work_dir().join(".tf/ralph/worktrees")).unwrap();
        std::fs::create_dir(test_env.work_dir().join(".git/info")).unwrap();
        std::fs::write(test_env.work_dir().join(".git/info/exclude"), ".tf\n").unwrap();
        let agent = test_env.path().join("pi");
        // The shell stays alive as the program that the dispatcher started, and has a child.
        std::fs::write(&agent, "#!/bin/sh\ntouch \"$2\"\nsleep 600\n:\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&agent, mode).unwrap();
        Project { test_env, repository, started: Vec::new(), dispatchers: Vec::new() }
    }

    /// Returns the canonical path of the project.
    pub fn root(&self) -> PathBuf {
        self.test_env.work_dir().canonicalize().unwrap()
    }

    /// Returns the path of its file.
    pub fn file(&self) -> PathBuf {
        self.root().join(".tf/ralph/dispatch-sessions.json")
    }

    /// Returns the URL of its store.
    pub fn url(&self) -> String {
        format!("tf:{}", self.file().display())
    }

    /// Returns the content of its file.
    pub fn document(&self) -> Value {
        let text = std::fs::read_to_string(self.file()).unwrap();
        // Python reads a number that is too large as infinity; this test reads it as a string.
        serde_json::from_str(&text.replace("1e400", "\"1e400\"")).unwrap()
    }

    /// Returns the entry of a session.
    pub fn entry(&self, id: &str) -> Value {
        let document = self.document();
        let entries = document["sessions"].as_array().unwrap();
        entries.iter().find(|entry| entry["session_id"] == id).unwrap().clone()
    }

    /// Returns the path of a ticket's worktree.
    pub fn worktree(&self, ticket: &str) -> PathBuf {
        self.root().join(".tf/ralph/worktrees").join(ticket)
    }

    /// Creates the worktree of a ticket, with work that exists nowhere else.
    pub fn plant(&self, ticket: &str) {
        let path = self.worktree(ticket);
        let branch = format!("ralph/{ticket}");
        self.repository.git(&["worktree", "add", "--quiet", "-b", &branch, path.to_str().unwrap()]);
        std::fs::write(path.join("tracked"), "changed\n").unwrap();
        std::fs::write(path.join("note"), format!("of {ticket}\n")).unwrap();
    }

    /// Starts an agent in `directory` whose dispatcher has exited, and returns its pid.
    pub fn orphan(&mut self, directory: &Path) -> u64 {
        let ready = self.test_env.path().join(format!("ready-{}", self.started.len()));
        let mut dispatcher = Command::new("sh");
        dispatcher.args(["-c", "\"$0\" -p \"$1\" > /dev/null 2>&1 & echo $!"]);
        let output =
            dispatcher.arg(self.test_env.path().join("pi")).arg(&ready).current_dir(directory).output();
        let pid: u64 = String::from_utf8(output.unwrap().stdout).unwrap().trim().parse().unwrap();
        self.started.push(pid);
        eventually("the agent runs", || ready.exists());
        pid
    }

    /// Starts an agent in `directory` whose dispatcher stays alive in the project, and returns its pid.
    pub fn held(&mut self, directory: &Path) -> u64 {
        let ready = self.test_env.path().join(format!("ready-{}", self.started.len()));
        let script = "cd \"$2\"; \"$0\" -p \"$1\" > /dev/null & echo $! > \"$1.pid\"; cd \"$3\"; wait";
        let mut dispatcher = Command::new("sh");
        dispatcher.args(["-c", script]).arg(self.test_env.path().join("pi")).arg(&ready);
        dispatcher.arg(directory).arg(self.root()).stdin(Stdio::null());
        self.dispatchers.push(dispatcher.spawn().unwrap());
        eventually("the agent runs", || ready.exists());
        // The agent may be ready before its dispatcher has written the pid.
        let file = ready.with_extension("pid");
        let mut pid = 0;
        eventually("the dispatcher has written the pid of its agent", || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            pid = text.strip_suffix('\n').and_then(|text| text.parse().ok()).unwrap_or_default();
            pid > 0
        });
        self.started.push(pid);
        pid
    }

    /// Returns the arguments with the project's store in front.
    pub fn arguments<'a>(&self, url: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
        [&["--store", url], arguments].concat()
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        for pid in self.started.iter().flat_map(|pid| [children_of(*pid), vec![*pid]].concat()) {
            if is_running(pid) {
                kill_9(pid);
            }
        }
        for dispatcher in &mut self.dispatchers {
            let _ = dispatcher.kill();
            let _ = dispatcher.wait();
        }
    }
}

/// Returns the start time of a process in clock ticks since boot.
pub fn start_ticks(pid: u64) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit(") ").next().unwrap();
    rest.split(' ').nth(19).unwrap().parse().unwrap()
}

/// Returns the children of a process.
pub fn children_of(pid: u64) -> Vec<u64> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Returns the line-by-line difference between two texts.
pub fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    // The length of the longest common subsequence of the lines from each pair (i, j) on.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for (i, j) in (0..old.len()).rev().flat_map(|i| (0..new.len()).rev().map(move |j| (i, j))) {
        common[i][j] =
            if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            lines.push(format!("-{}", old[i]));
            i += 1;
        } else {
            lines.push(format!("+{}", new[j]));
            j += 1;
        }
    }
    lines.join("\n")
}
