//! The live view on a real terminal: keys in, screens out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use support::tmux::Terminal;
use support::{Yard, eventually, is_running, processes_with, program, send_signal};

fn yard() -> Yard {
    Yard::new().with_settings("contain = \"tree\"\nstop.grace = \"2s\"\n")
}

fn terminal(yard: &Yard, width: u16, height: u16) -> Terminal {
    Terminal::open(yard.path(), width, height, |command| yard.enclose(command))
}

/// Starts the view and waits until it is there.
fn watch(terminal: &Terminal, arguments: &str) {
    terminal.type_line(&format!("clear; {} top {arguments}", program()));
    terminal.wait_for("q quit");
}

/// Leaves the view, and waits until the shell asks for more.
fn leave(terminal: &Terminal) {
    terminal.press(&["q"]);
    terminal.wait_until("the shell is back", |screen| screen.trim_end().ends_with('$'));
}

/// A session that writes `first`, and a line for whatever is put into its file.
fn start_agent(yard: &Yard, name: &str, first: &str) -> (String, PathBuf) {
    let feed = yard.path().join(format!("feed-{name}"));
    assert!(Command::new("mkfifo").arg(&feed).status().unwrap().success());
    let script = format!("echo {first}; while :; do cat {}; done", feed.display());
    let id = yard.ok(&["run", "-d", "--name", name, "--ticket", "T-7", "--", "sh", "-c", &script]);
    (id, feed)
}

#[test]
fn sessions_are_filtered_followed_and_stopped() {
    let yard = yard();
    let (parser, feed) = start_agent(&yard, "parser", "compiling");
    let (docs, _) = start_agent(&yard, "docs", "writing");
    let terminal = terminal(&yard, 80, 24);
    watch(&terminal, "");
    let screen = terminal.wait_until("both are shown with what they use", |screen| {
        screen.contains("compiling") && screen.contains("writing") && screen.contains('%')
    });
    assert!(screen.contains("2 running") && screen.contains("MEMORY"), "{screen}");

    // What is written is shown as it comes.
    std::fs::write(&feed, "linking\n").unwrap();
    terminal.wait_for("linking");

    // A filter.
    terminal.press(&["/", "p", "a", "r", "s", "Enter"]);
    let screen = terminal.wait_until("only one is shown", |screen| !screen.contains("writing"));
    assert!(screen.contains("linking") && screen.contains("1 shown"), "{screen}");

    // Its output, as it comes.
    terminal.press(&["Enter"]);
    let screen = terminal.wait_for("output of parser");
    assert!(screen.contains("compiling\nlinking"), "{screen}");
    std::fs::write(&feed, "\x1b[31mdone\n").unwrap();
    terminal.wait_for("done");
    std::fs::write(&feed, "continue? ").unwrap();
    terminal.wait_for("continue?");
    terminal.press(&["Escape"]);
    terminal.wait_for("q quit");

    // It is asked before anything is stopped.
    terminal.press(&["s"]);
    terminal.wait_for("Stop parser?");
    terminal.press(&["n"]);
    terminal.wait_for("q quit");
    assert_eq!(yard.record(&parser)["status"], "running");
    terminal.press(&["s"]);
    terminal.wait_for("Stop parser?");
    terminal.press(&["y"]);
    terminal.wait_for("parser is stopped");
    assert_eq!(yard.record(&parser)["status"], "stopped");
    assert_eq!(yard.record(&docs)["status"], "running", "nobody asked for that one");

    // Finished ones too.
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
fn a_session_that_starts_later_is_seen_even_where_there_was_no_store() {
    let yard = yard();
    let terminal = terminal(&yard, 80, 24);
    watch(&terminal, "");
    terminal.wait_for("no session is running");
    assert!(!yard.state_dir().exists(), "looking makes nothing");
    start_agent(&yard, "late", "here I am");
    terminal.wait_for("here I am");
}

#[test]
fn it_fits_whatever_size_the_terminal_gets() {
    let yard = yard();
    start_agent(&yard, "parser", "compiling");
    let terminal = terminal(&yard, 80, 24);
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

/// The pid of the view in this yard.
fn view_pid(yard: &Yard) -> u64 {
    let mark = format!("SEXTON_STATE_DIR={}", yard.state_dir().display());
    let is_view = |pid: &u64| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"top")
    };
    let views: Vec<_> = processes_with(&mark).into_iter().filter(is_view).collect();
    assert_eq!(views.len(), 1, "one view runs");
    views[0]
}

#[test]
fn a_signal_gives_the_terminal_back() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let yard = yard();
        let terminal = terminal(&yard, 80, 24);
        watch(&terminal, "");
        let view = view_pid(&yard);
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
fn it_can_be_suspended_and_brought_back() {
    let yard = yard();
    let terminal = terminal(&yard, 80, 24);
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
fn the_work_that_was_rescued_is_shown() {
    let yard = yard();
    support::repository::Repository::in_work_dir(&yard);
    let script = "echo new > added; echo more >> tracked; exec sleep 600";
    let id = yard.ok(&["run", "-d", "-w", "--name", "worker", "--", "sh", "-c", script]);
    let tree = PathBuf::from(yard.record(&id)["worktree"]["path"].as_str().unwrap());
    eventually("the work is there", || {
        std::fs::read_to_string(tree.join("tracked")).is_ok_and(|text| text.contains("more"))
    });
    yard.ok(&["stop", "--force", "worker"]);
    yard.ok(&["worktree", "rm", "worker"]);
    let terminal = terminal(&yard, 80, 24);
    watch(&terminal, "-a");
    terminal.wait_for("worker");
    terminal.press(&["r"]);
    let screen = terminal.wait_for("rescue of worker");
    assert!(screen.contains("A  added") && screen.contains("M  tracked"), "{screen}");
    assert!(screen.contains(&format!("sexton rescue restore {id}")), "{screen}");
}

#[test]
fn nothing_on_the_disk_is_read_while_nothing_changes() {
    let yard = yard();
    start_agent(&yard, "idle", "waiting");
    let terminal = terminal(&yard, 80, 24);
    let trace = yard.path().join("trace");
    let calls = "--trace=open,openat,openat2,newfstatat,statx,stat,read,pread64,readlink,readlinkat";
    terminal.type_line(&format!("clear; strace -f -y -s 0 {calls} -o {} {} top", trace.display(), program()));
    terminal.wait_for("q quit");
    terminal.wait_until("it was measured", |screen| screen.contains('%'));
    let told = || std::fs::read_to_string(&trace).unwrap();
    // Every look at the processes reads the session's own.
    let pid = yard.json(&["ps"])[0]["process"]["pid"].to_string();
    let looks = |text: &str| text.matches(&format!("{pid}/stat")).count();
    let begun = told().len();
    eventually("it looked at the processes thrice more", || looks(&told()[begun..]) >= 3 * 2);
    let text = told();
    let touched: Vec<_> =
        text[begun..].lines().filter(|line| line.contains(&yard.state_dir().display().to_string())).collect();
    assert!(touched.is_empty(), "{touched:#?}");
}

#[test]
fn colour_is_only_where_it_is_wanted() {
    let yard = yard();
    start_agent(&yard, "parser", "compiling");
    let terminal = terminal(&yard, 80, 24);
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
    assert!(screen.contains(";7m"), "the chosen row is still seen: {screen:?}");
}

#[test]
fn without_a_terminal_it_says_what_to_do_instead() {
    let yard = yard();
    let ran = yard.sexton(&["top"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.contains("terminal") && ran.stderr.contains("hint: `sexton ps --watch`"),
        "{}",
        ran.stderr
    );
    assert!(!yard.state_dir().exists());
}
