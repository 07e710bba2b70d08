//! What the processes of a case do: a list of acts, performed one after the other by the re-executed
//! test binary, and then waiting for the leash. No shell, and no `fork` without an exec: every process
//! here is a program of its own, as those of an agent are.
//!
//! | act | what the process does |
//! |---|---|
//! | `say LABEL` | tells the case its label and pid |
//! | `fork` | starts a child that performs the remaining acts, and waits |
//! | `leave` | starts a child that performs the remaining acts, and exits |
//! | `outlast PID` | waits until its parent, PID, has gone; `leave` has its child do that first |
//! | `setsid` | begins a session of its own, as a daemon does |
//! | `forget` | executes itself again without the cookie |
//! | `carry ID` | executes itself again with another session's cookie |
//! | `ignore N` | does not end by signal N |
//! | `chdir DIR` | changes its working directory |
//! | `name TEXT` | changes its name |
//! | `adopt` | becomes the parent of its orphaned descendants |
//! | `stop` | stops itself |
//! | `burn MS` | uses that much processor time |
//! | `hold MIB` | holds that much memory |
//! | `bequeath` | when SIGINT comes, starts a child that performs the remaining acts, and exits |
//! | `chain` | starts its successor, which starts its successor, and so on, and exits |

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

use crate::role::{command_within_the_session, say, wait_for_the_leash};

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
            "setsid" => drop(rustix::process::setsid().expect("it leads no process group yet")),
            "ignore" => outlive(operand().to_str().and_then(|number| number.parse().ok()).expect("a signal")),
            "chdir" => std::env::set_current_dir(Path::new(operand())).expect("the directory is there"),
            "name" => rename(operand()),
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
            "bequeath" => return bequeath(acts.as_slice()),
            other => panic!("there is no act `{other}`"),
        }
    }
    if stays {
        wait_for_the_leash();
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
    // Written to, or the kernel would not give it; leaked, so that it stays.
    std::mem::forget(std::hint::black_box(vec![1_u8; bytes]));
}

fn announce(label: &str) {
    say(format!("{label} {}", std::process::id()));
}

/// The command that performs `acts` in another process of the same session.
fn again(acts: &[OsString]) -> Command {
    let mut command = command_within_the_session(ACTOR);
    command.args(acts);
    command
}

fn start(acts: &[OsString]) {
    // Nobody waits for the child on purpose: that it becomes a zombie, or an orphan, is part of the play.
    drop(again(acts).spawn().expect("a process can be started"));
}

/// Waits until this process is an orphan: what it says after that, it says as one.
fn outlast(parent: i32) {
    while rustix::process::getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn execute(command: &mut Command) {
    let error = command.exec();
    panic!("cannot execute the test binary again: {error}");
}

fn outlive(signal: i32) {
    signal_hook::flag::register(signal, Arc::default()).expect("the signal can be caught");
}

fn rename(name: &OsString) {
    let name = CString::new(name.as_bytes()).expect("a name has no NUL");
    rustix::thread::set_name(&name).expect("a process can be renamed");
}

fn adopt() {
    let any = rustix::process::Pid::INIT;
    rustix::process::set_child_subreaper(Some(any)).expect("a process can adopt its descendants");
}

fn stop() {
    rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)
        .expect("a process can stop itself");
}

/// Waits for SIGINT or the end of the leash, and leaves an heir in the first case.
fn bequeath(acts: &[OsString]) {
    let (told, teller) = UnixStream::pair().expect("a pair of sockets");
    signal_hook::low_level::pipe::register(SIGINT, teller).expect("the signal can be caught");
    announce("ready");
    let stdin = io::stdin();
    let mut either = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&told, PollFlags::IN)];
    while let Err(Errno::INTR) = poll(&mut either, None) {}
    if either[1].revents().contains(PollFlags::IN) {
        start(acts);
    }
}

fn chain() {
    if !leash_is_held() {
        return;
    }
    start(&["chain".into()]);
}

/// Whether the leash is still held. A link of a chain lives too shortly to wait for it.
fn leash_is_held() -> bool {
    let stdin = io::stdin();
    let mut leash = [PollFd::new(&stdin, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut leash, Some(&now)).is_ok_and(|ready| ready == 0)
}
