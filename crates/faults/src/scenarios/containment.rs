//! Sessions of an ordinary user whose processes lose everything that marks them, in a control group of the
//! user and in a scope of a real service manager: whatever is killed, no process of them survives a recovery
//! or a stop.

use sexton_test_harness::eventually;
use sexton_test_harness::strace::{Call, calls_from, load_lines};
use sexton_test_harness::user::{Manager, Place, User};

use crate::campaign::{Scenario, Trials};
use crate::mounts::require_root;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "containment",
    promises: "I1 I9 I10",
    what: "an ordinary user's processes with no environment, title or limit left, in a cgroup and in a scope; \
           supervisors killed at every call while they make a scope",
    mutants: &["scope_without_command", "no_container_search"],
    tools: &[
        ("systemctl", "systemd"),
        ("nsenter", "util-linux"),
        ("setpriv", "util-linux"),
        ("prlimit", "util-linux"),
        ("strace", "strace"),
        ("ssh-agent", "openssh-client"),
        ("perl", "perl-base"),
    ],
    minutes: 3,
    runs_alone: false,
    run,
};

/// What happens to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is stopped.
    Stopped,
    /// Its supervisor is killed, and then it is stopped.
    SupervisorKilled,
    /// Supervisor and command are killed, and then it is recovered.
    Recovered,
}

fn run(trials: &mut Trials) {
    require_root();
    let ways = [("cgroup", Manager::None, Place::Delegated), ("systemd", Manager::Lingering, Place::Login)];
    for (containment, manager, place) in ways {
        let settings = "recover.stray_age = \"0s\"\nstop.grace = \"200ms\"\n";
        let user = User::enter(manager, &format!("contain = \"{containment}\"\n{settings}"));
        trials
            .trial(&format!("{containment}, where the command is executed"), || execute_inside(&user, place));
        let rounds = trials.either(1, 10);
        for end in [End::Recovered, End::SupervisorKilled, End::Stopped].into_iter().cycle().take(3 * rounds)
        {
            trials.trial(&format!("{containment}, {end:?}"), || end_escapees(&user, place, end));
        }
        if containment == "systemd" {
            cut_off_starts(trials, &user);
        }
    }
}

/// Requires that the command is in the recorded control group before its first instruction.
fn execute_inside(user: &User, place: Place) -> u64 {
    let id = user.ok(place, &["run", "-d", "--", "sh", "-c", "cat /proc/self/cgroup; exec sleep 778"]);
    let record = user.json(&["show", &id]);
    let recorded = record["cgroup"]["path"].as_str().expect("it has a control group");
    let mut log = String::new();
    eventually("the command has printed its control group", || {
        log = user.ok(Place::Login, &["logs", &id]);
        log.contains("0::")
    });
    let own = log.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    assert!(recorded.ends_with(own), "recorded in {recorded}, executed in {own}");
    user.kill_session(&record);
    user.ok(Place::Login, &["recover"]);
    require_nothing_left(user);
    2
}

fn end_escapees(user: &User, place: Place, end: End) -> u64 {
    let record = user.start_escapees(place);
    let id = record["id"].as_str().unwrap();
    match end {
        End::Stopped => _ = user.ok(Place::Login, &["stop", id]),
        End::SupervisorKilled => {
            user.signal("KILL", record["supervisor"]["pid"].as_u64().unwrap());
            user.ok(Place::Login, &["stop", id]);
        }
        End::Recovered => {
            user.kill_session(&record);
            user.ok(Place::Login, &["recover"]);
        }
    }
    let left = user.processes();
    let left: Vec<_> = left.iter().filter(|(_, command)| !command.contains("__shim")).collect();
    assert!(left.is_empty(), "processes of the session are left: {left:?}");
    eventually("the end is recorded", || !user.json(&["show", id])["finished_at"].is_null());
    require_nothing_left(user);
    1
}

fn require_nothing_left(user: &User) {
    eventually("no process and no control group of the session is left", || {
        user.processes().is_empty() && user.session_groups().is_empty()
    });
}

/// Kills the supervisor at each call, starting with the connection to the manager.
fn cut_off_starts(trials: &mut Trials, user: &User) {
    let (trace, marker) = (user.path().join("work/trace"), user.path().join("work/ran"));
    let (script, program) = (format!("touch {}", marker.display()), user.program());
    let run = |expressions: &[&str]| {
        let traced = ["strace", "-f", "-s", "16", "-o", trace.to_str().unwrap()];
        let arguments = [&traced, expressions, &[&program, "run", "--", "sh", "-c", &script]].concat();
        (user.run(Place::Login, &arguments), load_lines(&trace))
    };
    let (ran, seen) = run(&["-e", "trace=all", "-e", "signal=none"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let calls = calls_from(&seen, |line| line.contains(" connect(") && line.contains("AF_UNIX"));
    trials.announce("interrupted starts", calls.len());
    for Call { name, nth } in trials.some_of(&calls, 4) {
        trials.trial(&format!("systemd, a start killed at {name} number {nth}"), || {
            let _ = std::fs::remove_file(&marker);
            let kill = format!("inject={name}:signal=SIGKILL:when={nth}");
            let (ran, seen) = run(&["-e", &format!("trace={name}"), "-e", &kill]);
            let newest = user.json(&["ps", "-a", "--limit", "1"]);
            // A command that was executed has a record that says so.
            let is_recorded = ran.code == 0 || !newest[0]["process"].is_null();
            assert!(is_recorded || !marker.exists(), "the command was executed, but not recorded");
            // A scope may remain if its manager did not notice that it became empty.
            eventually("recovery leaves nothing", || {
                user.ok(Place::Login, &["recover"]);
                user.processes().is_empty() && user.session_groups().is_empty()
            });
            u64::from(seen.iter().any(|line| line.contains("+++ killed by SIGKILL")))
        });
    }
}
