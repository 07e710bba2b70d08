//! The hooks of agents: what they hand over, what is made of it, and that no trouble of ours is theirs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use support::loops::{AGENT, Loops, driven, ended};
use support::strace::trace_alone;
use support::{Bystander, Ran, Yard, eventually, kill_9, program, stores};

const HOUR: Duration = Duration::from_secs(3600);

/// Runs a hook in the session `new` with this on its standard input.
fn hook_with(loops: &Loops, arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = loops.yard.command(&[&["resume"], arguments].concat());
    command.env("SEXTON_SESSION_ID", "new").env("TMUX_PANE", "%4");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // It may not want to read all of it.
        scope.spawn(move || drop(stdin.write_all(input)));
        Ran::of(&child.wait_with_output().unwrap())
    })
}

fn payload(more: &Value) -> Vec<u8> {
    let mut document = json!({"session_id": AGENT, "transcript_path": "/t.jsonl", "cwd": "/src"});
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    document.to_string().into_bytes()
}

#[test]
fn claude_takes_its_loop_along_and_every_turn_is_noted() {
    for store in stores() {
        let loops = Loops::on(store);
        loops.insert([driven("old", HOUR), ended("new")]);
        let started =
            hook_with(&loops, &["--hook", "claude"], &payload(&json!({"hook_event_name": "SessionStart"})));
        assert_eq!((started.code, started.stdout.as_str()), (0, ""), "an agent would read it as a message");
        assert!(
            started.stderr.contains("session new goes on with the loop of session old"),
            "{}",
            started.stderr
        );
        let state = loops.state("new");
        assert!(state.active && state.last_turn_at.is_none());
        assert_eq!(state.pane.as_deref(), Some("%4"));
        let agent = loops.record("new").agent.unwrap();
        assert_eq!((agent.kind.as_deref(), agent.session_id.as_deref()), (Some("claude"), Some(AGENT)));
        let stopped = hook_with(&loops, &["--hook", "claude"], &payload(&json!({"hook_event_name": "Stop"})));
        assert_eq!((stopped.code, stopped.stdout.as_str(), stopped.stderr.as_str()), (0, "", ""));
        assert!(loops.state("new").last_turn_at.is_some());
    }
}

#[test]
fn codex_hands_its_payload_over_as_an_argument_or_on_standard_input() {
    let text = r#"{"type":"agent-turn-complete","thread-id":"thread-1","turn-id":"7","cwd":"/src"}"#;
    for by_argument in [true, false] {
        let loops = Loops::on(stores()[0]);
        let mut old = driven("old", HOUR);
        let agent = old.agent.as_mut().unwrap();
        (agent.session_id, agent.thread_id) = (None, Some("thread-1".to_owned()));
        loops.insert([old, ended("new")]);
        let ran = match by_argument {
            true => hook_with(&loops, &["--hook", "codex", text], b""),
            false => hook_with(&loops, &["--hook", "codex"], text.as_bytes()),
        };
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
        let record = loops.record("new");
        assert_eq!(record.agent.as_ref().unwrap().thread_id.as_deref(), Some("thread-1"));
        assert!(record.loop_state.unwrap().last_turn_at.is_some());
        assert_eq!(loops.drivers(), ["new"]);
    }
}

#[test]
fn a_payload_that_cannot_be_used_is_told_and_forgiven_unless_it_is_strict() {
    let loops = Loops::on(stores()[0]);
    loops.insert([driven("old", HOUR), ended("new")]);
    let before = loops.records();
    let bad: [(&[u8], &str); 7] = [
        (b"", "no JSON object: it is empty"),
        (b"hello", "no JSON object"),
        (b"[1, 2]", "no JSON object"),
        (b"{\"session_id\": \"conv", "no JSON object"),
        (b"\xff\xfe\x00", "no JSON object"),
        (b"{\"session_id\": \"../../etc\"}", "`../../etc` is ignored"),
        (b"{\"session_id\": \"a\\u0000b\", \"thread_id\": 7}", "`a\\0b` is ignored"),
    ];
    for (input, message) in bad {
        for hook in ["codex", "claude"] {
            let ran = hook_with(&loops, &["--hook", hook], input);
            assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{:?}", String::from_utf8_lossy(input));
            assert!(ran.stderr.contains(message), "{message}: {}", ran.stderr);
            let strict = hook_with(&loops, &["--hook", hook, "--strict"], input);
            assert_eq!(strict.code, 1, "{:?}", String::from_utf8_lossy(input));
        }
    }
    let long = [b"{\"filler\": \"".as_slice(), &vec![b'x'; 33 << 20], b"\"}"].concat();
    let ran = hook_with(&loops, &["--hook", "claude"], &long);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("larger than 32 MiB"), "{}", ran.stderr);
    assert_eq!(loops.records(), before, "something was changed");
    // Long is not wrong.
    let ten = payload(&json!({"last_assistant_message": "x".repeat(10 << 20), "hook_event_name": "Stop"}));
    assert_eq!(hook_with(&loops, &["--hook", "claude"], &ten).code, 0);
    assert_eq!(loops.drivers(), ["new"]);
}

#[test]
fn whatever_is_wrong_with_us_a_hook_lets_its_agent_go_on() {
    let loops = Loops::on(stores()[0]);
    loops.insert([driven("old", HOUR), ended("new")]);
    let input = payload(&json!({}));
    let wrong: [&[&str]; 5] = [
        &["--hook", "claude", "--no-such-flag"],
        &["--hook", "nobody"],
        &["--hook", "claude", "--stale", "5"],
        &["--hook", "claude", "--session", "nobody"],
        &["--hook", "claude", "--store", "nowhere:x"],
    ];
    for arguments in wrong {
        let ran = hook_with(&loops, arguments, &input);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{arguments:?}");
        assert!(ran.stderr.contains("error:"), "{arguments:?}: {}", ran.stderr);
        let strict = hook_with(&loops, &[arguments, &["--strict"]].concat(), &input);
        assert!(strict.code > 0, "{arguments:?}");
    }
    let broken = loops.yard.path().join("config/sexton/config.toml");
    std::fs::write(&broken, "this is no TOML").unwrap();
    assert_eq!(hook_with(&loops, &["--hook", "claude"], &input).code, 0);
    std::fs::remove_file(broken).unwrap();
    assert_eq!(loops.drivers(), ["old"]);
}

#[test]
fn a_state_directory_that_cannot_be_written_changes_nothing_and_fails_nobodys_turn() {
    let loops = Loops::on(stores()[0]);
    loops.insert([driven("old", HOUR), ended("new")]);
    // Not even root can make a directory there.
    let ran = |arguments: &[&str]| {
        let mut command = loops.yard.command(&[&["resume", "--session", "new"], arguments].concat());
        command.env("SEXTON_STATE_DIR", "/proc/self/nowhere").env_remove("SEXTON_STORE");
        Ran::of(&command.output().unwrap())
    };
    let text = r#"{"session_id":"conversation-1"}"#;
    let forgiven = ran(&["--hook", "codex", text]);
    assert_eq!(forgiven.code, 0);
    assert!(forgiven.stderr.contains("cannot make the state directory"), "{}", forgiven.stderr);
    assert_eq!(ran(&["--hook", "codex", text, "--strict"]).code, 1);
    assert_eq!(ran(&["--agent-session", AGENT]).code, 1);
    assert_eq!(loops.drivers(), ["old"]);
}

#[test]
fn a_hook_outside_of_any_session_is_silent_and_makes_nothing() {
    let yard = Yard::new();
    for text in [r#"{"session_id":"conversation-1"}"#, "{}"] {
        let ran = yard.sexton(&["resume", "--hook", "codex", text]);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    }
    assert!(!yard.state_dir().exists(), "a state directory was made");
}

#[test]
fn a_hook_outside_of_any_session_does_not_even_open_the_store() {
    let yard = Yard::new();
    yard.ok(&["run", "--", "true"]);
    let hook = ["resume", "--hook", "codex", r#"{"session_id":"conversation-1"}"#];
    let opened = |arguments: &[&str]| {
        trace_alone(&yard, arguments).into_iter().filter(|line| line.contains("/sessions.")).count()
    };
    assert!(opened(&["ps"]) > 0, "the trace does not show what is opened");
    assert_eq!(opened(&hook), 0);
}

#[cfg(feature = "store-omx")]
#[test]
fn a_hook_asks_the_files_of_a_tool_that_name_its_session() {
    let yard = Yard::new();
    let hook = ["resume", "--hook", "codex", r#"{"session_id":"conversation-1"}"#];
    let (omx, theirs) = (yard.path().join("omx"), format!("omx:{}", yard.path().join("omx").display()));
    std::fs::create_dir_all(omx.join("sessions/one")).unwrap();
    std::fs::write(omx.join("session.json"), r#"{"session_id":"one"}"#).unwrap();
    let asked = yard.json(&[&["--store", &theirs, "--json"], hook.as_slice()].concat());
    assert_eq!(asked["reason"], "no_matching_prior_ralph");
}

#[test]
fn a_hook_has_a_parser_of_its_own_that_says_the_same() {
    let yard = Yard::new();
    for arguments in [["--help"].as_slice(), &["-h"], &["--nope"], &["--hook", "nobody", "--strict"], &["x"]]
    {
        let alone = yard.sexton(&[&["resume"], arguments].concat());
        let among_all = yard.sexton(&[&["--json", "resume"], arguments].concat());
        assert_eq!(alone.stdout, among_all.stdout, "{arguments:?}");
        assert_eq!((alone.stderr, alone.code), (among_all.stderr, among_all.code), "{arguments:?}");
    }
}

#[test]
fn an_agent_that_was_killed_goes_on_in_a_new_session_with_its_loop() {
    let yard = Yard::new().with_settings("owner.grace = \"10m\"\n");
    let script = |then: &str| {
        let sexton = program();
        format!("echo '{{\"session_id\":\"{AGENT}\"}}' | {sexton} resume --hook claude --json; {then}")
    };
    let begin =
        format!("{} loop set active=true phase=executing iteration=4; {}", program(), script("sleep 600"));
    let first = yard.ok(&["run", "-d", "--", "sh", "-c", &begin]);
    eventually("the first session drives the loop", || {
        yard.record(&first)["agent"]["session_id"] == AGENT && yard.record(&first)["loop"]["active"] == true
    });
    // While it runs, nobody takes its loop.
    let second = yard.ok(&["run", "--", "sh", "-c", &script("true")]);
    assert!(second.contains("\"prior_session_running\""), "{second}");
    for who in ["supervisor", "process"] {
        kill_9(yard.record(&first)[who]["pid"].as_u64().unwrap());
    }
    let mut bystander = Bystander::start();
    let third = yard.ok(&["run", "-d", "--", "sh", "-c", &script("sleep 600")]);
    eventually("the third session drives the loop", || yard.record(&third)["loop"]["active"] == true);
    let record = yard.record(&third);
    assert_eq!((&record["loop"]["iteration"], &record["loop"]["phase"]), (&json!(4), &json!("executing")));
    assert_eq!(yard.record(&first)["loop"]["active"], false);
    assert_eq!(yard.record(&first)["loop"]["stop_reason"], "ownership_transferred");
    yard.ok(&["recover"]);
    let settled = yard.record(&first);
    assert!(["transferred", "orphaned"].contains(&settled["status"].as_str().unwrap()), "{settled}");
    assert_eq!(yard.record(&third)["status"], "running");
    bystander.end();
}
