//! Resuming under faults: many in parallel, and killed at each of its system calls. A loop always has one owner.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(clippy::print_stderr, reason = "prints how much of the campaign ran")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use sexton_core::resume::Reason;
use support::loops::{AGENT, Loops, driven, ended};
use support::strace::{kill_alone_at, mutating_calls, trace_alone};
use support::{Bystander, loop_stores, stores};

const HOUR: Duration = Duration::from_secs(3600);
const MANY: usize = 50;

/// Resumes in all these sessions in parallel, and returns how often each reason occurred.
fn reasons_of(loops: &Loops, currents: &[String]) -> BTreeMap<String, usize> {
    let arguments = ["--agent-session", AGENT];
    let started: Vec<_> =
        currents.iter().map(|current| loops.resume_command(current, &arguments).spawn().unwrap()).collect();
    let mut reasons = BTreeMap::new();
    for child in started {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        *reasons.entry(document["reason"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    reasons
}

fn expected(loops: &Loops, others: Reason) -> BTreeMap<String, usize> {
    let word = |reason| loops.dialect().word(reason).to_owned();
    [(word(Reason::Resumed), 1), (word(others), MANY - 1)].into()
}

#[test]
fn fifty_parallel_resumes_in_one_session_transfer_the_loop_once() {
    for store in loop_stores() {
        let loops = Loops::on(store);
        loops.insert([driven("old", HOUR), ended("new")]);
        let currents = vec!["new".to_owned(); MANY];
        assert_eq!(reasons_of(&loops, &currents), expected(&loops, Reason::CurrentLoopActive), "{store}");
        assert_eq!(loops.drivers(), ["new"], "{store}");
    }
}

#[test]
fn fifty_parallel_resumes_in_live_sessions_transfer_the_loop_once() {
    for store in stores() {
        let loops = Loops::on(store);
        loops.insert([driven("old", HOUR)]);
        let agents: Vec<_> = (0..MANY).map(|_| Bystander::start()).collect();
        let currents: Vec<_> =
            agents.iter().map(|agent| loops.test_env.ok(&["register", "--pid", &agent.pid()])).collect();
        assert_eq!(reasons_of(&loops, &currents), expected(&loops, Reason::PriorSessionRunning), "{store}");
        let drivers = loops.drivers();
        assert!(drivers.len() == 1 && currents.contains(&drivers[0]), "{store}: {drivers:?}");
    }
}

#[test]
fn i6_a_transfer_killed_at_any_change_leaves_one_owner() {
    for store in loop_stores() {
        let loops = Loops::on(store);
        let mut round = 0;
        // Each round has its own agent, so that it does not match earlier rounds.
        let mut prepare = || {
            round += 1;
            let agent = format!("conversation-{round}");
            let (old, new) = (format!("old-{round}"), format!("new-{round}"));
            let mut driver = driven(&old, HOUR);
            driver.agent.as_mut().unwrap().session_id = Some(agent.clone());
            loops.insert([driver, ended(&new)]);
            [old, new, agent]
        };
        let arguments = |names: &[String; 3]| {
            ["resume", "--json", "--session", &names[1], "--agent-session", &names[2]].map(str::to_owned)
        };
        // The first resume creates the lock file; only later ones are killed.
        loops.try_resume(&arguments(&prepare()).each_ref().map(String::as_str)[2..]);
        let first = arguments(&prepare());
        let calls = mutating_calls(&trace_alone(&loops.test_env, &first.each_ref().map(String::as_str)));
        assert!(calls.len() >= 3, "{store}: only {} calls change something", calls.len());
        let (mut killed, mut before_the_commit) = (0, 0);
        for call in &calls {
            let names = prepare();
            let words = arguments(&names);
            let words = words.each_ref().map(String::as_str);
            killed += usize::from(kill_alone_at(&loops.test_env, call, &words, ""));
            let when = format!("{store}, killed before {} number {}", call.name, call.nth);
            let owners = || -> Vec<_> {
                let drivers = loops.drivers();
                names[..2].iter().filter(|name| drivers.contains(name)).cloned().collect()
            };
            let owner = owners();
            assert_eq!(owner.len(), 1, "{when}");
            before_the_commit += usize::from(owner[0] == names[0]);
            let (document, code) = loops.try_resume(&words[2..]);
            assert_eq!(code, 0, "{when}: {document}");
            let reason = document["reason"].as_str().unwrap();
            let done =
                [Reason::Resumed, Reason::CurrentLoopActive].map(|reason| loops.dialect().word(reason));
            assert!(done.contains(&reason), "{when}: {reason}");
            assert_eq!(owners(), [names[1].clone()], "{when}");
            assert!(!loops.state(&names[0]).active, "{when}");
        }
        eprintln!("{store}: {killed} of {} were killed, {before_the_commit} before the commit", calls.len());
        assert!(killed * 10 >= calls.len() * 9, "{store}: only {killed} of {} were killed", calls.len());
        assert!(
            (1..killed).contains(&before_the_commit),
            "{store}: all were killed on one side of the commit"
        );
    }
}
