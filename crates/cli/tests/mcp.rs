//! `sexton mcp` on standard input and output: what a client can and cannot do.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use serde_json::{Value, json};
use support::mcp::{Mcp, structure};
use support::{Bystander, TestEnv, carriers, eventually, is_running, kill_9, processes_with, send_signal};

use rustix::process::Signal;

const ALL: [&str; 3] = ["--allow-run", "--allow-stop", "--allow-recover"];

/// Creates a test environment with short grace periods.
fn test_env() -> TestEnv {
    TestEnv::new().with_settings("owner.grace = \"200ms\"\nstop.grace = \"2s\"\n")
}

#[test]
fn execute_command_returns_stdout_and_stderr() {
    let test_env = test_env();
    let mut mcp = Mcp::start(&test_env, &ALL);
    let reply = mcp.ok("execute_command", &json!({"command": "printf 'two words\\n'"}));
    assert_eq!((&reply["stdout"], &reply["exit_code"]), (&json!("two words\n"), &json!(0)), "{reply}");
    let reply = mcp.call("execute_command", &json!({"command": ["ls", "/nowhere at all"]}));
    assert_eq!(reply["success"], false);
    assert!(reply["stderr"].as_str().unwrap().contains("/nowhere at all"), "{reply}");
    assert_eq!(reply["stdout"], "");
    assert!(reply["error"].as_str().unwrap().starts_with("the command exited with code"), "{reply}");
    let record = test_env.record(reply["session"].as_str().unwrap());
    assert_eq!((&record["tags"]["via"], &record["tags"]["mcp_client"]), (&json!("mcp"), &json!("a test")));
}

#[test]
fn a_timeout_stops_the_command_and_everything_it_started() {
    let test_env = test_env().with_settings("mcp.allow = [\"*\", \"sh -c *\"]\n");
    let mut mcp = Mcp::start(&test_env, &ALL);
    let command = json!({"command": "setsid sleep 600 & sleep 600", "shell": "sh", "timeout": 1});
    let reply = mcp.call("execute_command", &command);
    assert_eq!((&reply["success"], &reply["status"]), (&json!(false), &json!("timed_out")), "{reply}");
    assert_eq!(carriers(reply["session"].as_str().unwrap()), Vec::<u64>::new());
    for timeout in [json!(0), json!(301), json!(-1), json!("soon"), json!(1.5)] {
        mcp.refused("execute_command", &json!({"command": "true", "timeout": timeout}));
    }
}

#[test]
fn long_output_is_truncated_and_the_cursor_continues_there() {
    let test_env = test_env();
    let mut mcp = Mcp::start(&test_env, &ALL);
    let reply = mcp.ok("execute_command", &json!({"command": "seq 1 1234"}));
    assert_eq!(reply["stdout"].as_str().unwrap().lines().count(), 100);
    assert_eq!(reply["truncated"], true);
    let session = reply["session"].clone();
    let mut text = reply["stdout"].as_str().unwrap().to_owned();
    let mut cursor = reply["stdout_cursor"].clone();
    loop {
        let part = mcp.ok("read_output", &json!({"session": session, "cursor": cursor, "lines": 500}));
        text.push_str(part["output"].as_str().unwrap());
        cursor = part["cursor"].clone();
        assert_eq!(part["eof"], !part["truncated"].as_bool().unwrap(), "{part}");
        if part["eof"] == true {
            break;
        }
    }
    let expected: String = (1..=1234).map(|number| format!("{number}\n")).collect();
    assert_eq!(text, expected);
}

#[test]
fn invalid_utf8_is_replaced_and_cursors_count_the_original_bytes() {
    let test_env = test_env();
    std::fs::write(
        test_env.work_dir().join("noise"),
        [b"\xff\xfe\0a".repeat(40_000), b"end".to_vec()].concat(),
    )
    .unwrap();
    let mut mcp = Mcp::start(&test_env, &ALL);
    let reply = mcp.ok("execute_command", &json!({"command": "cat noise"}));
    assert!(reply["stdout"].as_str().unwrap().contains('\u{fffd}'));
    assert_eq!(reply["truncated"], true);
    let mut last = reply.clone();
    let mut cursor = reply["stdout_cursor"].clone();
    while last["eof"] != true {
        last = mcp.ok("read_output", &json!({"session": reply["session"], "cursor": cursor}));
        cursor = last["cursor"].clone();
    }
    assert_eq!(cursor, 160_003);
    assert!(last["output"].as_str().unwrap().ends_with("end"));
}

#[test]
fn a_server_without_allow_flags_only_reads() {
    let test_env = test_env();
    let marker = test_env.work_dir().join("marker");
    let session = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let mut mcp = Mcp::start(&test_env, &[]);
    let touch = json!({"command": ["touch", marker]});
    for tool in ["execute_command", "start_session"] {
        assert!(mcp.refused(tool, &touch).contains("--allow-run"));
    }
    assert!(mcp.refused("stop_session", &json!({"session": session})).contains("--allow-stop"));
    let kill = json!({"action": "kill", "session": session, "signal": "SIGKILL"});
    assert!(mcp.refused("manage_process", &kill).contains("--allow-stop"));
    assert!(mcp.refused("recover", &json!({"dry_run": false})).contains("--allow-recover"));
    assert_eq!(mcp.ok("recover", &json!({}))["report"]["dry_run"], true);
    let listed = mcp.ok("list_sessions", &json!({"which": "running"}));
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(listed["sessions"][0]["observed"], "alive");
    assert!(!marker.exists());
    assert_eq!(mcp.ok("session", &json!({"session": session}))["session"]["status"], "running");
    test_env.ok(&["stop", &session]);
}

#[test]
fn commands_are_matched_word_by_word_and_deny_wins() {
    let test_env =
        test_env().with_settings("[mcp]\nallow = [\"touch *\", \"sh -c *\"]\ndeny = [\"touch -r *\"]\n");
    let marker = test_env.work_dir().join("marker");
    let mut mcp = Mcp::start(&test_env, &["--allow-run"]);
    assert!(mcp.refused("execute_command", &json!({"command": "ls"})).contains("mcp.allow"));
    let denied = json!({"command": ["touch", "-r", "/", marker]});
    assert!(mcp.refused("execute_command", &denied).contains("mcp.deny"));
    for shell in ["bash", "/bin/sh", "env"] {
        let inline = json!({"command": format!("touch {}", marker.display()), "shell": shell});
        mcp.refused("execute_command", &inline);
    }
    mcp.refused("execute_command", &json!({"command": ["env", "touch", marker]}));
    assert!(!marker.exists());
    mcp.ok("execute_command", &json!({"command": ["touch", marker]}));
    assert!(marker.exists());
    assert_eq!(
        mcp.ok("execute_command", &json!({"command": "echo $((1+1))", "shell": "sh"}))["stdout"],
        "2\n"
    );
}

#[test]
fn an_untrusted_repository_cannot_allow_commands() {
    let test_env = test_env().with_settings("mcp.allow = [\"true\"]\n");
    support::repository::Repository::in_work_dir(&test_env);
    std::fs::write(test_env.work_dir().join(".sexton.toml"), "[mcp]\nallow = [\"*\", \"sh *\"]\n").unwrap();
    let mut mcp = Mcp::start(&test_env, &["--allow-run"]);
    mcp.refused("execute_command", &json!({"command": "ls"}));
    mcp.ok("execute_command", &json!({"command": "true"}));
    let (_, stderr) = mcp.leave();
    assert!(stderr.contains("`mcp.allow` is ignored"), "{stderr}");
    test_env.ok(&["trust"]);
    Mcp::start(&test_env, &["--allow-run"]).ok("execute_command", &json!({"command": "ls"}));
}

#[test]
fn an_invalid_pattern_prevents_the_server_from_starting() {
    let test_env = test_env().with_settings("mcp.deny = [\"rm | *\"]\n");
    let ran = test_env.sexton(&["mcp", "--allow-run"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("`mcp.deny` has `rm | *`"), "{}", ran.stderr);
}

#[test]
fn malformed_messages_and_unknown_names_get_errors_and_the_server_continues() {
    let test_env = test_env();
    let mut mcp = Mcp::silent(&test_env, &ALL);
    let error = |code: i64| move |message: &Value| message["error"]["code"] == code;
    mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    mcp.send_bytes(b"this is not json\n");
    mcp.next("parse error", error(-32700));
    mcp.shake_hands();
    mcp.send_bytes(
        b"{\"jsonrpc\":\"2.0\",\"id\":77\n\xff\xfe\n[]\n[{\"jsonrpc\":\"2.0\"}]\n\"text\"\n42\n\n",
    );
    for code in [-32700, -32700, -32600, -32600, -32600, -32600] {
        mcp.next("error", error(code));
    }
    mcp.send(&json!({"jsonrpc": "2.0", "id": 4711, "params": {}}));
    assert_eq!(mcp.next("invalid request", error(-32600))["id"], 4711);
    assert_eq!(mcp.request("no/such/method", &json!({}))["error"]["code"], -32601);
    let unknown = mcp.request("tools/call", &json!({"name": "rm_rf", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    for params in [json!({"name": 5}), json!([]), json!({"name": "session", "arguments": []}), json!(null)] {
        let answer = mcp.request("tools/call", &params);
        assert!(answer.get("error").is_some(), "{params}: {answer}");
    }
    mcp.refused("session", &json!({}));
    mcp.refused("session", &json!({"session": 5}));
    assert!(mcp.refused("session", &json!({"session": "missing"})).contains("no session has the id or name"));
    mcp.refused("execute_command", &json!({"command": "true", "as_root": true}));
    mcp.refused("execute_command", &json!({"command": ""}));
    mcp.refused("execute_command", &json!({"command": ["true", "a\u{0}b"]}));
    mcp.refused("execute_command", &json!({"command": ["true"], "shell": "sh"}));
    mcp.refused("start_session", &json!({"command": "true", "cwd": "/no/such/place"}));
    mcp.refused("start_session", &json!({"command": "true", "branch": "x"}));
    mcp.refused("start_session", &json!({"command": "true", "worktree": true}));
    mcp.refused("manage_process", &json!({"action": "explode"}));
    mcp.refused("manage_process", &json!({"action": "kill"}));
    mcp.refused("read_output", &json!({"session": "x", "cursor": -1}));
    mcp.refused("list_sessions", &json!({"limit": 0}));
    let gone = mcp.request("resources/read", &json!({"uri": "session://missing"}));
    assert!(gone["error"]["message"].as_str().unwrap().contains("missing"), "{gone}");
    assert!(mcp.request("resources/read", &json!({"uri": "file:///etc/passwd"})).get("error").is_some());
    mcp.ok("execute_command", &json!({"command": "true"}));
    let (status, stderr) = mcp.leave();
    assert!(status.success() && stderr.is_empty(), "{stderr}");
}

#[test]
fn oversized_arguments_are_refused_and_larger_messages_are_not_parsed() {
    let test_env = test_env();
    let mut mcp = Mcp::start(&test_env, &ALL);
    let long = "x".repeat(10 << 20);
    assert!(mcp.refused("execute_command", &json!({"command": ["true", long]})).contains("at most"));
    let error = mcp.refused("session", &json!({"session": long}));
    assert!(error.contains("no session"), "{}", &error[..80]);
    assert!(mcp.refused("session", &json!({ &long: 1 })).len() < 1000);
    mcp.send_bytes(&[b"y".repeat(20 << 20), b"\n".to_vec()].concat());
    mcp.next("refusal", |message| message["error"]["code"] == -32600);
    mcp.ok("execute_command", &json!({"command": "true"}));
}

#[test]
fn a_client_that_disconnects_during_a_call_leaves_no_process() {
    let test_env = test_env();
    let mut mcp = Mcp::start(&test_env, &ALL);
    let session = mcp.start_sleep();
    mcp.ask_tool("execute_command", &json!({"command": "sleep 300", "timeout": 300}));
    mcp.ask_tool("wait_session", &json!({"session": session, "timeout": 3600}));
    let running = || test_env.json(&["ps"]).as_array().unwrap().len();
    eventually("both run", || running() == 2);
    let (status, stderr) = mcp.leave();
    assert!(status.success(), "{stderr}");
    assert!(stderr.contains("stopped 2 sessions"), "{stderr}");
    assert_no_process_left(&test_env);
    assert_eq!(test_env.record(&session)["status"], "stopped");
}

#[test]
fn fifty_parallel_calls_are_answered_and_leave_no_zombie() {
    let test_env = test_env();
    let mut mcp = Mcp::start(&test_env, &ALL);
    let echo = |number| json!({"command": ["echo", format!("call {number}")]});
    let asked: Vec<_> = (0..50).map(|number| mcp.ask_tool("execute_command", &echo(number))).collect();
    let mut sessions = Vec::new();
    for (number, id) in asked.into_iter().enumerate() {
        let reply = structure(&mcp.answer(id));
        assert_eq!(reply["stdout"], format!("call {number}\n"), "{reply}");
        sessions.push(reply["session"].as_str().unwrap().to_owned());
    }
    eventually("every child was waited for", || children(mcp.pid()).is_empty());
    let listed = mcp.ok("list_sessions", &json!({"limit": 1000}));
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 50);
    let started: Vec<_> =
        (0..50).map(|_| mcp.ask_tool("start_session", &json!({"command": "true"}))).collect();
    for id in started {
        let reply = structure(&mcp.answer(id));
        mcp.ok("wait_session", &json!({"session": reply["session"]["id"]}));
    }
    eventually("every child was waited for", || children(mcp.pid()).is_empty());
    let long: Vec<_> = (0..10).map(|_| mcp.start_sleep()).collect();
    let (status, stderr) = mcp.leave();
    assert!(status.success() && stderr.contains("stopped 10 sessions"), "{stderr}");
    assert!(long.iter().all(|session| carriers(session).is_empty()));
    assert_no_process_left(&test_env);
}

#[test]
fn a_signal_makes_the_server_stop_its_sessions_and_wait_for_them() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let test_env = test_env().with_settings("mcp.allow = [\"*\", \"sh -c *\"]\n");
        let mut mcp = Mcp::start(&test_env, &ALL);
        let stubborn = json!({"command": "trap '' INT; echo up; sleep 600 & wait; sleep 600", "shell": "sh"});
        let reply = mcp.ok("start_session", &stubborn);
        let session = reply["session"]["id"].as_str().unwrap().to_owned();
        let read = json!({"session": session});
        eventually("it traps", || mcp.ok("read_output", &read)["output"] == "up\n");
        let other = test_env.ok(&["run", "-d", "--no-owner", "--", "sleep", "600"]);
        send_signal(mcp.pid(), signal);
        let (status, stderr) = mcp.wait();
        assert!(status.success(), "{stderr}");
        assert_eq!(test_env.record(&session)["status"], "stopped");
        assert_eq!(carriers(&session), Vec::<u64>::new());
        // A session that another process started keeps running.
        assert_eq!(test_env.record(&other)["status"], "running");
        test_env.ok(&["stop", "--force", &other]);
    }
}

#[test]
fn a_signal_during_shutdown_skips_the_grace_period() {
    let test_env = TestEnv::new().with_settings("stop.grace = \"10m\"\nmcp.allow = [\"*\", \"sh -c *\"]\n");
    let mut mcp = Mcp::start(&test_env, &ALL);
    let stubborn =
        json!({"command": "trap '' INT TERM; echo up; while :; do sleep 600; done", "shell": "sh"});
    let reply = mcp.ok("start_session", &stubborn);
    let session = reply["session"]["id"].as_str().unwrap().to_owned();
    let read = json!({"session": session});
    eventually("it traps", || mcp.ok("read_output", &read)["output"] == "up\n");
    let pid = mcp.pid();
    let leaving = std::thread::spawn(move || mcp.leave());
    eventually("it is being stopped", || !test_env.record(&session)["ending"].is_null());
    send_signal(pid, Signal::TERM);
    let (status, stderr) = leaving.join().unwrap();
    assert!(status.success(), "{stderr}");
    assert_eq!(test_env.record(&session)["status"], "stopped");
    assert_no_process_left(&test_env);
}

#[test]
fn sessions_of_a_killed_server_are_stopped_by_their_supervisor_or_by_the_next_server() {
    let test_env = test_env();
    let mut mcp = Mcp::start(&test_env, &ALL);
    let session = mcp.start_sleep();
    kill_9(mcp.pid());
    mcp.wait();
    let record = test_env.wait_until_ended(&session);
    assert_eq!(record["status"], "orphaned");

    let slow = TestEnv::new().with_settings("owner.grace = \"1h\"\nstop.grace = \"2s\"\n");
    let mut mcp = Mcp::start(&slow, &ALL);
    let session = mcp.start_sleep();
    kill_9(mcp.pid());
    mcp.wait();
    let mut next = Mcp::start(&slow, &["--allow-recover"]);
    let shown = next.ok("session", &json!({"session": session}));
    assert_eq!(
        (&shown["session"]["status"], &shown["session"]["observed"]),
        (&json!("running"), &json!("alive"))
    );
    let plan = next.ok("recover", &json!({}));
    assert_eq!(plan["report"]["sessions"][0]["cause"], "owner_dead", "{plan}");
    assert!(!carriers(&session).is_empty());
    let done = next.ok("recover", &json!({"dry_run": false}));
    assert_eq!(
        (&done["report"]["orphans"], &done["report"]["dry_run"]),
        (&json!(1), &json!(false)),
        "{done}"
    );
    assert_eq!(carriers(&session), Vec::<u64>::new());
    assert_eq!(next.ok("session", &json!({"session": session}))["session"]["status"], "orphaned");
    next.leave();
    assert_no_process_left(&slow);
}

#[test]
fn wait_session_reports_progress_and_cancelling_it_keeps_the_session_running() {
    let test_env = test_env();
    let mut mcp = Mcp::start(&test_env, &ALL);
    let session = mcp.start_sleep();
    let waiting = mcp.ask_tool("wait_session", &json!({"session": session, "timeout": 600}));
    let first = mcp.next("progress", |message| message["method"] == "notifications/progress");
    assert_eq!(first["params"]["progressToken"], "progress of wait_session");
    let second = mcp.next("progress", |message| message["method"] == "notifications/progress");
    assert!(second["params"]["progress"].as_f64() > first["params"]["progress"].as_f64());
    let cancelled = json!({"requestId": waiting, "reason": "a test"});
    mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}));
    let shown = mcp.ok("session", &json!({"session": session}));
    assert_eq!(shown["session"]["observed"], "alive");
    let reply = mcp.ok("wait_session", &json!({"session": session, "timeout": 1}));
    assert_eq!((&reply["ended"], &reply["session"]["status"]), (&json!(false), &json!("running")));
    assert!(mcp.waiting.iter().all(|message| message["id"] != waiting), "{:?}", mcp.waiting);
    mcp.ok("stop_session", &json!({"session": session, "force": true}));
    let reply = mcp.ok("wait_session", &json!({"session": session}));
    assert_eq!((&reply["ended"], &reply["session"]["status"]), (&json!(true), &json!("stopped")));
}

#[test]
fn wait_session_fails_at_once_when_the_processes_are_gone() {
    let test_env = test_env();
    let session = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let pid = test_env.record(&session)["process"]["pid"].as_u64().unwrap();
    let supervisor = test_env.record(&session)["supervisor"]["pid"].as_u64().unwrap();
    kill_9(supervisor);
    kill_9(pid);
    eventually("both are gone", || !is_running(supervisor) && !is_running(pid));
    let mut mcp = Mcp::start(&test_env, &["--allow-recover"]);
    let reply = mcp.call("wait_session", &json!({"session": session}));
    assert_eq!((&reply["success"], &reply["ended"]), (&json!(false), &json!(false)), "{reply}");
    assert_eq!(reply["session"]["observed"], "gone");
    mcp.ok("recover", &json!({"dry_run": false}));
    assert_eq!(mcp.ok("wait_session", &json!({"session": session}))["session"]["status"], "orphaned");
}

#[test]
fn manage_process_accepts_a_session_pid_and_never_signals_a_foreign_pid() {
    let test_env = test_env();
    let mut mcp = Mcp::start(&test_env, &ALL);
    let reply = mcp.ok("start_session", &json!({"command": "sleep 600", "name": "mine"}));
    let pid = reply["session"]["pid"].clone();
    let bystander = Bystander::start();
    let foreign: u64 = bystander.pid().parse().unwrap();
    for signal in ["SIGTERM", "SIGKILL"] {
        let kill = json!({"action": "kill", "pid": foreign, "signal": signal});
        assert!(mcp.refused("manage_process", &kill).contains("no running session has the pid"));
    }
    assert!(is_running(foreign));
    mcp.refused("manage_process", &json!({"action": "kill", "pid": pid, "signal": "SIGHUP"}));
    mcp.refused("manage_process", &json!({"action": "kill", "pid": pid, "session": "mine"}));
    let read = mcp.ok("manage_process", &json!({"action": "read", "pid": pid}));
    assert_eq!((&read["output"], &read["cursor"]), (&json!(""), &json!(0)));
    let killed = mcp.ok("manage_process", &json!({"action": "kill", "pid": pid, "signal": "SIGTERM"}));
    assert_eq!((&killed["stopped"], &killed["session"]["status"]), (&json!(true), &json!("stopped")));
    assert_eq!(killed["session"]["signal"], 15);
    let again = mcp.ok("manage_process", &json!({"action": "kill", "session": "mine"}));
    assert_eq!(again["stopped"], false);
    let listed = mcp.ok("manage_process", &json!({"action": "list"}));
    assert_eq!(listed["sessions"][0]["name"], "mine");
}

#[test]
fn sessions_are_listed_as_resources() {
    let test_env = test_env();
    let mut mcp = Mcp::start(&test_env, &ALL);
    let reply = mcp.ok("execute_command", &json!({"command": "echo hello"}));
    let id = reply["session"].as_str().unwrap().to_owned();
    let listed = mcp.request("resources/list", &json!({}));
    let uris: Vec<_> =
        listed["result"]["resources"].as_array().unwrap().iter().map(|resource| &resource["uri"]).collect();
    assert_eq!(uris, [&json!(format!("session://{id}")), &json!(format!("session://{id}/log"))]);
    let templates = mcp.request("resources/templates/list", &json!({}));
    assert_eq!(templates["result"]["resourceTemplates"][1]["uriTemplate"], "session://{id}/log");
    let record = mcp.request("resources/read", &json!({"uri": format!("session://{id}")}));
    let text = record["result"]["contents"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), test_env.record(&id));
    let log = mcp.request("resources/read", &json!({"uri": format!("session://{id}/log")}));
    assert_eq!(log["result"]["contents"][0]["text"], "hello\n");
}

/// Returns the children of a process, including zombies.
fn children(parent: u64) -> Vec<u64> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        after_name.split(' ').nth(1).and_then(|parent| parent.parse().ok()) == Some(parent)
    })
    .collect()
}

/// Requires that no session, supervisor or server of this test environment is running.
fn assert_no_process_left(test_env: &TestEnv) {
    let variable = format!("SEXTON_STATE_DIR={}", test_env.state_dir().display());
    assert_eq!(processes_with(&variable), Vec::<u64>::new());
}
