//! What this program does when a case starts it as another process.

use std::io::{Read, Write};
use std::process::ExitCode;

/// Names the role.
pub const VARIABLE: &str = "SEXTON_TEST_ROLE";

/// Plays the role that the environment assigns; `None` where this is the test program itself.
pub fn play_assigned() -> Option<ExitCode> {
    match std::env::var(VARIABLE).ok()?.as_str() {
        "leaderless" => leave_the_other_threads_alone(),
        "private" => keep_to_itself(),
        "parent of a private one" => have_a_private_child(),
        "few files" => super::crowds::end_a_crowd_with_few_files(),
        "reuse" => super::reuse::reuse_pids(),
        "foreign record" => super::namespaces::judge_a_foreign_record(),
        "foreign proc" => super::namespaces::open_under_a_foreign_proc(),
        role => panic!("nobody knows the role `{role}`"),
    }
    Some(ExitCode::SUCCESS)
}

/// Says that everything is as it should be.
pub fn say_ready() {
    let mut stdout = std::io::stdout();
    stdout.write_all(b"ready\n").and_then(|()| stdout.flush()).expect("somebody listens");
}

/// Ends the first thread; another one goes on. Such a process is listed as a zombie, and is none.
#[allow(unsafe_code)]
fn leave_the_other_threads_alone() {
    std::thread::spawn(|| {
        let stat = || std::fs::read_to_string("/proc/self/stat").unwrap();
        while !stat().contains(") Z ") {
            std::thread::yield_now();
        }
        say_ready();
        std::thread::sleep(std::time::Duration::from_secs(600));
        std::process::abort();
    });
    // SAFETY: ends this thread alone and returns to nobody; the other one uses nothing of its stack.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Lets nobody look: not at its environment, nor at its directory. Ends with whoever holds its input.
fn keep_to_itself() {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).unwrap();
    say_ready();
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Has a child that lets nobody look.
fn have_a_private_child() {
    let mut child = super::play::role("private").spawn().unwrap();
    child.wait().unwrap();
}
