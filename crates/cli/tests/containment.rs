//! Containment of an ordinary user's sessions, with real control groups and a real service manager. Only root can set
//! these up; as another user the tests check the refusals instead.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
// Only the linux probe supports control groups and scopes.
#![cfg(feature = "proc-linux")]

mod support;

use std::io::BufRead;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::effort::crash_stride;
use support::strace::{Call, calls_from};
use support::user::{Manager, Place, User, processes_in};
use support::{TestEnv, eventually};

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Kills the supervisor and the command, and requires that `recover` stops the other members and nothing else.
fn recover_escapees(user: &User, place: Place, containment: &str) {
    let mut bystander = user.command(place, &["sleep", "779"]).spawn().unwrap();
    let bystanders = || {
        let all = user.processes().into_iter();
        all.filter(|(_, command)| command == "sleep 779").map(|(pid, _)| pid).collect::<Vec<_>>()
    };
    eventually("a bystander runs", || !bystanders().is_empty());
    let started = bystanders();
    let before: Vec<_> = user.processes().into_iter().map(|(pid, _)| pid).collect();
    let record = user.start_escapees(place);
    assert_eq!(record["containment"], containment, "{record}");
    user.kill_session(&record);
    assert!(user.processes().len() > before.len(), "no process escaped, so the test proves nothing");
    let recovered = user.sexton(Place::Login, &["recover"]);
    assert_eq!(recovered.code, 0, "{}{}", recovered.stdout, recovered.stderr);
    let left: Vec<_> = user.processes().into_iter().filter(|(pid, _)| !before.contains(pid)).collect();
    assert_eq!(left, [], "{containment}: {}", recovered.stdout);
    assert_eq!(bystanders(), started, "{containment}: a bystander was killed");
    eventually("no control group of a session is left", || user.session_groups().is_empty());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn i10_recovery_stops_members_without_a_cookie_in_a_users_cgroup() {
    if !is_root() {
        return require_refusal("cgroup", "no control group is delegated to this user");
    }
    for contain in ["auto", "cgroup"] {
        let user = User::enter(Manager::None, &format!("contain = \"{contain}\"\n"));
        recover_escapees(&user, Place::Delegated, "cgroup");
    }
}

#[test]
fn i10_recovery_stops_members_without_a_cookie_in_a_users_scope() {
    if !is_root() {
        return require_refusal("systemd", "no service manager of this user");
    }
    let user = User::enter(Manager::Lingering, "contain = \"auto\"\n");
    recover_escapees(&user, Place::Login, "systemd");
    drop(user);
    let user = User::enter(Manager::Running, "contain = \"systemd\"\n");
    recover_escapees(&user, Place::Login, "systemd");
}

/// Requires that a configured containment which is not available is an error, and that nothing is started or left. (If
/// the user's terminal runs in a delegated group, `cgroup` is available.)
fn require_refusal(contain: &str, why: &str) {
    let test_env = TestEnv::new().with_settings(&format!("contain = \"{contain}\"\n"));
    let marker = test_env.path().join("ran");
    let refused = {
        let mut command = test_env.command(&["run", "--", "touch", marker.to_str().unwrap()]);
        command.env("XDG_RUNTIME_DIR", test_env.path());
        support::Ran::of(&command.output().unwrap())
    };
    if contain == "cgroup" && refused.code == 0 {
        assert_eq!(test_env.json(&["ps", "-a"])[0]["containment"], "cgroup");
        return;
    }
    assert_eq!(refused.code, 125, "{}", refused.stderr);
    assert!(
        refused.stderr.contains(&format!("`{contain}` cannot be used here: {why}")),
        "{}",
        refused.stderr
    );
    assert!(!marker.exists());
    assert!(test_env.json(&["ps", "-a"]).as_array().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(test_env.state_dir().join("sessions")).unwrap().count(), 0);
}

#[test]
fn i1_a_command_is_in_its_scope_before_it_is_executed() {
    if !is_root() {
        return require_refusal("systemd", "no service manager of this user");
    }
    let user = User::enter(Manager::Lingering, "");
    let id = user.ok(Place::Login, &["run", "-d", "--", "sh", "-c", "cat /proc/self/cgroup; exec sleep 778"]);
    let record = user.json(&["show", &id]);
    let recorded = record["cgroup"]["path"].as_str().unwrap();
    assert!(recorded.ends_with(&format!("/sexton.slice/sexton-{id}.scope/session")), "{recorded}");
    let mut log = String::new();
    eventually("the command has printed its cgroup", || {
        log = user.ok(Place::Login, &["logs", &id]);
        log.contains("0::")
    });
    let own = log.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    assert!(recorded.ends_with(own), "recorded {recorded}, executed in {own}");
    // Its supervisor is in the scope as well, in a group that stopping the session does not affect.
    let scope = std::path::Path::new(recorded).parent().unwrap();
    assert_eq!(processes_in(&scope.join("supervisor")).len(), 1);
    user.ok(Place::Login, &["stop", &id]);
    assert_eq!(user.json(&["show", &id])["status"], "stopped");
    eventually("the scope is gone", || user.session_groups().is_empty());
    assert_eq!(user.processes(), []);
}

#[test]
fn a_scope_is_chosen_only_with_lingering_and_doctor_shows_how_to_enable_it() {
    if !is_root() {
        return require_refusal("systemd", "no service manager of this user");
    }
    for (manager, containment) in
        [(Manager::None, "tree"), (Manager::Running, "tree"), (Manager::Lingering, "systemd")]
    {
        let user = User::enter(manager, "");
        let doctor = user.json(&["doctor"]);
        assert_eq!(doctor["containment"]["in_use"], containment, "{manager:?}: {doctor}");
        let findings = doctor["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["subject"] == "containment").unwrap();
        let hint = finding["cure"].as_str().unwrap_or_default();
        assert_eq!(hint.contains("loginctl enable-linger"), manager == Manager::Running, "{finding}");
        let id = user.ok(Place::Login, &["run", "-d", "--", "sleep", "778"]);
        assert_eq!(user.json(&["show", &id])["containment"], containment, "{manager:?}");
        let shown = user.ok(Place::Login, &["show", &id]);
        assert!(shown.contains(&format!("containment  {containment}")), "{shown}");
        user.ok(Place::Login, &["stop", &id]);
    }
}

#[test]
fn i9_a_hanging_service_manager_delays_a_start_by_at_most_five_seconds() {
    if !is_root() {
        return require_refusal("systemd", "no service manager of this user");
    }
    let user = User::enter(Manager::Lingering, "");
    let manager = user.manager_pid().unwrap();
    support::send_signal(manager, rustix::process::Signal::STOP);
    let timed = |contain: &str| {
        let settings = user.path().join("config/sexton/config.toml");
        std::fs::write(settings, format!("contain = \"{contain}\"\n")).unwrap();
        let begun = Instant::now();
        let ran = user.sexton(Place::Login, &["run", "--", "true"]);
        // Five seconds for the manager; the rest is reserve for a loaded machine.
        assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
        ran
    };
    let ran = timed("systemd");
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("the service manager did not answer within 4 s"), "{}", ran.stderr);
    assert_eq!(user.json(&["ps", "-a"]), Value::Array(Vec::new()));
    assert_eq!(timed("auto").code, 0);
    assert_eq!(user.json(&["ps", "-a"])[0]["containment"], "tree");
    support::send_signal(manager, rustix::process::Signal::CONT);
    assert_eq!(timed("auto").code, 0);
    assert_eq!(user.json(&["ps", "-a", "--limit", "1"])[0]["containment"], "systemd");
    eventually("nothing is left", || user.processes().is_empty() && user.session_groups().is_empty());
}

#[test]
fn i1_a_supervisor_killed_while_it_creates_a_scope_leaves_nothing() {
    if !is_root() {
        return require_refusal("systemd", "no service manager of this user");
    }
    let user = User::enter(Manager::Lingering, "recover.stray_age = \"0s\"\n");
    let (marker, trace) = (user.path().join("work/ran"), user.path().join("work/trace"));
    let (script, trace_path) = (format!("touch {}", marker.display()), trace.to_str().unwrap());
    let program = user.program();
    let run = |expressions: &[&str]| {
        let traced = ["strace", "-f", "-s", "16", "-o", trace_path];
        let arguments = [&traced, expressions, &[&program, "run", "--", "sh", "-c", &script]].concat();
        let ran = user.run(Place::Login, &arguments);
        (ran, support::strace::load_lines(&trace))
    };
    let (ran, seen) = run(&["-e", "trace=all", "-e", "signal=none"]);
    assert!(ran.code == 0 && marker.exists(), "{}", ran.stderr);
    std::fs::remove_file(&marker).unwrap();
    // From the connection to the manager until both processes are in their groups and the starter is notified.
    let calls = calls_from(&seen, |line| line.contains(" connect(") && line.contains("AF_UNIX"));
    let end = calls.iter().rposition(|call| call.name == "mkdirat").expect("two groups are created") + 12;
    let calls = &calls[..end.min(calls.len())];
    assert!(calls.len() > 40, "only {calls:?}");
    let mut killed = 0;
    for Call { name, nth } in calls.iter().step_by(crash_stride(5)) {
        let kill = format!("inject={name}:signal=SIGKILL:when={nth}");
        let (ran, seen) = run(&["-e", &format!("trace={name}"), "-e", &kill]);
        killed += usize::from(seen.iter().any(|line| line.contains("+++ killed by SIGKILL")));
        // If only the starter was killed, its session may be complete.
        let finished = ran.code == 0
            || user
                .json(&["ps", "-a"])
                .as_array()
                .is_some_and(|all| all.first().is_some_and(|newest| newest["exit"]["code"] == 0));
        assert!(finished || !marker.exists(), "{name} {nth}: the command was executed: {}", ran.stderr);
        let _ = std::fs::remove_file(&marker);
        eventually("no process is left", || user.processes().is_empty());
    }
    let tried = calls.len().div_ceil(crash_stride(5));
    assert!(killed * 10 >= tried * 8, "only {killed} of {tried} calls were interrupted");
    // The manager may have missed that a scope became empty.
    eventually("no scope is left", || {
        user.ok(Place::Login, &["recover"]);
        user.session_groups().is_empty()
    });
    assert_eq!(user.json(&["ps"]), Value::Array(Vec::new()));
    let units = user.run(Place::Login, &["systemctl", "--user", "list-units", "--plain", "sexton-*"]);
    assert!(units.code == 0 && !units.stdout.contains("sexton-"), "{}{}", units.stdout, units.stderr);
}

#[test]
fn i9_recovery_removes_empty_session_groups_and_keeps_groups_with_processes() {
    if !is_root() {
        return require_refusal("cgroup", "no control group is delegated to this user");
    }
    let user = User::enter(Manager::Lingering, "recover.stray_age = \"0s\"\n");
    user.ok(Place::Login, &["run", "--", "true"]);
    let places = [user.top().join("delegated"), user.top().join("manager/sexton.slice")];
    let make = |path: std::path::PathBuf| {
        assert_eq!(user.run(Place::Login, &["mkdir", path.to_str().unwrap()]).code, 0);
        path
    };
    let begun = Instant::now();
    let left = places.clone().map(|place| make(place.join("sexton-left")));
    let used = places.clone().map(|place| make(place.join("sexton-used")));
    let others = places.map(|place| make(place.join("of-another-program")));
    let inside = make(used[1].join("session"));
    let mut processes = Vec::new();
    for group in [&used[0], &inside] {
        let process = support::Bystander::start();
        std::fs::write(group.join("cgroup.procs"), process.pid()).unwrap();
        processes.push(process);
    }
    // A new group may belong to a session that is starting.
    user.ok(Place::Delegated, &["recover"]);
    assert!(begun.elapsed() > Duration::from_secs(5) || left.iter().all(|path| path.exists()));
    eventually("the empty groups of sessions are removed", || {
        user.ok(Place::Delegated, &["recover"]);
        !left.iter().any(|path| path.exists())
    });
    assert_eq!(used.map(|path| path.exists()), [true; 2]);
    assert!(inside.exists(), "a group below one with a process was removed");
    assert_eq!(others.map(|path| path.exists()), [true; 2]);
    assert!(processes.iter().all(|process| support::is_running(process.0.id().into())));
}

/// Processes that fork and exit all the time, until this is dropped. They are in a pid namespace whose first process
/// ignores SIGCHLD, so that the kernel removes the exited ones: the machine's first process may be slow at that.
struct ForkChains(std::process::Child);

impl ForkChains {
    fn start(chains: usize, sleepers: usize) -> ForkChains {
        const PROGRAM: &str = "$SIG{CHLD} = 'IGNORE';
            for (1 .. $ARGV[1]) { unless (fork) { sleep } }
            for (1 .. $ARGV[0]) { unless (fork) { while (1) { exit if fork } } }
            $| = 1; print \"started\\n\"; sleep";
        let mut first = std::process::Command::new("unshare");
        first.args(["--pid", "--fork", "--kill-child", "perl", "-e", PROGRAM]);
        first.args([chains, sleepers].map(|number| number.to_string()));
        let mut first = first.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(first.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        ForkChains(first)
    }
}

impl Drop for ForkChains {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Other programs can start and end processes faster than anyone can read them. An empty control group proves all the
/// same that the session has ended. (This test runs alone: it slows down every other one.)
#[test]
fn i10_a_session_in_a_control_group_is_stopped_beside_continuous_forks() {
    if !is_root() {
        return require_refusal("cgroup", "no control group is delegated to this user");
    }
    let test_env = TestEnv::new().with_settings("contain = \"cgroup\"\n");
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let chains = ForkChains::start(8, 1000);
    let stopped = test_env.sexton(&["stop", "--grace", "1s", id.trim()]);
    drop(chains);
    assert_eq!(stopped.code, 0, "{}{}", stopped.stdout, stopped.stderr);
    assert_eq!(test_env.wait_until_ended(id.trim())["status"], "stopped");
}
