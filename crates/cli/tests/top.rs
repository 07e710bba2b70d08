//! `sexton top` on a real terminal: sends keys and checks the screen.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use support::tmux::Terminal;
use support::{TestEnv, eventually, is_running, processes_with, quoted_program, send_signal};

fn test_env() -> TestEnv {
    TestEnv::new().with_settings("contain = \"tree\"\nstop.grace = \"2s\"\n")
}

fn terminal(test_env: &TestEnv, width: u16, height: u16) -> Terminal {
    Terminal::open(test_env.path(), width, height, |command| test_env.enclose(command))
}

/// Starts the view and waits until it is shown.
fn watch(terminal: &Terminal, arguments: &str) {
    terminal.type_line(&format!("clear; {} top {arguments}", quoted_program()));
    terminal.wait_for("q quit");
}

/// Quits the view, and waits for the shell prompt.
fn leave(terminal: &Terminal) {
    terminal.press(&["q"]);
    terminal.wait_until("the shell is back", |screen| screen.trim_end().ends_with('$'));
}

/// Starts a session that prints `first` and then everything that is written to its FIFO.
fn start_agent(test_env: &TestEnv, name: &str, first: &str) -> (String, PathBuf) {
    let feed = test_env.path().join(format!("feed-{name}"));
    assert!(Command::new("mkfifo").arg(&feed).status().unwrap().success());
    let script = format!("echo {first}; while :; do cat {}; done", feed.display());
    let id = test_env.ok(&["run", "-d", "--name", name, "--ticket", "T-7", "--", "sh", "-c", &script]);
    (id, feed)
}

#[test]
fn sessions_are_filtered_followed_and_stopped() {
    let test_env = test_env();
    let (parser, feed) = start_agent(&test_env, "parser", "compiling");
    let (docs, _) = start_agent(&test_env, "docs", "writing");
    let terminal = terminal(&test_env, 80, 24);
    watch(&terminal, "");
    let screen = terminal.wait_until("both are shown with what they use", |screen| {
        screen.contains("compiling") && screen.contains("writing") && screen.contains('%')
    });
    assert!(screen.contains("2 running") && screen.contains("MEMORY"), "{screen}");

    // New output is shown at once.
    std::fs::write(&feed, "linking\n").unwrap();
    terminal.wait_for("linking");

    // A filter.
    terminal.press(&["/", "p", "a", "r", "s", "Enter"]);
    let screen = terminal.wait_until("only one is shown", |screen| !screen.contains("writing"));
    assert!(screen.contains("linking") && screen.contains("1 shown"), "{screen}");

    // Its output is followed.
    terminal.press(&["Enter"]);
    let screen = terminal.wait_for("output of parser");
    assert!(screen.contains("compiling\nlinking"), "{screen}");
    std::fs::write(&feed, "\x1b[31mdone\n").unwrap();
    terminal.wait_for("done");
    std::fs::write(&feed, "continue? ").unwrap();
    terminal.wait_for("continue?");
    terminal.press(&["Escape"]);
    terminal.wait_for("q quit");

    // A stop needs a confirmation.
    terminal.press(&["s"]);
    terminal.wait_for("Stop parser?");
    terminal.press(&["n"]);
    terminal.wait_for("q quit");
    assert_eq!(test_env.record(&parser)["status"], "running");
    terminal.press(&["s"]);
    terminal.wait_for("Stop parser?");
    terminal.press(&["y"]);
    terminal.wait_for("parser is stopped");
    assert_eq!(test_env.record(&parser)["status"], "stopped");
    assert_eq!(test_env.record(&docs)["status"], "running", "the wrong session was stopped");

    // Finished sessions.
    terminal.press(&["Escape"]);
    terminal.wait_until("the filter is gone", |screen| screen.contains("writing"));
    terminal.press(&["a"]);
    let screen = terminal.wait_until("the stopped one is listed", |screen| screen.contains("1 running of 2"));
    assert!(screen.contains("stopped") && screen.contains("docs"), "{screen}");
    terminal.press(&["?"]);
    terminal.wait_for("this page");
    terminal.press(&["q"]);
    terminal.wait_for("q quit");
    leave(&terminal);
    assert!(!terminal.is_taken_over());
}

#[test]
fn a_new_session_appears_even_if_the_store_did_not_exist() {
    let test_env = test_env();
    let terminal = terminal(&test_env, 80, 24);
    watch(&terminal, "");
    terminal.wait_for("no session is running");
    assert!(!test_env.state_dir().exists(), "the view created the state directory");
    start_agent(&test_env, "late", "here I am");
    terminal.wait_for("here I am");
}

#[test]
fn the_view_adapts_to_the_size_of_the_terminal() {
    let test_env = test_env();
    start_agent(&test_env, "parser", "compiling");
    let terminal = terminal(&test_env, 80, 24);
    watch(&terminal, "");
    let narrow = terminal.wait_for("compiling");
    assert!(!narrow.contains("COMMAND"), "{narrow}");
    terminal.resize(200, 60);
    let wide = terminal.wait_until("all of it is drawn", |screen| {
        screen.contains("COMMAND") && screen.lines().nth(59).is_some_and(|line| line.contains("q quit"))
    });
    assert!(wide.contains("PROCS") && wide.contains("T-7"), "{wide}");
    terminal.resize(40, 10);
    terminal.wait_until("it is narrow", |screen| !screen.contains("COMMAND") && screen.contains("parser"));
}

/// Returns the pid of the view in this test environment.
fn view_pid(test_env: &TestEnv) -> u64 {
    let mark = format!("SEXTON_STATE_DIR={}", test_env.state_dir().display());
    let is_view = |pid: &u64| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"top")
    };
    let views: Vec<_> = processes_with(&mark).into_iter().filter(is_view).collect();
    assert_eq!(views.len(), 1, "exactly one view must run");
    views[0]
}

#[test]
fn a_signal_restores_the_terminal() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let test_env = test_env();
        let terminal = terminal(&test_env, 80, 24);
        watch(&terminal, "");
        let view = view_pid(&test_env);
        send_signal(view, signal);
        eventually("the view ends", || !is_running(view));
        terminal.type_line("echo code $?; stty -a | grep -ow -e -echo -e -icanon; echo looked");
        let screen = terminal.wait_until("the shell answers", |screen| screen.contains("\nlooked"));
        assert!(screen.contains(&format!("\ncode {code}")), "{screen}");
        assert!(!screen.contains("\n-echo") && !screen.contains("\n-icanon"), "{screen}");
        assert!(!terminal.is_taken_over());
    }
}

#[test]
fn the_view_can_be_suspended_and_resumed() {
    let test_env = test_env();
    let terminal = terminal(&test_env, 80, 24);
    watch(&terminal, "");
    for _ in 0..2 {
        terminal.press(&["C-z"]);
        terminal.wait_for("Stopped");
        assert!(!terminal.is_taken_over());
        terminal.type_line("clear; stty -a | grep -c -w -e -echo; fg");
        terminal.wait_for("q quit");
        assert!(terminal.is_taken_over());
    }
    leave(&terminal);
}

#[test]
#[cfg(feature = "worktree-git")]
fn rescued_work_is_shown() {
    let test_env = test_env();
    support::repository::Repository::in_work_dir(&test_env);
    let script = "echo new > added; echo more >> tracked; exec sleep 600";
    let id = test_env.ok(&["run", "-d", "-w", "--name", "worker", "--", "sh", "-c", script]);
    let tree = PathBuf::from(test_env.record(&id)["worktree"]["path"].as_str().unwrap());
    eventually("the work is there", || {
        std::fs::read_to_string(tree.join("tracked")).is_ok_and(|text| text.contains("more"))
    });
    test_env.ok(&["stop", "--force", "worker"]);
    test_env.ok(&["worktree", "rm", "worker"]);
    let terminal = terminal(&test_env, 80, 24);
    watch(&terminal, "-a");
    terminal.wait_for("worker");
    terminal.press(&["r"]);
    let screen = terminal.wait_for("rescue of worker");
    assert!(screen.contains("A  added") && screen.contains("M  tracked"), "{screen}");
    assert!(screen.contains(&format!("sexton rescue restore {id}")), "{screen}");
}

/// The kernel reports changes only to a process that has an inotify instance. Without one, the view reads again.
#[test]
fn the_state_directory_is_not_read_while_nothing_changes() {
    let test_env = test_env();
    let is_notified = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::empty()).is_ok();
    start_agent(&test_env, "idle", "waiting");
    let terminal = terminal(&test_env, 80, 24);
    let trace = test_env.path().join("trace");
    let calls = "--trace=open,openat,openat2,newfstatat,statx,stat,read,pread64,readlink,readlinkat";
    terminal.type_line(&format!(
        "clear; strace -f -y -s 0 {calls} -o {} {} top",
        trace.display(),
        quoted_program()
    ));
    terminal.wait_for("q quit");
    terminal.wait_until("a measurement is shown", |screen| screen.contains('%'));
    let traced = || std::fs::read_to_string(&trace).unwrap();
    // Every measurement reads the stat file of the session's process.
    let pid = test_env.json(&["ps"])[0]["process"]["pid"].to_string();
    let reads = |text: &str| text.matches(&format!("{pid}/stat")).count();
    let begun = traced().len();
    eventually("three more measurements are done", || reads(&traced()[begun..]) >= 3 * 2);
    let text = traced();
    let accesses: Vec<_> = text[begun..]
        .lines()
        .filter(|line| line.contains(&test_env.state_dir().display().to_string()))
        .collect();
    assert_eq!(accesses.is_empty(), is_notified, "{accesses:#?}");
}

#[test]
fn no_color_disables_colours() {
    let test_env = test_env();
    start_agent(&test_env, "parser", "compiling");
    let terminal = terminal(&test_env, 80, 24);
    watch(&terminal, "");
    terminal.wait_for("compiling");
    let cyan = ["\x1b[36m", "38;5;6m"];
    let screen = terminal.coloured();
    assert!(cyan.iter().any(|code| screen.contains(code)), "{screen:?}");
    leave(&terminal);
    terminal.type_line("export NO_COLOR=1");
    watch(&terminal, "");
    terminal.wait_for("compiling");
    let screen = terminal.coloured();
    assert!(!cyan.iter().any(|code| screen.contains(code)), "{screen:?}");
    assert!(screen.contains(";7m"), "the selected row is not highlighted: {screen:?}");
}

#[test]
fn without_a_terminal_an_alternative_is_suggested() {
    let test_env = test_env();
    let ran = test_env.sexton(&["top"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.contains("terminal") && ran.stderr.contains("hint: `sexton ps --watch`"),
        "{}",
        ran.stderr
    );
    assert!(!test_env.state_dir().exists());
}
