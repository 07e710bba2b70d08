//! Resource limits of the HTTP server, and that one client cannot block the others.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::http::{Http, hello};
use support::{GENEROUS, TestEnv, eventually};

/// The memory limit of a server in KiB.
const MEMORY: u64 = 64 << 10;

/// The longest wait of a well-behaved client on a loaded machine.
const SOON: Duration = Duration::from_secs(10);

/// Opens a connection and sends these bytes.
fn begin(http: &Http, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&http.authority).unwrap();
    stream.set_read_timeout(Some(GENEROUS)).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream
}

/// Returns the head of a request with a token and this content length, without the body.
fn head(http: &Http, length: usize) -> String {
    let headers: String = http.honest().iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("POST /mcp HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n")
}

/// Reads the status of a response; `None` if the connection was closed.
fn status(stream: &TcpStream) -> Option<u16> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    line.split(' ').nth(1)?.parse().ok()
}

/// Requires that a call in this conversation succeeds within [`SOON`].
fn require_answer(http: &Http, conversation: &str) {
    let begun = Instant::now();
    assert_eq!(http.call(conversation, "list_sessions", &json!({}))["success"], true);
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
}

fn in_conversation<'a>(http: &'a Http, id: &'a str) -> Vec<(&'a str, &'a str)> {
    [http.honest(), vec![("Mcp-Session-Id", id)]].concat()
}

fn ping(id: u64, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping", "params": params}).to_string()
}

/// Each has read its refusal and keeps its connection. None of them has a request in progress.
#[test]
fn i9_clients_with_refused_bodies_do_not_keep_others_out() {
    let test_env = TestEnv::new();
    let http = Http::start(&test_env, &[], None);
    let honest = http.shake_hands(&[]);
    let body = "[".repeat(20_000);
    let mut refused = Vec::new();
    for _ in 0..140 {
        let stream = begin(&http, &(head(&http, body.len()) + &body));
        assert_eq!(status(&stream), Some(413));
        refused.push(stream);
    }
    require_answer(&http, &honest);
}

#[test]
fn i9_a_flood_uses_at_most_64_mib_and_does_not_delay_a_client() {
    let test_env = TestEnv::new();
    let http = Http::start(&test_env, &["--allow-run"], None);
    let honest = http.shake_hands(&[]);
    let hello = hello().to_string();
    for _ in 0..4000 {
        assert_eq!(http.status("POST /mcp", &http.honest(), &hello), 200);
    }
    require_answer(&http, &honest);
    let body = "x".repeat(15_000);
    let stalled: Vec<_> = (0..140).map(|_| begin(&http, &(head(&http, 4_000_000) + &body))).collect();
    require_answer(&http, &honest);
    let slow: Vec<_> = (0..300).map(|_| begin(&http, "POST /mcp HT")).collect();
    require_answer(&http, &honest);
    let headers = in_conversation(&http, &honest);
    for id in 0..10_000 {
        assert_eq!(http.status("POST /mcp", &headers, &ping(id, &json!({}))), 200);
    }
    let huge = [
        ("x".repeat(5 << 20), true),
        ("[".repeat(4_000_000), true),
        (ping(1, &json!({"x": vec![0; 500_000]})), true),
        (ping(2, &json!({"x": vec![0; 16_000]})), false),
        (ping(3, &json!({"x": "y".repeat(4_000_000)})), false),
    ];
    for (body, is_refused) in &huge {
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    // Refusing a body before it was read resets the connection, which can lose the response.
                    let mut reply = http.send("POST /mcp", &http.honest(), body);
                    let Some(got) = http.find_status(&mut reply) else { return };
                    // A ping outside of a conversation is refused after it was read.
                    let fits =
                        if *is_refused { [413, 503].contains(&got) } else { [422, 400, 503].contains(&got) };
                    assert!(fits, "{got} for {} bytes", body.len());
                });
            }
        });
    }
    require_answer(&http, &honest);
    let peak = http.peak_memory();
    assert!(peak <= MEMORY, "{peak} KiB");
    drop((stalled, slow));
}

#[test]
fn i9_idle_conversations_are_closed_before_active_ones() {
    let test_env = TestEnv::new();
    let http = Http::start(&test_env, &[], None);
    let used = http.shake_hands(&[]);
    let idle = http.shake_hands(&[]);
    require_answer(&http, &used);
    // A conversation with an open stream is never closed to make space.
    let mut reply = http.send("GET /mcp", &in_conversation(&http, &idle), "");
    assert_eq!(http.head(&mut reply).0, 200);
    let begun: Vec<_> = (0..100).map(|_| http.shake_hands(&[])).collect();
    require_answer(&http, &idle);
    require_answer(&http, begun.last().unwrap());
    let gone = http.status("POST /mcp", &in_conversation(&http, &begun[0]), &ping(1, &json!({})));
    assert_eq!(gone, 404, "the oldest conversation is still open");

    // A client can close its own conversation.
    let last = begun.last().unwrap();
    assert_eq!(http.status("DELETE /mcp", &in_conversation(&http, last), ""), 202);
    assert_eq!(http.status("POST /mcp", &in_conversation(&http, last), &ping(1, &json!({}))), 404);
    require_answer(&http, &idle);
}

#[test]
fn i9_a_new_conversation_gets_503_when_all_are_in_use() {
    let test_env = TestEnv::new();
    let http = Http::start(&test_env, &[], None);
    let open: Vec<_> = (0..64)
        .map(|_| {
            let id = http.shake_hands(&[]);
            let mut reply = http.send("GET /mcp", &in_conversation(&http, &id), "");
            assert_eq!(http.head(&mut reply).0, 200);
            (id, reply)
        })
        .collect();
    let mut reply = http.send("POST /mcp", &http.honest(), &hello().to_string());
    let (status, headers) = http.head(&mut reply);
    assert_eq!(status, 503);
    assert!(headers.contains(&"retry-after: 1".to_owned()), "{headers:?}");
    require_answer(&http, &open[0].0);
    drop(open);
    eventually("there is space again", || {
        http.status("POST /mcp", &http.honest(), &hello().to_string()) == 200
    });
}

#[test]
fn i9_an_incomplete_body_or_header_times_out() {
    let test_env = TestEnv::new();
    let http = Http::start(&test_env, &[], None);
    let body = begin(&http, &head(&http, 100));
    let mut header = begin(&http, "POST /mcp HTTP/1.1\r\nHost: ");
    let wide =
        begin(&http, &format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "y".repeat(40_000)));
    assert_eq!(status(&wide), Some(431));
    let many = "X: y\r\n".repeat(100);
    let many = begin(&http, &format!("GET /mcp HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"));
    assert_eq!(status(&many), Some(431));
    let begun = Instant::now();
    assert_eq!(status(&body), Some(408));
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    // The connection with the incomplete header is closed, with or without a response.
    let mut rest = String::new();
    let _ = header.read_to_string(&mut rest);
    assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 408"), "{rest}");
}

#[test]
fn i9_too_many_connections_close_idle_ones_and_no_running_call() {
    let test_env = TestEnv::new();
    let http = Http::start(&test_env, &["--allow-run"], None);
    let (conversation, other) = (http.shake_hands(&[]), http.shake_hands(&[]));
    let arguments = json!({"command": "sleep 3", "timeout": 60});
    std::thread::scope(|scope| {
        let call = scope.spawn(|| http.call(&conversation, "execute_command", &arguments));
        eventually("it runs", || !test_env.json(&["ps"]).as_array().unwrap().is_empty());
        // Without a token, so every user of this machine can do this.
        let idle: Vec<_> = (0..600).map(|_| begin(&http, "")).collect();
        require_answer(&http, &other);
        assert_eq!(call.join().unwrap()["exit_code"], 0);
        let open = std::fs::read_dir(format!("/proc/{}/fd", http.pid())).unwrap().count();
        assert!(open < 200, "{open} descriptors");
        drop(idle);
    });
}
