//! What this program does when a case starts it as another process.

use std::io::{Read, Write};
use std::process::ExitCode;

/// Names the role.
pub const VARIABLE: &str = "SEXTON_TEST_ROLE";

/// Runs the role that the environment assigns; returns `None` in the test program itself.
pub fn run_assigned() -> Option<ExitCode> {
    match std::env::var(VARIABLE).ok()?.as_str() {
        "leaderless" => exit_leader_thread(),
        "private" => become_unreadable(),
        "parent of a private one" => start_unreadable_child(),
        "private and marked" => become_unreadable_with_a_mark(),
        "hiding proc" => super::privacy::hide_processes(),
        "ordinary user with a hidden child" => super::privacy::end_a_hidden_child(),
        "few files" => super::crowds::end_a_crowd_with_few_files(),
        "reuse" => super::reuse::reuse_pids(),
        "foreign record" => super::namespaces::judge_a_foreign_record(),
        "foreign proc" => super::namespaces::open_under_a_foreign_proc(),
        role => panic!("unknown role `{role}`"),
    }
    Some(ExitCode::SUCCESS)
}

/// Prints that the process is ready.
pub fn print_ready() {
    let mut stdout = std::io::stdout();
    stdout.write_all(b"ready\n").and_then(|()| stdout.flush()).expect("the output is read");
}

/// Ends the first thread while another one continues. Such a process is listed as a zombie but is alive.
#[allow(unsafe_code)]
fn exit_leader_thread() {
    std::thread::spawn(|| {
        let stat = || std::fs::read_to_string("/proc/self/stat").unwrap();
        while !stat().contains(") Z ") {
            std::thread::yield_now();
        }
        print_ready();
        std::thread::sleep(std::time::Duration::from_secs(600));
        std::process::abort();
    });
    // SAFETY: ends only this thread and does not return; the other thread uses nothing of its stack.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Makes its environment and directory unreadable. Exits when its standard input is closed.
fn become_unreadable() {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).unwrap();
    print_ready();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn become_unreadable_with_a_mark() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let mark = std::env::var(super::privacy::MARK).unwrap().parse().ok();
    setrlimit(Resource::Locks, Rlimit { current: mark, maximum: mark }).unwrap();
    become_unreadable();
}

/// Starts an unreadable child.
fn start_unreadable_child() {
    let mut child = super::play::role("private").spawn().unwrap();
    child.wait().unwrap();
}
