//! A project of pi-ticketflow: its file, its worktrees, and agents that it dispatched.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::repository::Repository;
use crate::{Yard, eventually, is_running, kill_9};

/// A project, in the directory that the yard's commands work in.
pub struct Project {
    /// The yard around it.
    pub yard: Yard,
    /// Its repository.
    pub repository: Repository,
    started: Vec<u64>,
    dispatchers: Vec<Child>,
}

impl Project {
    /// A project with nothing dispatched yet.
    #[allow(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Project {
        let yard = Yard::new().with_settings("store.durability = \"process\"\nstop.grace = \"300ms\"\n");
        let repository = Repository::in_work_dir(&yard);
        std::fs::create_dir_all(yard.work_dir().join(".tf/ralph/worktrees")).unwrap();
        std::fs::create_dir(yard.work_dir().join(".git/info")).unwrap();
        std::fs::write(yard.work_dir().join(".git/info/exclude"), ".tf\n").unwrap();
        let agent = yard.path().join("pi");
        // The shell stays, as the program that the dispatcher started, and has a child of its own.
        std::fs::write(&agent, "#!/bin/sh\ntouch \"$2\"\nsleep 600\n:\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&agent, mode).unwrap();
        Project { yard, repository, started: Vec::new(), dispatchers: Vec::new() }
    }

    /// Where it is, as the kernel names it.
    pub fn root(&self) -> PathBuf {
        self.yard.work_dir().canonicalize().unwrap()
    }

    /// Its file.
    pub fn file(&self) -> PathBuf {
        self.root().join(".tf/ralph/dispatch-sessions.json")
    }

    /// The URL of its store.
    pub fn url(&self) -> String {
        format!("tf:{}", self.file().display())
    }

    /// What its file says.
    pub fn document(&self) -> Value {
        let text = std::fs::read_to_string(self.file()).unwrap();
        // Python reads a number that is too large for it as infinity; this test reads it as a text.
        serde_json::from_str(&text.replace("1e400", "\"1e400\"")).unwrap()
    }

    /// The entry of a session.
    pub fn entry(&self, id: &str) -> Value {
        let document = self.document();
        let entries = document["sessions"].as_array().unwrap();
        entries.iter().find(|entry| entry["session_id"] == id).unwrap().clone()
    }

    /// The worktree of a ticket.
    pub fn worktree(&self, ticket: &str) -> PathBuf {
        self.root().join(".tf/ralph/worktrees").join(ticket)
    }

    /// Makes the worktree of a ticket, with work in it that is nowhere else.
    pub fn plant(&self, ticket: &str) {
        let path = self.worktree(ticket);
        let branch = format!("ralph/{ticket}");
        self.repository.git(&["worktree", "add", "--quiet", "-b", &branch, path.to_str().unwrap()]);
        std::fs::write(path.join("tracked"), "changed\n").unwrap();
        std::fs::write(path.join("note"), format!("of {ticket}\n")).unwrap();
    }

    /// Starts an agent in `directory` whose dispatcher is gone, and gives its pid.
    pub fn orphan(&mut self, directory: &Path) -> u64 {
        let ready = self.yard.path().join(format!("ready-{}", self.started.len()));
        let mut dispatcher = Command::new("sh");
        dispatcher.args(["-c", "\"$0\" -p \"$1\" > /dev/null 2>&1 & echo $!"]);
        let output = dispatcher.arg(self.yard.path().join("pi")).arg(&ready).current_dir(directory).output();
        let pid: u64 = String::from_utf8(output.unwrap().stdout).unwrap().trim().parse().unwrap();
        self.started.push(pid);
        eventually("the agent runs", || ready.exists());
        pid
    }

    /// Starts an agent in `directory` whose dispatcher lives and works in the project.
    pub fn held(&mut self, directory: &Path) -> u64 {
        let ready = self.yard.path().join(format!("ready-{}", self.started.len()));
        let script = "cd \"$2\"; \"$0\" -p \"$1\" > /dev/null & echo $! > \"$1.pid\"; cd \"$3\"; wait";
        let mut dispatcher = Command::new("sh");
        dispatcher.args(["-c", script]).arg(self.yard.path().join("pi")).arg(&ready);
        dispatcher.arg(directory).arg(self.root()).stdin(Stdio::null());
        self.dispatchers.push(dispatcher.spawn().unwrap());
        eventually("the agent runs", || ready.exists());
        // The agent may be ready before its dispatcher has said who it is.
        let file = ready.with_extension("pid");
        let mut pid = 0;
        eventually("the dispatcher has said who its agent is", || {
            let said = std::fs::read_to_string(&file).unwrap_or_default();
            pid = said.strip_suffix('\n').and_then(|said| said.parse().ok()).unwrap_or_default();
            pid > 0
        });
        self.started.push(pid);
        pid
    }

    /// Runs the binary on the project's file.
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

/// The clock ticks after the boot at which a process started.
pub fn start_ticks(pid: u64) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit(") ").next().unwrap();
    rest.split(' ').nth(19).unwrap().parse().unwrap()
}

/// The children of a process.
pub fn children_of(pid: u64) -> Vec<u64> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// What changed from one text to the other, line by line.
pub fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    // The length of the longest common part of what is left behind each pair of lines.
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
