//! Agent hooks: how their payload is used, and that no error of Sexton fails the agent's turn.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use support::loops::{AGENT, Loops, driven, ended};
use support::strace::trace_alone;
use support::{Bystander, Ran, TestEnv, eventually, kill_9, quoted_program, stores};

const HOUR: Duration = Duration::from_secs(3600);

/// Runs a hook in the session `new` with this standard input.
fn hook_with(loops: &Loops, arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = loops.test_env.command(&[&["resume"], arguments].concat());
    command.env("SEXTON_SESSION_ID", "new").env("TMUX_PANE", "%4");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // The hook may exit before it has read everything.
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
fn a_claude_hook_resumes_the_loop_and_records_every_turn() {
    for store in stores() {
        let loops = Loops::on(store);
        loops.insert([driven("old", HOUR), ended("new")]);
        let started =
            hook_with(&loops, &["--hook", "claude"], &payload(&json!({"hook_event_name": "SessionStart"})));
        assert_eq!(
            (started.code, started.stdout.as_str()),
            (0, ""),
            "the agent would read stdout as a message"
        );
        assert!(
            started.stderr.contains("session new continues the loop of session old"),
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
fn a_codex_payload_is_read_from_an_argument_or_standard_input() {
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
fn an_invalid_payload_is_a_warning_and_with_strict_an_error() {
    let loops = Loops::on(stores()[0]);
    loops.insert([driven("old", HOUR), ended("new")]);
    let before = loops.records();
    let bad: [(&[u8], &str); 7] = [
        (b"", "not a JSON object: it is empty"),
        (b"hello", "not a JSON object"),
        (b"[1, 2]", "not a JSON object"),
        (b"{\"session_id\": \"conv", "not a JSON object"),
        (b"\xff\xfe\x00", "not a JSON object"),
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
    // A long payload is valid.
    let ten = payload(&json!({"last_assistant_message": "x".repeat(10 << 20), "hook_event_name": "Stop"}));
    assert_eq!(hook_with(&loops, &["--hook", "claude"], &ten).code, 0);
    assert_eq!(loops.drivers(), ["new"]);
}

#[test]
fn no_usage_or_configuration_error_fails_the_agents_turn() {
    let loops = Loops::on(stores()[0]);
    loops.insert([driven("old", HOUR), ended("new")]);
    let input = payload(&json!({}));
    let wrong: [&[&str]; 5] = [
        &["--hook", "claude", "--no-such-flag"],
        &["--hook", "missing"],
        &["--hook", "claude", "--stale", "5"],
        &["--hook", "claude", "--session", "missing"],
        &["--hook", "claude", "--store", "nowhere:x"],
    ];
    for arguments in wrong {
        let ran = hook_with(&loops, arguments, &input);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{arguments:?}");
        assert!(ran.stderr.contains("error:"), "{arguments:?}: {}", ran.stderr);
        let strict = hook_with(&loops, &[arguments, &["--strict"]].concat(), &input);
        assert!(strict.code > 0, "{arguments:?}");
    }
    let broken = loops.test_env.path().join("config/sexton/config.toml");
    std::fs::write(&broken, "this is no TOML").unwrap();
    assert_eq!(hook_with(&loops, &["--hook", "claude"], &input).code, 0);
    std::fs::remove_file(broken).unwrap();
    assert_eq!(loops.drivers(), ["old"]);
}

#[test]
fn an_unwritable_state_directory_does_not_fail_the_agents_turn() {
    let loops = Loops::on(stores()[0]);
    loops.insert([driven("old", HOUR), ended("new")]);
    // Not even root can create a directory there.
    let ran = |arguments: &[&str]| {
        let mut command = loops.test_env.command(&[&["resume", "--session", "new"], arguments].concat());
        command.env("SEXTON_STATE_DIR", "/proc/self/nowhere").env_remove("SEXTON_STORE");
        Ran::of(&command.output().unwrap())
    };
    let text = r#"{"session_id":"conversation-1"}"#;
    let lenient = ran(&["--hook", "codex", text]);
    assert_eq!(lenient.code, 0);
    assert!(lenient.stderr.contains("cannot create the state directory"), "{}", lenient.stderr);
    assert_eq!(ran(&["--hook", "codex", text, "--strict"]).code, 1);
    assert_eq!(ran(&["--agent-session", AGENT]).code, 1);
    assert_eq!(loops.drivers(), ["old"]);
}

#[test]
fn a_hook_outside_of_a_session_prints_and_creates_nothing() {
    let test_env = TestEnv::new();
    for text in [r#"{"session_id":"conversation-1"}"#, "{}"] {
        let ran = test_env.sexton(&["resume", "--hook", "codex", text]);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
    }
    assert!(!test_env.state_dir().exists(), "a state directory was created");
}

#[test]
fn a_hook_outside_of_a_session_does_not_open_the_store() {
    let test_env = TestEnv::new();
    test_env.ok(&["run", "--", "true"]);
    let hook = ["resume", "--hook", "codex", r#"{"session_id":"conversation-1"}"#];
    let opened = |arguments: &[&str]| {
        trace_alone(&test_env, arguments).into_iter().filter(|line| line.contains("/sessions.")).count()
    };
    assert!(opened(&["ps"]) > 0, "the trace does not contain opened files");
    assert_eq!(opened(&hook), 0);
}

#[cfg(feature = "store-omx")]
#[test]
fn a_hook_uses_the_current_session_of_an_omx_store() {
    let test_env = TestEnv::new();
    let hook = ["resume", "--hook", "codex", r#"{"session_id":"conversation-1"}"#];
    let (omx, theirs) =
        (test_env.path().join("omx"), format!("omx:{}", test_env.path().join("omx").display()));
    std::fs::create_dir_all(omx.join("sessions/one")).unwrap();
    std::fs::write(omx.join("session.json"), r#"{"session_id":"one"}"#).unwrap();
    let reply = test_env.json(&[&["--store", &theirs, "--json"], hook.as_slice()].concat());
    assert_eq!(reply["reason"], "no_matching_prior_ralph");
}

#[test]
fn the_separate_parser_of_hooks_prints_the_same_as_the_full_parser() {
    let test_env = TestEnv::new();
    for arguments in [["--help"].as_slice(), &["-h"], &["--nope"], &["--hook", "missing", "--strict"], &["x"]]
    {
        let alone = test_env.sexton(&[&["resume"], arguments].concat());
        let among_all = test_env.sexton(&[&["--json", "resume"], arguments].concat());
        assert_eq!(alone.stdout, among_all.stdout, "{arguments:?}");
        assert_eq!((alone.stderr, alone.code), (among_all.stderr, among_all.code), "{arguments:?}");
    }
}

#[test]
fn a_killed_agent_continues_its_loop_in_a_new_session() {
    let test_env = TestEnv::new().with_settings("owner.grace = \"10m\"\n");
    let script = |then: &str| {
        let sexton = quoted_program();
        format!("echo '{{\"session_id\":\"{AGENT}\"}}' | {sexton} resume --hook claude --json; {then}")
    };
    let begin = format!(
        "{} loop set active=true phase=executing iteration=4; {}",
        quoted_program(),
        script("sleep 600")
    );
    let first = test_env.ok(&["run", "-d", "--", "sh", "-c", &begin]);
    eventually("the first session drives the loop", || {
        test_env.record(&first)["agent"]["session_id"] == AGENT
            && test_env.record(&first)["loop"]["active"] == true
    });
    // While it runs, no other session takes its loop.
    let second = test_env.ok(&["run", "--", "sh", "-c", &script("true")]);
    assert!(second.contains("\"prior_session_running\""), "{second}");
    for role in ["supervisor", "process"] {
        kill_9(test_env.record(&first)[role]["pid"].as_u64().unwrap());
    }
    let mut bystander = Bystander::start();
    let third = test_env.ok(&["run", "-d", "--", "sh", "-c", &script("sleep 600")]);
    eventually("the third session drives the loop", || test_env.record(&third)["loop"]["active"] == true);
    let record = test_env.record(&third);
    assert_eq!((&record["loop"]["iteration"], &record["loop"]["phase"]), (&json!(4), &json!("executing")));
    assert_eq!(test_env.record(&first)["loop"]["active"], false);
    assert_eq!(test_env.record(&first)["loop"]["stop_reason"], "ownership_transferred");
    test_env.ok(&["recover"]);
    let settled = test_env.record(&first);
    assert!(["transferred", "orphaned"].contains(&settled["status"].as_str().unwrap()), "{settled}");
    assert_eq!(test_env.record(&third)["status"], "running");
    bystander.end();
}
