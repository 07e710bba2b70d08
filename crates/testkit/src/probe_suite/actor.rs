//! The processes of a case. The re-executed test binary performs a list of acts and then waits until standard input
//! closes. There is no shell and no `fork` without an exec: every process executes a program, like those of an agent.
//!
//! | act | what the process does |
//! |---|---|
//! | `say LABEL` | prints its label and pid |
//! | `fork` | starts a child that performs the remaining acts, and waits |
//! | `leave` | starts a child that performs the remaining acts, and exits |
//! | `outlast PID` | waits until its parent, PID, has exited; the child of `leave` does that first |
//! | `setsid` | creates a new session, like a daemon |
//! | `forget` | executes itself again without the cookie |
//! | `carry ID` | executes itself again with another session's cookie |
//! | `limit N` | sets its soft and hard limit of file locks |
//! | `ignore N` | ignores signal N |
//! | `chdir DIR` | changes its working directory |
//! | `name TEXT` | changes its name |
//! | `adopt` | becomes the parent of its orphaned descendants |
//! | `stop` | stops itself |
//! | `burn MS` | uses that much processor time |
//! | `hold MIB` | holds that much memory |
//! | `respawn` | on SIGINT, starts a child that performs the remaining acts, and exits |
//! | `chain` | starts a successor that does the same, and exits |

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use sexton_core::probe::COOKIE;
use signal_hook::consts::SIGINT;

use crate::role::{command_in_session, print_line, wait_for_stdin_close};

/// The role of a process that performs acts.
pub(super) const ACTOR: &str = "probe-actor";

/// Performs `acts` in this process.
pub(super) fn perform(acts: &[OsString]) {
    let mut acts = acts.iter();
    let mut stays = true;
    while let Some(act) = acts.next() {
        let mut operand = || acts.next().expect("an act with an operand");
        match act.to_str().expect("a plain act") {
            "say" => announce(&operand().to_string_lossy()),
            "setsid" => drop(rustix::process::setsid().expect("it is not a process group leader")),
            "ignore" => ignore(operand().to_str().and_then(|number| number.parse().ok()).expect("a signal")),
            "chdir" => std::env::set_current_dir(Path::new(operand())).expect("the directory exists"),
            "name" => rename(operand()),
            "limit" => limit_locks(number(operand())),
            "adopt" => adopt(),
            "stop" => stop(),
            "burn" => burn(number(operand())),
            "hold" => hold(number(operand())),
            "carry" => {
                let cookie = operand().clone();
                execute(again(acts.as_slice()).env(COOKIE, cookie));
            }
            "forget" => execute(again(acts.as_slice()).env_remove(COOKIE)),
            "fork" => {
                start(acts.as_slice());
                break;
            }
            "leave" => {
                let own = std::process::id().to_string();
                start(&[&["outlast".into(), own.into()], acts.as_slice()].concat());
                stays = false;
                break;
            }
            "outlast" => outlast(operand().to_str().and_then(|pid| pid.parse().ok()).expect("a pid")),
            "chain" => return chain(),
            "respawn" => return respawn(acts.as_slice()),
            other => panic!("unknown act `{other}`"),
        }
    }
    if stays {
        wait_for_stdin_close();
    }
}

fn number(operand: &OsString) -> u64 {
    operand.to_str().and_then(|number| number.parse().ok()).expect("a number")
}

fn burn(milliseconds: u64) {
    let used = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
    };
    while used() < Duration::from_millis(milliseconds) {
        std::hint::spin_loop();
    }
}

fn hold(mebibytes: u64) {
    let bytes = usize::try_from(mebibytes << 20).expect("it fits into memory");
    // Written, so that the kernel allocates it; leaked, so that it stays allocated.
    std::mem::forget(std::hint::black_box(vec![1_u8; bytes]));
}

fn announce(label: &str) {
    print_line(format!("{label} {}", std::process::id()));
}

/// Returns the command that performs `acts` in another process of the same session.
fn again(acts: &[OsString]) -> Command {
    let mut command = command_in_session(ACTOR);
    command.args(acts);
    command
}

fn start(acts: &[OsString]) {
    // The child is deliberately not waited for: cases need zombies and orphans.
    drop(again(acts).spawn().expect("a process can be started"));
}

/// Waits until this process is an orphan, so that it performs the following acts as one.
fn outlast(parent: i32) {
    while rustix::process::getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn execute(command: &mut Command) {
    let error = command.exec();
    panic!("cannot execute the test binary again: {error}");
}

fn ignore(signal: i32) {
    signal_hook::flag::register(signal, Arc::default()).expect("the signal can be caught");
}

fn rename(name: &OsString) {
    let name = CString::new(name.as_bytes()).expect("a name has no NUL");
    rustix::thread::set_name(&name).expect("a process can be renamed");
}

/// Sets the limit of file locks, which only Linux has.
fn limit_locks(limit: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
        setrlimit(Resource::Locks, limit).expect("a limit can be lowered");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = limit;
}

fn adopt() {
    let any = rustix::process::Pid::INIT;
    rustix::process::set_child_subreaper(Some(any)).expect("a process can adopt its descendants");
}

fn stop() {
    rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)
        .expect("a process can stop itself");
}

/// Waits for SIGINT or the end of standard input. Starts a successor in the first case.
fn respawn(acts: &[OsString]) {
    let (receiver, sender) = UnixStream::pair().expect("a pair of sockets");
    signal_hook::low_level::pipe::register(SIGINT, sender).expect("the signal can be caught");
    announce("ready");
    let stdin = io::stdin();
    let mut either = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&receiver, PollFlags::IN)];
    while let Err(Errno::INTR) = poll(&mut either, None) {}
    if either[1].revents().contains(PollFlags::IN) {
        start(acts);
    }
}

fn chain() {
    if !is_stdin_open() {
        return;
    }
    start(&["chain".into()]);
}

/// Returns whether standard input is still open. A process of a chain exits too soon to wait for that.
fn is_stdin_open() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready == 0)
}
