//! A complete run of thirty tickets with every kind of agent, and the same run with a loop that is killed repeatedly.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use support::tickets::{QUICK, Tickets};
use support::{Bystander, eventually, is_running, kill_9};

/// How often the loop is killed.
const KILLS: usize = 20;

/// The expected state of each kind of ticket.
const KINDS: [(&str, usize, &str); 8] = [
    ("ok", 10, "merged"),
    ("clash", 4, "conflict"),
    ("fail", 4, "set_aside"),
    ("kids", 3, "merged"),
    ("late", 3, "merged"),
    ("idle", 2, "nothing"),
    // Last, so that they block no other ticket: a loop that is killed does not get past them.
    ("hang", 2, "set_aside"),
    ("deaf", 2, "set_aside"),
];

fn names() -> Vec<String> {
    let of_kind = |&(kind, count, _): &(&str, usize, &str)| {
        (1..=count).map(|number| format!("{kind}-{number}")).collect::<Vec<_>>()
    };
    KINDS.iter().flat_map(of_kind).collect()
}

fn expected() -> BTreeMap<String, String> {
    let kind_of = |name: &str| name.split('-').next().unwrap().to_owned();
    let outcome = |name: &str| KINDS.iter().find(|(kind, ..)| *kind == kind_of(name)).unwrap().2.to_owned();
    names().into_iter().map(|name| (name.clone(), outcome(&name))).collect()
}

fn thirty() -> Tickets {
    let names = names();
    assert_eq!(names.len(), 30);
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    Tickets::with_settings(&names, &format!("{QUICK}dispatch_timeout = \"5s\"\n"))
}

/// Requires the expected final state.
fn require_final_state(tickets: &Tickets) {
    tickets.require_nothing_runs();
    assert_eq!(tickets.states(), expected(), "{}", tickets.output());
    let expected = expected();
    let merged: Vec<_> =
        expected.iter().filter(|(_, state)| *state == "merged").map(|(name, _)| name.as_str()).collect();
    tickets.require_exactly(&merged);
    let record = tickets.record();
    assert_eq!(record["loop"]["iteration"], 30, "each ticket must be started once");
    assert_eq!(record["loop"]["phase"], "stuck");
    // Only the conflicts have kept their worktrees.
    let mut kept: Vec<_> = tickets.repository.worktrees()[1..]
        .iter()
        .map(|tree| {
            let head =
                tickets.repository.git(&["-C", tree.to_str().unwrap(), "symbolic-ref", "--short", "HEAD"]);
            head.strip_prefix("ralph/").unwrap().to_owned()
        })
        .collect();
    kept.sort();
    assert_eq!(kept, ["clash-1", "clash-2", "clash-3", "clash-4"]);
    let unsettled = tickets.test_env.json(&["ps"]);
    assert_eq!(unsettled, serde_json::json!([]), "a session is still recorded as running");
    let recovered = tickets.test_env.json(&["recover"]);
    assert_eq!(recovered["orphans"], 0, "{recovered}");
}

#[test]
fn thirty_tickets_reach_their_expected_states() {
    let tickets = thirty();
    let ran = tickets.run(&mut tickets.start(&["--parallel", "4"]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    require_final_state(&tickets);
}

#[test]
fn a_loop_killed_twenty_times_reaches_the_same_states() {
    let seed =
        std::env::var("SEXTON_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            u64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() & u128::from(u64::MAX))
                .unwrap()
        });
    println!("SEXTON_TEST_SEED={seed}");
    let mut random = seed;
    let tickets = thirty();
    let bystander = Bystander::start();
    std::fs::write(tickets.repository.path().join("untracked"), "mine\n").unwrap();
    for _ in 0..KILLS {
        let mut ralph = tickets.spawn(&mut tickets.start(&["--parallel", "4"]));
        let begun = tickets.output().len();
        // Knuth's generator: the same seed gives the same delays.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = random >> 33;
        // Most kills come after the first ticket has started; some come before that.
        if !number.is_multiple_of(5) {
            let works = || tickets.output()[begun..].contains(": started session ");
            eventually(&format!("it works: {}", tickets.log().display()), || {
                assert_eq!(ralph.try_wait().unwrap(), None, "it ended by itself: {}", tickets.output());
                works()
            });
        }
        std::thread::sleep(Duration::from_millis(number % 1000));
        assert_eq!(ralph.try_wait().unwrap(), None, "it ended by itself: {}", tickets.output());
        kill_9(ralph.id().into());
        ralph.wait().unwrap();
    }
    for sign in ["continues session", "with the work of session", "merged"] {
        assert!(
            tickets.output().contains(sign),
            "the kills came too early to test anything: {}",
            tickets.output()
        );
    }
    let ran = tickets.run(&mut tickets.start(&["--parallel", "4"]));
    assert_eq!(ran.code, 3, "{}{}", tickets.output(), ran.stderr);
    std::fs::remove_file(tickets.repository.path().join("untracked")).unwrap();
    assert!(is_running(bystander.0.id().into()), "an unrelated process was killed");
    require_final_state(&tickets);
}
