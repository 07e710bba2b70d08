//! `cargo xtask docs --picture`: docs/images/top.svg, from what `sexton top` really draws on a terminal.
//!
//! The program is built, simulated agents are started in a temporary repository, and the screen is captured
//! from a separate tmux. Nothing in the picture is drawn by hand.

mod ansi;
mod svg;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sexton_workspace::{build, root};

use crate::{Result, test};

const WIDTH: u16 = 106;
const HEIGHT: u16 = 19;

/// How long the screen may take to show what the picture needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The simulated agents, by the command that starts them: each prints what an agent would, and keeps running.
const AGENTS: [(&str, &str); 3] = [
    (
        "claude",
        "echo 'Reading crates/parser/src/lib.rs'; i=0\n\
         while :; do i=$((i + 1)); [ $((i % 60000)) -eq 0 ] && \
         echo \"test parser::nested_generics_$((i / 60000)) ... ok\"; done",
    ),
    (
        "codex",
        "echo 'Plan: split the tokenizer, keep the public API'\n\
         exec awk 'BEGIN { s = \"x\"; while (length(s) < 60000000) s = s s; print \"Editing src/tokenizer.rs (+48 -12)\"; \
         fflush(); while (1) system(\"sleep 1\") }'",
    ),
    (
        "pi",
        "echo '/tf T-103 --auto'; [ \"$1\" = --quick ] && { echo 'All 212 tests pass. Committed 3f9c2ab.'; exit 0; }\n\
         case \"$2\" in *bench*) echo 'cargo bench: 14 of 20 groups done';; *) echo 'Renaming 31 fixtures';; esac\n\
         exec sleep 600",
    ),
];

/// A session of the picture.
struct SessionSpec {
    name: &'static str,
    ticket: &'static str,
    /// Whether it works in a worktree.
    in_worktree: bool,
    command: &'static [&'static str],
}

const fn session(name: &'static str, ticket: &'static str, command: &'static [&'static str]) -> SessionSpec {
    SessionSpec { name, ticket, in_worktree: true, command }
}

/// One that succeeds, and one whose owner is killed.
const ENDED: SessionSpec = SessionSpec {
    in_worktree: false,
    ..session("changelog", "T-100", &["pi", "--quick", "write the changelog"])
};
const ORPHANED: SessionSpec = session("nightly", "T-99", &["pi", "-p", "tidy the fixtures"]);

/// The running ones, the oldest first.
const WORKING: [SessionSpec; 3] = [
    session("bench", "T-103", &["pi", "-p", "make the benchmarks honest"]),
    session("tokenizer", "T-102", &["codex", "exec", "split the tokenizer"]),
    session("parser", "T-101", &["claude", "-p", "fix the flaky parser tests"]),
];

/// Between the first sessions and the last, so that their ages differ.
const PAUSE: Duration = Duration::from_secs(65);

/// Takes the picture.
pub(crate) fn take() -> Result {
    test::require_tools()?;
    let built = build(&["build", "--package", "sexton", "--bin", "sexton"])?;
    let sexton = built.into_iter().find(|program| program.name == "sexton").ok_or("cargo built no sexton")?;
    let stage = Stage::set(&sexton.path)?;
    let screen = stage.show()?;
    let picture =
        svg::render(&ansi::parse(&screen), usize::from(WIDTH), usize::from(HEIGHT), "sexton top -a");
    let path = root().join("docs/images/top.svg");
    fs::create_dir_all(path.parent().expect("it lies below docs"))?;
    fs::write(path, picture)?;
    Ok(())
}

/// The environment in which the picture is taken. Dropping it stops everything that was started.
struct Stage {
    folder: tempfile::TempDir,
    sexton: PathBuf,
}

impl Stage {
    fn set(sexton: &Path) -> Result<Stage> {
        let stage = Stage { folder: tempfile::tempdir()?, sexton: sexton.to_owned() };
        let (bin, project) = (stage.path("bin"), stage.path("project"));
        fs::create_dir(&bin)?;
        fs::create_dir(&project)?;
        for (name, script) in AGENTS {
            fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n"))?;
            fs::set_permissions(bin.join(name), Permissions::from_mode(0o755))?;
        }
        std::os::unix::fs::symlink(sexton, bin.join("sexton"))?;
        fs::write(project.join("README.md"), "A project.\n")?;
        for arguments in [
            ["init", "--quiet", "--initial-branch=main"].as_slice(),
            &["add", "--all"],
            &["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "--message=begin"],
        ] {
            stage.run("git", arguments)?;
        }
        stage.start(&ENDED, &[])?;
        let mut owner = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn()?;
        let started = stage.start(&ORPHANED, &["--owner-pid", &owner.id().to_string()]);
        owner.kill()?;
        owner.wait()?;
        started?;
        stage.run("sexton", &["recover"])?;
        stage.start(&WORKING[0], &[])?;
        std::thread::sleep(PAUSE);
        for working in &WORKING[1..] {
            stage.start(working, &[])?;
        }
        Ok(stage)
    }

    fn start(&self, session: &SessionSpec, options: &[&str]) -> Result {
        let mut arguments = vec!["run", "-d", "--name", session.name, "--ticket", session.ticket];
        arguments.extend(options);
        arguments.extend(session.in_worktree.then_some("--worktree"));
        arguments.push("--");
        arguments.extend(session.command);
        self.run("sexton", &arguments)?;
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a command in the project, without the user's configuration.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.current_dir(self.path("project")).stdin(Stdio::null());
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("HOME", self.folder.path());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
        let others =
            ["TMUX", "NO_COLOR", "SEXTON_STATE_DIR", "SEXTON_STORE", "SEXTON_PROBE", "SEXTON_SESSION_ID"];
        for name in others.into_iter().chain(["XDG_STATE_HOME", "XDG_CONFIG_HOME"]) {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let program =
            if program == "sexton" { self.sexton.display().to_string() } else { program.to_owned() };
        let output = self.command(&program).args(arguments).output()?;
        if !output.status.success() {
            return Err(
                format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into()
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        let socket = self.path("tmux").display().to_string();
        self.run("tmux", &[&["-u", "-f", "/dev/null", "-S", &socket], arguments].concat())
    }

    /// Returns the screen of the live view, with colours, when it shows the usage of every session.
    fn show(&self) -> Result<String> {
        let (width, height) = (WIDTH.to_string(), HEIGHT.to_string());
        self.tmux(&["new-session", "-d", "-x", &width, "-y", &height, "sexton", "top", "-a"])?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let plain = self.tmux(&["capture-pane", "-p"])?;
            if plain.matches('%').count() >= 3 && plain.contains("ok") && plain.contains("Editing") {
                return self.tmux(&["capture-pane", "-p", "-e", "-N"]);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err("the live view never showed its figures".into())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // These fail if nothing was started, which is harmless.
        let _ = self.tmux(&["kill-server"]);
        let _ = self.run("sexton", &["stop", "--all", "--force"]);
    }
}
