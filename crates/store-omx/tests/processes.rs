//! Other processes: killed at every system call, stopped with the lock in their hands, fifty at once, and
//! without the right to write. This test starts itself again for each of them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, SystemTime};

use libtest_mimic::{Arguments, Trial};
use pollster::block_on;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use serde_json::json;
use sexton_core::Query;
use sexton_core::resume::{LOCK, Reason};
use sexton_core::store::{Access, Durability, LockName};

mod support;
use support::{Yard, agent, driving, open, resume_in};

/// Names what a process of this test is to do, with which directory.
const ROLE: &str = "SEXTON_TEST_ROLE";
/// How long anything is waited for that is to happen.
const LIMIT: Duration = Duration::from_secs(60);
/// How long is waited for what is not to happen.
const SHORT: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        play(&role, Path::new(&arguments[0]), &arguments[1..]);
        return ExitCode::SUCCESS;
    }
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial("i6_a_transfer_killed_at_any_system_call_leaves_one_owner", killed_at_any_call),
        trial("fifty_in_one_session_resume_once", fifty_in_one_session),
        trial("fifty_in_fifty_sessions_leave_one_owner", fifty_in_fifty_sessions),
        trial("a_lock_held_by_a_stopped_process_is_a_timeout_and_changes_nothing", stopped_holder),
        trial("the_lock_of_a_killed_process_is_broken_at_once", killed_holder),
        trial("a_lock_of_ours_is_judged_by_its_process_and_never_by_its_age", judged_by_process),
        trial("a_lock_of_theirs_is_judged_by_its_age", judged_by_age),
        trial("whoever_lost_the_lock_while_stopped_leaves_the_next_ones_alone", lost_while_stopped),
        trial("a_directory_that_may_not_be_written_is_read_and_nothing_else", read_only_directory),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// What a process does that this test started.
fn play(role: &str, path: &Path, arguments: &[String]) {
    let say =
        |line: &str| writeln!(std::io::stdout(), "{line}").expect("somebody reads what this process says");
    match role {
        "resume" => match open(path, Access::Write, Durability::Power) {
            Ok(store) => {
                let resumption = resume_in(store.as_ref(), &arguments[0], &agent(Some("c"), None), LIMIT);
                say(store.dialect().word(resumption.expect("the store can be written").reason));
            }
            Err(error) => say(&format!("error: {error}")),
        },
        "list" => {
            let store = open(path, Access::Read, Durability::Power).expect("the directory can be read");
            say(&block_on(store.list(&Query::all())).expect("it can be listed").sessions.len().to_string());
        }
        "hold" => {
            let store = open(path, Access::Write, Durability::Process).expect("the store opens");
            let name = LockName::new(LOCK).expect("a plain name");
            let _guard = block_on(store.lock(&name, LIMIT)).expect("the lock is free");
            say("held");
            // Until the leash is let go, or whoever holds it is gone.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        other => panic!("nobody plays {other}"),
    }
}

/// This test in `role`, behind the command `before`.
fn command(before: &[&str], role: &str, path: &Path, arguments: &[&str]) -> Command {
    let this = std::env::current_exe().expect("a process knows its program");
    let mut command = match before {
        [] => Command::new(this),
        [program, rest @ ..] => {
            let mut command = Command::new(program);
            command.args(rest).arg(this);
            command
        }
    };
    command.arg(path).args(arguments).env(ROLE, role);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A loop in `old` that `now` is to take over.
fn before_a_transfer() -> Yard {
    let yard = Yard::new();
    yard.write("old", &driving("c"));
    yard.enter("now");
    yard
}

fn killed_at_any_call() {
    // The calls that change something. To be killed before any other is to be killed before the next of these.
    const CALLS: [&str; 12] = [
        "write",
        "fsync",
        "fdatasync",
        "mkdir",
        "mkdirat",
        "rename",
        "renameat",
        "renameat2",
        "unlink",
        "unlinkat",
        "rmdir",
        "fchmod",
    ];
    let mut killed = 0;
    for call in CALLS {
        for when in 1.. {
            let yard = before_a_transfer();
            let inject = format!("inject={call}:signal=SIGKILL:when={when}");
            let only = format!("trace={call}");
            let strace = ["strace", "-f", "-o", "/dev/null", "-e", &only, "-e", &inject];
            let output =
                command(&strace, "resume", &yard.path(), &["now"]).output().expect("strace is installed");
            require_one_owner(&yard, &inject);
            if output.status.success() {
                break;
            }
            killed += 1;
        }
    }
    assert!(killed > 25, "only {killed} were killed: the test proves too little");
}

/// One owner, to whoever reads now and to their tool after the next call; and nothing is left behind.
fn require_one_owner(yard: &Yard, what: &str) {
    assert!(yard.drivers().len() <= 1, "{what}: two drive the loop: {:?}", yard.drivers());
    let listed = block_on(yard.reader().list(&Query::active_loops())).expect("it can be listed");
    assert_eq!((listed.sessions.len(), listed.damage.len()), (1, 0), "{what}: {listed:?}");
    let seen = listed.sessions[0].id.to_string();
    // To open it is enough: what counts is brought to its end, and what does not is gone.
    drop(yard.writer());
    assert_eq!(yard.drivers(), [seen.as_str()], "{what}: what was read is not what became of it");
    let resumption =
        resume_in(yard.writer().as_ref(), "now", &agent(Some("c"), None), SHORT).expect("it resumes");
    let expected = if seen == "now" { Reason::CurrentLoopActive } else { Reason::Resumed };
    assert_eq!(resumption.reason, expected, "{what}");
    assert_eq!(yard.drivers(), ["now"], "{what}");
    assert_eq!(
        yard.state("old").expect("it is there")["stop_reason"],
        json!("ownership_transferred"),
        "{what}"
    );
    let temporary = fs::read_dir(yard.path().join(".sexton/tmp")).expect("the directory is there");
    assert_eq!(temporary.count(), 0, "{what}: temporary files are left");
    assert!(!yard.path().join(".lock.ralph-session-resume").exists(), "{what}: their lock is left");
    assert!(!yard.path().join(".sexton/intent.json").exists(), "{what}: an intent is left");
}

/// How often each word was said by fifty processes at once, each in the session that `current` gives it.
fn fifty(yard: &Yard, current: impl Fn(usize) -> String) -> Vec<String> {
    let start = |n| {
        let mut command = command(&[], "resume", &yard.path(), &[&current(n)]);
        command.stdout(Stdio::piped()).spawn().expect("a process can be started")
    };
    let started: Vec<Child> = (0..50).map(start).collect();
    let mut words: Vec<String> =
        started.into_iter().map(|child| said(&child.wait_with_output().expect("it ends"))).collect();
    words.sort();
    words
}

fn fifty_in_one_session() {
    let yard = before_a_transfer();
    let words = fifty(&yard, |_| "now".to_owned());
    let count = |word: &str| words.iter().filter(|said| *said == word).count();
    assert_eq!((count("resumed_same_codex_session"), count("current_ralph_active")), (1, 49), "{words:?}");
    assert_eq!(yard.drivers(), ["now"]);
}

fn fifty_in_fifty_sessions() {
    let yard = before_a_transfer();
    (0..50).for_each(|n| yard.enter(&format!("now-{n}")));
    let words = fifty(&yard, |n| format!("now-{n}"));
    // Their tool records no process that could keep its loop: each takes it from the one before.
    assert!(words.iter().all(|word| word == "resumed_same_codex_session"), "{words:?}");
    assert_eq!(yard.drivers().len(), 1, "{:?}", yard.drivers());
    assert_eq!(yard.list().sessions.len(), 51);
}

/// A process that holds the lock. Killed and reaped when it is dropped, also by a panic.
struct Holder(Child);

impl Holder {
    fn start(path: &Path) -> Holder {
        let mut command = command(&[], "hold", path, &[]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be started");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is piped");
        let holder = Holder(child);
        BufReader::new(output).read_line(&mut line).expect("it says something");
        assert_eq!(line.trim(), "held");
        holder
    }

    /// Stops it; it is this process's own child and not reaped, so the pid is its own.
    fn stop(&self) {
        let pid = Pid::from_child(&self.0);
        rustix::process::kill_process(pid, Signal::STOP).expect("a child can be stopped");
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(pid), stopped).expect("a child can be waited for");
    }

    fn go_on(&self) {
        rustix::process::kill_process(Pid::from_child(&self.0), Signal::CONT).expect("a child can go on");
    }

    /// Lets it give the lock back and end.
    fn finish(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("a child can be reaped").success());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn word(yard: &Yard, wait: Duration) -> &'static str {
    let store = yard.writer();
    let resumption =
        resume_in(store.as_ref(), "now", &agent(Some("c"), None), wait).expect("the store works");
    store.dialect().word(resumption.reason)
}

fn stopped_holder() {
    let yard = before_a_transfer();
    let holder = Holder::start(&yard.path());
    holder.stop();
    let before = yard.files();
    assert_eq!(word(&yard, SHORT), "resume_lock_timeout");
    assert_eq!(yard.files(), before);
    holder.go_on();
    holder.finish();
    assert_eq!(word(&yard, LIMIT), "resumed_same_codex_session");
}

fn killed_holder() {
    let yard = before_a_transfer();
    drop(Holder::start(&yard.path()));
    assert!(lock(&yard).exists(), "it had no time to give the lock back");
    assert_eq!(word(&yard, Duration::ZERO), "resumed_same_codex_session");
    assert!(!lock(&yard).exists());
}

fn lock(yard: &Yard) -> std::path::PathBuf {
    yard.path().join(".lock.ralph-session-resume")
}

/// Makes their lock, as if it had been taken `age` ago.
fn leave_lock(yard: &Yard, owner: Option<&[u8]>, age: Duration) {
    fs::create_dir(lock(yard)).expect("the lock is free");
    if let Some(owner) = owner {
        fs::write(lock(yard).join("owner"), owner).expect("a file can be written");
    }
    let directory = fs::File::open(lock(yard)).expect("it is there");
    directory.set_modified(SystemTime::now() - age).expect("its time can be set");
}

fn judged_by_process() {
    let (yard, other) = (before_a_transfer(), Yard::new());
    let holder = Holder::start(&other.path());
    let owner = fs::read(lock(&other).join("owner")).expect("the lock says whose it is");
    leave_lock(&yard, Some(&owner), Duration::from_secs(3600));
    assert_eq!(word(&yard, SHORT), "resume_lock_timeout", "its process lives");
    holder.finish();
    assert_eq!(word(&yard, Duration::ZERO), "resumed_same_codex_session", "its process is gone");
}

fn judged_by_age() {
    let theirs: [Option<&[u8]>; 3] = [Some(b"4242.1768000000000.9f3a"), Some(b"{}"), None];
    for owner in theirs {
        let yard = before_a_transfer();
        leave_lock(&yard, owner, Duration::ZERO);
        assert_eq!(word(&yard, SHORT), "resume_lock_timeout", "{owner:?}");
        fs::remove_dir_all(lock(&yard)).expect("it can be removed");
        leave_lock(&yard, owner, Duration::from_secs(11));
        assert_eq!(word(&yard, Duration::ZERO), "resumed_same_codex_session", "{owner:?}");
    }
}

fn lost_while_stopped() {
    let yard = before_a_transfer();
    let holder = Holder::start(&yard.path());
    holder.stop();
    // What their tool does to a lock of ten seconds, whoever's it is.
    fs::remove_dir_all(lock(&yard)).expect("anybody can");
    leave_lock(&yard, Some(b"4242.1768000000000.9f3a"), Duration::ZERO);
    holder.go_on();
    holder.finish();
    let owner = fs::read(lock(&yard).join("owner")).expect("their lock is still there");
    assert_eq!(owner, b"4242.1768000000000.9f3a");
}

fn read_only_directory() {
    let yard = before_a_transfer();
    let above = yard.path().parent().expect("it lies in a directory").to_owned();
    // Permissions do not stop root, who therefore becomes somebody else; and whoever that is must reach this.
    let program = above.join("program");
    fs::copy(std::env::current_exe().expect("a process knows its program"), &program)
        .expect("it can be copied");
    let everybody = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    for (path, mode) in [(&above, 0o755), (&program, 0o755), (&yard.state_file("old"), 0o444)] {
        everybody(path, mode).expect("the mode can be set");
    }
    let directories = [yard.path(), yard.path().join("sessions"), yard.path().join("sessions/old")];
    directories.iter().for_each(|path| everybody(path, 0o555).expect("the mode can be set"));
    let run = |role: &str, arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.arg(yard.path()).args(arguments).env(ROLE, role).current_dir("/");
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        said(&command.output().expect("it can be started"))
    };
    let before = yard.files();
    assert_eq!(run("list", &[]), "1");
    let refusal = run("resume", &["now"]);
    assert!(refusal.starts_with("error: cannot make ") && refusal.contains(".sexton"), "{refusal}");
    assert_eq!(yard.files(), before);
    assert!(!yard.path().join(".sexton").exists());
    directories.iter().for_each(|path| everybody(path, 0o755).expect("the mode can be set"));
}
