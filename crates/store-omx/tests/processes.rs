//! Other processes: killed at every system call, stopped while holding the lock, fifty at once, and without
//! write permission. This test executes itself for each of them.

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
use support::{TestEnv, agent, driving, open, resume_in};

/// The variable that names the role of a child process of this test.
const ROLE: &str = "SEXTON_TEST_ROLE";
/// The timeout for events that must happen.
const LIMIT: Duration = Duration::from_secs(60);
/// The wait for events that must not happen.
const SHORT: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        run_role(&role, Path::new(&arguments[0]), &arguments[1..]);
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
        trial("a_stopped_lock_holder_causes_a_timeout_and_no_change", stopped_holder),
        trial("the_lock_of_a_killed_process_is_broken_at_once", killed_holder),
        trial("a_lock_of_sexton_is_judged_by_its_process_and_not_its_age", judged_by_process),
        trial("a_lock_of_oh_my_codex_is_judged_by_its_age", judged_by_age),
        trial("a_lock_broken_while_its_holder_was_stopped_is_not_removed_by_it", lost_while_stopped),
        trial("a_read_only_directory_is_read_and_not_written", read_only_directory),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Runs the child process in `role`.
fn run_role(role: &str, path: &Path, arguments: &[String]) {
    let print_line = |line: &str| writeln!(std::io::stdout(), "{line}").expect("stdout is open");
    match role {
        "resume" => match open(path, Access::Write, Durability::Power) {
            Ok(store) => {
                let resumption = resume_in(store.as_ref(), &arguments[0], &agent(Some("c"), None), LIMIT);
                print_line(store.dialect().word(resumption.expect("the store can be written").reason));
            }
            Err(error) => print_line(&format!("error: {error}")),
        },
        "list" => {
            let store = open(path, Access::Read, Durability::Power).expect("the directory can be read");
            print_line(
                &block_on(store.list(&Query::all())).expect("it can be listed").sessions.len().to_string(),
            );
        }
        "hold" => {
            let store = open(path, Access::Write, Durability::Process).expect("the store opens");
            let name = LockName::new(LOCK).expect("a plain name");
            let _guard = block_on(store.lock(&name, LIMIT)).expect("the lock is free");
            print_line("held");
            // Until stdin is closed, or the parent exits.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        other => panic!("unknown role {other}"),
    }
}

/// Returns the command that runs this test in `role`, prefixed with `before`.
fn command(before: &[&str], role: &str, path: &Path, arguments: &[&str]) -> Command {
    let this = std::env::current_exe().expect("the path of this executable is known");
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

fn stdout_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns a loop in `old` that `now` is to take over.
fn before_a_transfer() -> TestEnv {
    let test_env = TestEnv::new();
    test_env.write("old", &driving("c"));
    test_env.enter("now");
    test_env
}

fn killed_at_any_call() {
    // The calls that change something. A kill before any other call equals a kill before the next of these.
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
            let test_env = before_a_transfer();
            let inject = format!("inject={call}:signal=SIGKILL:when={when}");
            let only = format!("trace={call}");
            let strace = ["strace", "-f", "-o", "/dev/null", "-e", &only, "-e", &inject];
            let output =
                command(&strace, "resume", &test_env.path(), &["now"]).output().expect("strace is installed");
            require_one_owner(&test_env, &inject);
            if output.status.success() {
                break;
            }
            killed += 1;
        }
    }
    assert!(killed > 25, "only {killed} were killed: the test proves too little");
}

/// Asserts that there is one owner, for readers now and for oh-my-codex after the next call, and no
/// leftovers.
fn require_one_owner(test_env: &TestEnv, what: &str) {
    assert!(test_env.drivers().len() <= 1, "{what}: two drive the loop: {:?}", test_env.drivers());
    let listed = block_on(test_env.reader().list(&Query::active_loops())).expect("it can be listed");
    assert_eq!((listed.sessions.len(), listed.damage.len()), (1, 0), "{what}: {listed:?}");
    let seen = listed.sessions[0].id.to_string();
    // Opening is enough: a counted batch is completed, and leftovers are removed.
    drop(test_env.writer());
    assert_eq!(test_env.drivers(), [seen.as_str()], "{what}: the reader and the completed files disagree");
    let resumption =
        resume_in(test_env.writer().as_ref(), "now", &agent(Some("c"), None), SHORT).expect("it resumes");
    let expected = if seen == "now" { Reason::CurrentLoopActive } else { Reason::Resumed };
    assert_eq!(resumption.reason, expected, "{what}");
    assert_eq!(test_env.drivers(), ["now"], "{what}");
    assert_eq!(
        test_env.state("old").expect("it is there")["stop_reason"],
        json!("ownership_transferred"),
        "{what}"
    );
    let temporary = fs::read_dir(test_env.path().join(".sexton/tmp")).expect("the directory is there");
    assert_eq!(temporary.count(), 0, "{what}: temporary files are left");
    assert!(!test_env.path().join(".lock.ralph-session-resume").exists(), "{what}: the lock is left");
    assert!(!test_env.path().join(".sexton/intent.json").exists(), "{what}: an intent is left");
}

/// Returns the sorted output of fifty concurrent processes, each in the session that `current` returns for
/// it.
fn fifty(test_env: &TestEnv, current: impl Fn(usize) -> String) -> Vec<String> {
    let start = |n| {
        let mut command = command(&[], "resume", &test_env.path(), &[&current(n)]);
        command.stdout(Stdio::piped()).spawn().expect("a process can be started")
    };
    let started: Vec<Child> = (0..50).map(start).collect();
    let mut words: Vec<String> =
        started.into_iter().map(|child| stdout_of(&child.wait_with_output().expect("it ends"))).collect();
    words.sort();
    words
}

fn fifty_in_one_session() {
    let test_env = before_a_transfer();
    let words = fifty(&test_env, |_| "now".to_owned());
    let count = |word: &str| words.iter().filter(|one| *one == word).count();
    assert_eq!((count("resumed_same_codex_session"), count("current_ralph_active")), (1, 49), "{words:?}");
    assert_eq!(test_env.drivers(), ["now"]);
}

fn fifty_in_fifty_sessions() {
    let test_env = before_a_transfer();
    (0..50).for_each(|n| test_env.enter(&format!("now-{n}")));
    let words = fifty(&test_env, |n| format!("now-{n}"));
    // oh-my-codex records no process that could keep its loop: each session takes it from the previous one.
    assert!(words.iter().all(|word| word == "resumed_same_codex_session"), "{words:?}");
    assert_eq!(test_env.drivers().len(), 1, "{:?}", test_env.drivers());
    assert_eq!(test_env.list().sessions.len(), 51);
}

/// A process that holds the lock. Killed and reaped on drop, also after a panic.
struct Holder(Child);

impl Holder {
    fn start(path: &Path) -> Holder {
        let mut command = command(&[], "hold", path, &[]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be started");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is piped");
        let holder = Holder(child);
        BufReader::new(output).read_line(&mut line).expect("it prints a line");
        assert_eq!(line.trim(), "held");
        holder
    }

    /// Stops it; it is an unreaped child of this process, so the pid cannot be reused.
    fn stop(&self) {
        let pid = Pid::from_child(&self.0);
        rustix::process::kill_process(pid, Signal::STOP).expect("a child can be stopped");
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(pid), stopped).expect("a child can be waited for");
    }

    fn resume(&self) {
        rustix::process::kill_process(Pid::from_child(&self.0), Signal::CONT)
            .expect("a child can be continued");
    }

    /// Makes it release the lock and exit.
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

fn word(test_env: &TestEnv, wait: Duration) -> &'static str {
    let store = test_env.writer();
    let resumption =
        resume_in(store.as_ref(), "now", &agent(Some("c"), None), wait).expect("the store works");
    store.dialect().word(resumption.reason)
}

fn stopped_holder() {
    let test_env = before_a_transfer();
    let holder = Holder::start(&test_env.path());
    holder.stop();
    let before = test_env.files();
    assert_eq!(word(&test_env, SHORT), "resume_lock_timeout");
    assert_eq!(test_env.files(), before);
    holder.resume();
    holder.finish();
    assert_eq!(word(&test_env, LIMIT), "resumed_same_codex_session");
}

fn killed_holder() {
    let test_env = before_a_transfer();
    drop(Holder::start(&test_env.path()));
    assert!(lock(&test_env).exists(), "it had no time to give the lock back");
    assert_eq!(word(&test_env, Duration::ZERO), "resumed_same_codex_session");
    assert!(!lock(&test_env).exists());
}

fn lock(test_env: &TestEnv) -> std::path::PathBuf {
    test_env.path().join(".lock.ralph-session-resume")
}

/// Creates the lock of oh-my-codex as if it had been acquired `age` ago.
fn leave_lock(test_env: &TestEnv, owner: Option<&[u8]>, age: Duration) {
    fs::create_dir(lock(test_env)).expect("the lock is free");
    if let Some(owner) = owner {
        fs::write(lock(test_env).join("owner"), owner).expect("a file can be written");
    }
    let directory = fs::File::open(lock(test_env)).expect("it is there");
    directory.set_modified(SystemTime::now() - age).expect("its time can be set");
}

fn judged_by_process() {
    let (test_env, other) = (before_a_transfer(), TestEnv::new());
    let holder = Holder::start(&other.path());
    let owner = fs::read(lock(&other).join("owner")).expect("the lock names its owner");
    leave_lock(&test_env, Some(&owner), Duration::from_secs(3600));
    assert_eq!(word(&test_env, SHORT), "resume_lock_timeout", "its process is running");
    holder.finish();
    assert_eq!(word(&test_env, Duration::ZERO), "resumed_same_codex_session", "its process has exited");
}

fn judged_by_age() {
    let theirs: [Option<&[u8]>; 3] = [Some(b"4242.1768000000000.9f3a"), Some(b"{}"), None];
    for owner in theirs {
        let test_env = before_a_transfer();
        leave_lock(&test_env, owner, Duration::ZERO);
        assert_eq!(word(&test_env, SHORT), "resume_lock_timeout", "{owner:?}");
        fs::remove_dir_all(lock(&test_env)).expect("it can be removed");
        leave_lock(&test_env, owner, Duration::from_secs(11));
        assert_eq!(word(&test_env, Duration::ZERO), "resumed_same_codex_session", "{owner:?}");
    }
}

fn lost_while_stopped() {
    let test_env = before_a_transfer();
    let holder = Holder::start(&test_env.path());
    holder.stop();
    // What oh-my-codex does to any lock older than ten seconds.
    fs::remove_dir_all(lock(&test_env)).expect("the lock can be removed");
    leave_lock(&test_env, Some(b"4242.1768000000000.9f3a"), Duration::ZERO);
    holder.resume();
    holder.finish();
    let owner = fs::read(lock(&test_env).join("owner")).expect("their lock is still there");
    assert_eq!(owner, b"4242.1768000000000.9f3a");
}

fn read_only_directory() {
    let test_env = before_a_transfer();
    let above = test_env.path().parent().expect("it lies in a directory").to_owned();
    // Permissions do not restrict root, so root switches to another user, who must be able to access these
    // files.
    let program = above.join("program");
    fs::copy(std::env::current_exe().expect("the path of this executable is known"), &program)
        .expect("it can be copied");
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    for (path, mode) in [(&above, 0o755), (&program, 0o755), (&test_env.state_file("old"), 0o444)] {
        set_mode(path, mode).expect("the mode can be set");
    }
    let directories =
        [test_env.path(), test_env.path().join("sessions"), test_env.path().join("sessions/old")];
    directories.iter().for_each(|path| set_mode(path, 0o555).expect("the mode can be set"));
    let run = |role: &str, arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.arg(test_env.path()).args(arguments).env(ROLE, role).current_dir("/");
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        stdout_of(&command.output().expect("it can be started"))
    };
    let before = test_env.files();
    assert_eq!(run("list", &[]), "1");
    let refusal = run("resume", &["now"]);
    assert!(refusal.starts_with("error: cannot create ") && refusal.contains(".sexton"), "{refusal}");
    assert_eq!(test_env.files(), before);
    assert!(!test_env.path().join(".sexton").exists());
    directories.iter().for_each(|path| set_mode(path, 0o755).expect("the mode can be set"));
}
