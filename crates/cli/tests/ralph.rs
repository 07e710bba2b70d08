//! The ticket loop, with the real program: what it runs, merges and refuses, and how it stops.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::tickets::{QUICK, Tickets};
use support::tmux::Terminal;
use support::{Ran, TestEnv, eventually, is_running, kill_9, quoted_program, send_signal};

fn config_json(tickets: &Tickets, document: &Value) {
    let folder = tickets.repository.path().join(".tf/ralph");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), document.to_string()).unwrap();
}

fn events(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn ralph_run_merges_one_ticket_and_leaves_nothing_behind() {
    let tickets = Tickets::new(&[]);
    let agent = tickets.agent();
    let ran = tickets.run(&mut tickets.command(&["ralph", "run", "ok-1", "--agent", &agent]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("ok-1    merged"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("promise"), "`ralph run` must not print the promise");
    tickets.require_exactly(&["ok-1"]);
    tickets.require_nothing_runs();
    assert_eq!(tickets.repository.branches().lines().count(), 1, "its branch is left");
    assert_eq!(tickets.repository.worktrees().len(), 1);
    let failed = tickets.run(&mut tickets.command(&["ralph", "run", "fail-1", "--agent", &agent]));
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    assert!(failed.stderr.contains("failed 2 times, the last time: exit code 7"), "{}", failed.stderr);
}

#[test]
fn the_promise_is_the_last_line_when_all_tickets_are_done() {
    let tickets = Tickets::new(&["ok-1", "late-1", "idle-1"]);
    let ran = tickets.run(&mut tickets.start(&[]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().last(), Some("<promise>COMPLETE</promise>"));
    tickets.require_exactly(&["late-1", "ok-1"]);
    let record = tickets.record();
    assert_eq!((&record["status"], &record["loop"]["active"]), (&json!("completed"), &json!(false)));
    let off = Tickets::with_settings(&[], &format!("{QUICK}promise = \"off\"\n"));
    assert_eq!(off.run(&mut off.start(&[])).stdout, "");
}

#[test]
fn json_prints_one_event_per_line_and_ends_with_a_summary() {
    let tickets = Tickets::new(&["ok-1", "clash-1"]);
    let ran = tickets.run(&mut tickets.start(&["--json"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (3, ""));
    let events = events(&ran);
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["began", "recovered", "started", "ended", "done", "started", "ended", "conflict", "finished"]
    );
    let last = events.last().unwrap();
    assert_eq!((&last["phase"], &last["promise"]), (&json!("complete"), &Value::Null));
    assert_eq!(last["tickets"][0]["paths"], json!(["tracked"]));
    let worktree = last["tickets"][0]["worktree"].as_str().unwrap();
    assert!(Path::new(worktree).join("tracked").exists(), "a conflict keeps its worktree");
}

#[test]
fn a_dry_run_prints_the_exact_command_and_changes_nothing() {
    let tickets = Tickets::new(&["T-1"]);
    let dry = |more: &[&str]| {
        let mut command =
            tickets.command(&[&["ralph", "start", "--dry-run", "--ticket-query", "echo T-1"], more].concat());
        command.env("RALPH_FORCE_LEGACY_SESSIONS", "1");
        tickets.run(&mut command)
    };
    let plain = dry(&[]);
    assert_eq!((plain.code, plain.stdout.as_str()), (0, "pi -p '/tf T-1 --auto'\n"), "{}", plain.stderr);
    let captured = events(&dry(&["--json", "--capture-json"]));
    assert_eq!(captured[0]["argv"], json!(["pi", "-p", "--mode", "json", "/tf T-1 --auto"]));
    let log = captured[0]["log"].as_str().unwrap().to_owned();
    assert!(log.ends_with("/logs/T-1.jsonl"), "{log}");
    let other = dry(&["--json", "--agent", r#"claude -p "work on {ticket}; then 'rest'" --x={ticket}"#]);
    assert_eq!(events(&other)[0]["argv"], json!(["claude", "-p", "work on T-1; then 'rest'", "--x=T-1"]));
    assert!(!tickets.test_env.store_path().exists(), "a dry run made a store");
    assert_eq!(tickets.repository.branches().lines().count(), 1);
}

#[test]
fn no_session_argument_is_ever_passed_and_each_deprecated_setting_warns_once() {
    let tickets = Tickets::new(&["T-1"]);
    let deprecated = ["sessionDir", "sessionPerTicket", "RALPH_FORCE_LEGACY_SESSIONS"];
    for old in [false, true] {
        if old {
            config_json(&tickets, &json!({"sessionDir": ".tf/ralph/sessions", "sessionPerTicket": true}));
        }
        for more in [&[][..], &["--capture-json"], &["--agent", "pi {ticket}"], &["--parallel", "3"]] {
            let arguments = [&["ralph", "start", "--dry-run", "--ticket-query", "echo T-1; echo T-2"], more];
            let mut command = tickets.command(&arguments.concat());
            if old {
                command.env("RALPH_FORCE_LEGACY_SESSIONS", "1");
            }
            let ran = tickets.run(&mut command);
            assert_eq!((ran.code, ran.stdout.lines().count()), (0, 2), "{}", ran.stderr);
            assert!(!ran.stdout.contains("--session"), "{}", ran.stdout);
            for setting in deprecated {
                let warnings = ran.stderr.matches(&format!("`{setting}` is deprecated")).count();
                assert_eq!(warnings, usize::from(old), "{setting}: {}", ran.stderr);
            }
        }
    }
}

#[test]
fn captured_output_is_byte_identical_to_the_agents_output() {
    let tickets = Tickets::new(&["T-1"]);
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let home = tickets.test_env.path();
    std::fs::write(home.join("bytes"), &bytes).unwrap();
    // The first attempt fails; its output must not appear in the file of the second.
    let script = "cat \"$HOME/bytes\"; echo complaint >&2; test \"$SEXTON_ATTEMPT\" = 2 || exit 1; \
        touch \"$HOME/closed/$1\"; printf 'no newline at the end'";
    std::fs::write(home.join("printing.sh"), script).unwrap();
    let agent = format!("sh '{}' {{ticket}}", home.join("printing.sh").display());
    let ran = tickets.run(&mut tickets.start(&["--capture-json", "--json", "--agent", &agent]));
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let started: Vec<_> = events(&ran).into_iter().filter(|event| event["event"] == "started").collect();
    let logs = Path::new(started[0]["log"].as_str().unwrap()).parent().unwrap();
    let mut expected = bytes.clone();
    expected.extend(b"no newline at the end");
    assert!(std::fs::read(logs.join("T-1.jsonl")).unwrap() == expected, "the captured output differs");
    for (event, expected) in started.iter().zip([&bytes, &expected]) {
        assert!(std::fs::read(event["log"].as_str().unwrap()).unwrap() == *expected);
    }
    let session = started[1]["session"].as_str().unwrap();
    assert_eq!(tickets.test_env.ok(&["logs", session, "--stderr"]), "complaint");
}

#[test]
fn a_retry_starts_with_the_rescued_work_of_the_last_attempt() {
    for (from_rescue, state) in [(true, "merged"), (false, "set_aside")] {
        let settings = format!("{QUICK}retry.from_rescue = {from_rescue}\n");
        let tickets = Tickets::with_settings(&["second-1"], &settings);
        let ran = tickets.run(&mut tickets.start(&[]));
        assert_eq!(tickets.states()["second-1"], state, "{}", ran.stderr);
        if from_rescue {
            assert_eq!(tickets.repository.git(&["show", "main:second-1"]), "half of second-1\nthe rest");
        }
    }
}

#[test]
fn orphans_of_a_killed_loop_are_stopped_and_their_work_goes_to_the_next_attempt() {
    let tickets = Tickets::new(&["hang-1"]);
    let mut ralph = tickets.spawn(&mut tickets.start(&[]));
    tickets.wait_for_work("hang-1");
    let orphan = tickets.test_env.json(&["ps", "--ticket", "hang-1"])[0].clone();
    kill_9(ralph.id().into());
    ralph.wait().unwrap();
    let mut again = tickets.spawn(&mut tickets.start(&["--json"]));
    let id = orphan["id"].as_str().unwrap();
    eventually("the rescued work is used", || tickets.output().contains(&format!("\"rescue\":\"{id}\"")));
    assert!(!is_running(orphan["process"]["pid"].as_u64().unwrap()), "the orphan still runs");
    assert_eq!(tickets.test_env.record(id)["status"], "orphaned");
    let output = tickets.output();
    let at = |what: &str| output.find(what).unwrap_or_else(|| panic!("no {what} in {output}"));
    assert!(at("\"event\":\"continued\"") < at("\"event\":\"recovered\""));
    assert!(
        at("\"event\":\"recovered\"") < at("\"event\":\"started\""),
        "a ticket was started before recovery"
    );
    assert_eq!(tickets.record()["loop"]["iteration"], 1, "the iteration count was reset");
    let records = tickets.test_env.json(&["ps", "-a", "--status", "transferred"]);
    assert_eq!(records.as_array().unwrap().len(), 1, "the first loop was not taken over");
    send_signal(again.id().into(), Signal::INT);
    again.wait().unwrap();
    tickets.require_nothing_runs();
}

#[test]
fn a_second_start_in_the_same_repository_is_refused_and_names_the_first() {
    let tickets = Tickets::new(&["hang-1"]);
    let mut ralph = tickets.spawn(&mut tickets.start(&[]));
    tickets.wait_for_work("hang-1");
    let first = tickets.record();
    let second = tickets.run(&mut tickets.start(&[]));
    assert_eq!(second.code, 1);
    let named = format!("session {}, process {}", first["id"].as_str().unwrap(), ralph.id());
    assert!(second.stderr.contains(&named), "{}", second.stderr);
    // `ralph run` cannot work on the same ticket either.
    let agent = tickets.agent();
    let other = tickets.run(&mut tickets.command(&["ralph", "run", "hang-1", "--agent", &agent]));
    assert!(other.stderr.contains("already works on it"), "{}", other.stderr);
    assert_eq!(tickets.record()["id"], first["id"]);
    // Its record is a session like any other.
    tickets.test_env.ok(&["stop", "ralph:work"]);
    ralph.wait().unwrap();
    assert_eq!(tickets.record()["status"], "stopped");
    tickets.require_nothing_runs();
}

#[test]
fn the_first_signal_stops_the_loop_gracefully_and_a_restart_continues() {
    for signal in [Signal::INT, Signal::TERM] {
        let tickets = Tickets::new(&["hang-1", "ok-1"]);
        let mut ralph = tickets.spawn(&mut tickets.start(&[]));
        tickets.wait_for_work("hang-1");
        send_signal(ralph.id().into(), signal);
        let code = ralph.wait().unwrap().code();
        assert_eq!(code, Some(128 + signal.as_raw()), "{}", tickets.output());
        tickets.require_nothing_runs();
        let record = tickets.record();
        assert_eq!((&record["status"], &record["loop"]["phase"]), (&json!("stopped"), &json!("interrupted")));
        assert_eq!(tickets.states(), [("hang-1".to_owned(), "waiting".to_owned())].into());
        assert_eq!(tickets.repository.worktrees().len(), 1, "its worktree was not removed");
        assert_eq!(tickets.repository.rescues().len(), 1);
        let sessions = tickets.test_env.json(&["ps", "-a", "--ticket", "hang-1"]);
        assert_eq!(sessions[0]["status"], "stopped");
        // A restart continues with the same ticket, and the interruption does not count as an attempt.
        let mut again = tickets.spawn(&mut tickets.start(&["--json"]));
        eventually("it continues", || tickets.output().contains("\"attempt\":1,"));
        send_signal(again.id().into(), signal);
        again.wait().unwrap();
        tickets.require_nothing_runs();
    }
}

#[test]
fn a_second_signal_exits_at_once_and_loses_nothing() {
    let settings = QUICK.replace("500ms", "60s");
    let tickets = Tickets::with_settings(&["deaf-1"], &settings);
    let mut ralph = tickets.spawn(&mut tickets.start(&[]));
    tickets.wait_for_work("deaf-1");
    send_signal(ralph.id().into(), Signal::INT);
    eventually("the signal is handled", || tickets.output().contains("repeat the signal to kill them"));
    send_signal(ralph.id().into(), Signal::INT);
    assert_eq!(ralph.wait().unwrap().code(), Some(130), "{}", tickets.output());
    tickets.require_nothing_runs();
    assert_eq!(tickets.record()["loop"]["phase"], "interrupted");
    // The next loop cleans up what this one did not wait for.
    let mut again = tickets.spawn(&mut tickets.start(&["--json"]));
    eventually("the rescued work is used", || tickets.output().contains("\"rescue\":\""));
    send_signal(again.id().into(), Signal::INT);
    eventually("the signal is handled", || tickets.output().contains("\"event\":\"stopping\""));
    send_signal(again.id().into(), Signal::INT);
    again.wait().unwrap();
    tickets.require_nothing_runs();
}

#[test]
fn a_terminal_shows_one_line_per_session_and_ctrl_c_stops_the_loop() {
    let tickets = Tickets::new(&["hang-1", "deaf-1"]);
    let terminal = Terminal::open(tickets.test_env.path(), 100, 24, |command| tickets.enclose(command));
    // The agent prints a colour code, which must not reach the terminal.
    let agent = "sh -c 'printf \"\\033[31mred words of %s\\033[0m\" $0; exec sleep 600' {ticket}";
    let script = format!(
        "exec {} ralph start --parallel 2 --ticket-query {} --agent {}",
        quoted_program(),
        "'printf \"A\\nB\"'",
        "\"$1\""
    );
    let path = tickets.test_env.path().join("go.sh");
    std::fs::write(&path, script).unwrap();
    std::fs::write(tickets.test_env.path().join("agent"), agent).unwrap();
    terminal.type_line(&format!("clear; sh {} \"$(cat \"$HOME/agent\")\"; echo code $?", path.display()));
    let screen = terminal.wait_until("both lines are there", |screen| {
        screen.contains("red words of A")
            && screen.contains("red words of B")
            && screen.contains("0/2 tickets")
    });
    assert!(!screen.contains("[31m"), "{screen}");
    terminal.press(&["C-c"]);
    let screen = terminal.wait_for("code 130");
    assert!(screen.contains("not done"), "{screen}");
    drop(terminal);
    tickets.require_nothing_runs();
    assert_eq!(tickets.record()["loop"]["phase"], "interrupted");
}

#[test]
fn a_dirty_base_branch_defers_the_merge_and_is_not_touched() {
    let tickets = Tickets::new(&["ok-1"]);
    let tracked = tickets.repository.path().join("tracked");
    std::fs::write(&tracked, "mine\n").unwrap();
    let ran = tickets.run(&mut tickets.start(&[]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("ok-1 cannot be merged now: the branch `main` has uncommitted changes"));
    assert!(!ran.stdout.contains("<promise>"), "{}", ran.stdout);
    assert_eq!(std::fs::read_to_string(&tracked).unwrap(), "mine\n");
    assert_eq!(tickets.states()["ok-1"], "merging");
    tickets.repository.git(&["checkout", "--quiet", "--", "tracked"]);
    let ran = tickets.run(&mut tickets.start(&[]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    tickets.require_exactly(&["ok-1"]);
    assert_eq!(tickets.repository.worktrees().len(), 1);
}

#[test]
fn no_merge_leaves_the_work_on_its_branch() {
    let tickets = Tickets::new(&["ok-1"]);
    let ran = tickets.run(&mut tickets.start(&["--no-merge"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    tickets.require_exactly(&[]);
    assert_eq!(tickets.repository.git(&["show", "ralph/ok-1:ok-1"]), "work on ok-1");
    assert_eq!(tickets.repository.worktrees().len(), 1);
}

#[test]
fn query_output_is_never_executed() {
    let tickets = Tickets::new(&[]);
    let evil = "echo '../x; touch pwned'; echo '$(touch pwned)'; echo '-rf'; echo 'a b'";
    let agent = tickets.agent();
    let arguments = ["ralph", "start", "--agent", &agent, "--ticket-query", evil];
    let ran = tickets.run(&mut tickets.command(&arguments));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("is not a valid ticket").count(), 4, "{}", ran.stderr);
    assert!(!tickets.repository.path().join("pwned").exists());
    assert_eq!(tickets.repository.branches().lines().count(), 1);
    let named = tickets.run(&mut tickets.command(&["ralph", "run", "../x; rm -rf ~", "--agent", &agent]));
    assert_eq!(named.code, 2, "{}", named.stderr);
}

#[test]
fn a_failing_query_stops_the_loop_and_its_stderr_is_reported() {
    let tickets = Tickets::new(&[]);
    let agent = tickets.agent();
    let query = "echo oh no >&2; exit 5";
    let arguments = ["ralph", "start", "--agent", &agent, "--ticket-query", query];
    let ran = tickets.run(&mut tickets.command(&arguments));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(
        ran.stderr.matches("the ticket query failed: exit code 5: oh no").count(),
        3,
        "{}",
        ran.stderr
    );
    assert_eq!(tickets.record()["status"], "failed");
}

#[test]
fn a_ticket_that_stays_open_is_set_aside_after_the_maximum_of_iterations() {
    let settings = format!("{QUICK}max_iterations_per_ticket = 2\n");
    let tickets = Tickets::with_settings(&[], &settings);
    let agent = tickets.agent();
    let arguments = ["ralph", "start", "--agent", &agent, "--ticket-query", "echo ok-1"];
    let ran = tickets.run(&mut tickets.command(&arguments));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("the query still returns it after it was done 2 times"), "{}", ran.stderr);
    assert_eq!(tickets.record()["loop"]["iteration"], 2);
    tickets.require_exactly(&["ok-1"]);
}

#[test]
fn a_missing_agent_is_reported_before_any_ticket_starts() {
    let tickets = Tickets::new(&["T-1"]);
    let ran = tickets.run(&mut tickets.start(&["--agent", "no-such-agent-anywhere {ticket}"]));
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("`no-such-agent-anywhere` is not installed"), "{}", ran.stderr);
    assert!(!tickets.test_env.store_path().exists());
    // An agent that is found missing only at its start stops the loop; the ticket does not count as failed.
    let ran = tickets.run(&mut tickets.start(&["--agent", "./no-such-file {ticket}"]));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot execute `./no-such-file`"), "{}", ran.stderr);
    assert_eq!(tickets.states()["T-1"], "waiting");
    assert_eq!(tickets.repository.worktrees().len(), 1);
}

#[test]
fn a_directory_without_a_usable_branch_is_refused_with_the_reason() {
    let test_env = TestEnv::new().with_settings(QUICK);
    let refused = |why: &str| {
        let ran = test_env.sexton(&["ralph", "run", "T-1", "--agent", "true {ticket}"]);
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
        assert!(!test_env.store_path().exists());
    };
    refused("it is not in a git repository");
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.current_dir(test_env.work_dir()).args(arguments).env("HOME", test_env.path());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(command.status().unwrap().success());
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    refused("the branch `main` has no commit");
    let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
    git(&[&identity[..], &["commit", "--quiet", "--allow-empty", "--message", "x"]].concat());
    git(&["checkout", "--quiet", "--detach"]);
    refused("no branch is checked out");
}

#[test]
#[cfg(feature = "store-tf")]
fn a_store_of_another_tool_is_refused_and_unchanged() {
    let tickets = Tickets::new(&["ok-1"]);
    let file = tickets.test_env.path().join("dispatch-sessions.json");
    let text = "{\"version\":1,\"sessions\":[]}";
    std::fs::write(&file, text).unwrap();
    let ran = tickets.run(&mut tickets.start(&["--store", &format!("tf:{}", file.display())]));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("a tf store cannot keep the record of a loop"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    tickets.require_exactly(&[]);
}

#[test]
fn a_ticket_whose_branch_exists_already_is_skipped() {
    let tickets = Tickets::new(&["ok-1", "ok-2"]);
    tickets.repository.git(&["branch", "ralph/ok-1"]);
    let ran = tickets.run(&mut tickets.start(&[]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("the branch `ralph/ok-1` already exists"), "{}", ran.stderr);
    tickets.require_exactly(&["ok-2"]);
    assert_eq!(
        tickets.repository.git(&["rev-parse", "ralph/ok-1"]),
        tickets.repository.git(&["rev-parse", "main^"])
    );
}

#[test]
fn commands_of_an_untrusted_repository_are_not_run() {
    let tickets = Tickets::new(&[]);
    config_json(
        &tickets,
        &json!({"ticketQuery": "touch pwned; echo T-1", "workflow": "/evil", "maxIterations": "many"}),
    );
    let ran = tickets.run(&mut tickets.command(&["ralph", "start", "--dry-run"]));
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("sets ralph.workflow, ralph.ticket_query"), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("`maxIterations` is `\"many\"` but must be a whole number; its default is used: 50")
    );
    assert!(!tickets.repository.path().join("pwned").exists());
    // Commands from the command line are used, and the file's commands once it is trusted.
    let given = ["ralph", "start", "--dry-run", "--ticket-query", "echo T-1", "--agent", "mine {ticket}"];
    assert_eq!(tickets.run(&mut tickets.command(&given)).stdout, "mine T-1\n");
    tickets.test_env.ok(&["trust"]);
    let ran = tickets.run(&mut tickets.command(&["ralph", "start", "--dry-run"]));
    assert_eq!(ran.stdout, "pi -p '/evil T-1 --auto'\n", "{}", ran.stderr);
    assert!(tickets.repository.path().join("pwned").exists());
    let config = tickets.test_env.json(&["config"]);
    assert_eq!(config["ralph.ticket_query"]["value"], "touch pwned; echo T-1");
}
