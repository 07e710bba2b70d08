//! Hostile clients of `sexton mcp --http`: floods, requests that never end, requests without a token, and
//! other users on its socket. The server keeps its memory bounded, answers its legitimate client, and runs
//! nothing for the others.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use sexton_test_harness::TestEnv;
use sexton_test_harness::http::{Http, bearer, hello};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};
use crate::mounts::require_root;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "clients",
    promises: "I9 I11",
    what: "clients of the MCP server that flood it, stall, have no token, or are other users",
    mutants: &["no_session_limit", "no_body_limit", "no_token", "no_peer_check"],
    tools: &[("perl", "perl-base")],
    minutes: 2,
    runs_alone: false,
    run,
};

/// The most memory that a server may use, in KiB.
const MEMORY: u64 = 64 << 10;
/// A user with no files or processes on this machine.
const STRANGER: u32 = 60002;

fn run(trials: &mut Trials) {
    require_root();
    for round in 0..trials.either(1, 5) {
        let calls = trials.either(1500, 4000);
        trials.trial(&format!("{calls} conversations, round {round}"), || open_conversations(calls));
        let kinds: Vec<u64> = (0..trials.either(120, 600)).map(|_| trials.random(6)).collect();
        trials.trial(&format!("{} hostile requests, round {round}", kinds.len()), || send_hostile(&kinds));
        trials.trial(&format!("requests without a token, round {round}"), send_without_token);
        trials.trial(&format!("another user on the socket, round {round}"), connect_as_stranger);
    }
}

/// A server with a legitimate client, and the checks at the end of each trial.
struct Served {
    test_env: TestEnv,
    bystanders: Bystanders,
    http: Http,
    conversation: String,
}

impl Served {
    fn start() -> Served {
        let test_env = TestEnv::new();
        let bystanders = Bystanders::plant(&test_env);
        let http = Http::start(&test_env, &["--allow-run"], None);
        let conversation = http.shake_hands(&[]);
        Served { test_env, bystanders, http, conversation }
    }

    fn require_answer(&self) {
        let answer = self.http.call(&self.conversation, "list_sessions", &json!({}));
        assert_eq!(answer["success"], true, "the legitimate client was refused: {answer}");
    }

    fn require_unharmed(&self) {
        self.require_answer();
        let peak = self.http.peak_memory();
        assert!(peak <= MEMORY, "the server used {peak} KiB");
        self.bystanders.require_untouched(&self.test_env);
    }

    /// Sends as many of these bytes as the server accepts, and leaves the connection open.
    fn begin(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.http.authority).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let _ = stream.write_all(bytes);
        stream
    }

    /// Returns the header of a request with a token and a body of this length.
    fn head(&self, length: usize) -> String {
        let headers = self.http.honest();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("POST /mcp HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n")
    }
}

fn open_conversations(calls: u64) -> u64 {
    let served = Served::start();
    let hello = hello().to_string();
    for number in 0..calls {
        assert_eq!(served.http.status("POST /mcp", &served.http.honest(), &hello), 200);
        if number % 500 == 0 {
            served.require_answer();
        }
    }
    served.require_unharmed();
    calls
}

/// Sends requests of random kinds, each on a connection that stays open until the end.
fn send_hostile(kinds: &[u64]) -> u64 {
    let served = Served::start();
    let mut open = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        open.push(match kind {
            0 => served.begin(b"POST /mcp HT"),
            1 => served.begin((served.head(4_000_000) + &"x".repeat(60_000)).as_bytes()),
            2 => served.begin((served.head(3_000_000) + &"[".repeat(3_000_000)).as_bytes()),
            // It never ends, so that a server without a limit keeps all of it.
            3 => served.begin((served.head((6 << 20) + 1) + &"x".repeat(6 << 20)).as_bytes()),
            4 => served.begin(format!("GET /mcp HTTP/1.1\r\nX: {}\r\n", "y".repeat(100_000)).as_bytes()),
            _ => served.begin(&[0xff; 4096]),
        });
        if number % 40 == 0 {
            served.require_answer();
        }
    }
    served.require_unharmed();
    kinds.len() as u64
}

/// Requires that every request with no token or a wrong one is refused, without an answer and without running
/// anything.
fn send_without_token() -> u64 {
    let served = Served::start();
    let marker = served.test_env.path().join("ran");
    let arguments =
        json!({"name": "execute_command", "arguments": {"command": format!("touch {}", marker.display())}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments}).to_string();
    let wrong = ["", "Bearer", "Bearer ", "Basic x", "bearer\tx"].map(str::to_owned);
    let wrong = wrong.into_iter().chain([bearer("x"), bearer(&"0".repeat(64))]);
    let attempts: Vec<String> = wrong.collect();
    for authorization in &attempts {
        for body in [&hello().to_string(), &call] {
            let mut headers = served.http.stranger();
            headers.push(("Mcp-Session-Id", &served.conversation));
            if !authorization.is_empty() {
                headers.push(("Authorization", authorization));
            }
            let status = served.http.status("POST /mcp", &headers, body);
            assert_eq!(status, 401, "{authorization:?} was accepted");
        }
    }
    assert!(!marker.exists(), "a command was run for a client without a token");
    let sessions = served.test_env.json(&["ps", "-a"]);
    assert_eq!(
        sessions.as_array().unwrap().len(),
        1,
        "there is more than the bystander's session: {sessions}"
    );
    served.require_unharmed();
    2 * attempts.len() as u64
}

/// Requires that another user reads no byte from the socket, even if its mode was changed afterwards.
fn connect_as_stranger() -> u64 {
    let test_env = TestEnv::new();
    let bystanders = Bystanders::plant(&test_env);
    let directory = test_env.path().join("run");
    std::fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o700);
    let path = directory.join("mcp.sock");
    let address = format!("unix:{}", path.display());
    let mut command = test_env.command(&["mcp", "--allow-run", "--http", &address]);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(server.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), format!("listening on {address}"));
    set_mode(test_env.path(), 0o755);
    let refused = read_as_stranger(&path);
    set_mode(&directory, 0o755);
    set_mode(&path, 0o666);
    let reached = read_as_stranger(&path);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(refused, "Permission denied");
    assert_eq!(reached, "", "another user was answered");
    bystanders.require_untouched(&test_env);
    2
}

/// Returns what another user reads from the socket, or why it could not connect.
fn read_as_stranger(path: &Path) -> String {
    let script = r#"use IO::Socket::UNIX; $SIG{PIPE} = "IGNORE"; local $/;
        my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or do { print "$!"; exit };
        print $s $ARGV[1]; $s->flush; print <$s>;"#;
    let body = hello().to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut command = Command::new("perl");
    command.args(["-e", script]).arg(path).arg(request).uid(STRANGER).gid(STRANGER).current_dir("/");
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
