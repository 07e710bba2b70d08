//! `sexton mcp --http`: who may ask, and what the protocol is worth to those who may.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use support::mcp::structure;
use support::{GENEROUS, Yard, carriers, eventually, is_running, processes_with, send_signal};

const TOKEN: &str = "a-token-that-nobody-guesses";

/// A server that listens on a free port of this machine.
struct Http {
    child: Child,
    authority: String,
    said: Option<JoinHandle<String>>,
}

impl Http {
    fn start(yard: &Yard, flags: &[&str], token: Option<&str>) -> Http {
        let mut command = yard.command(&[&["mcp", "--http", "127.0.0.1:0"], flags].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(token) = token {
            command.env("SEXTON_MCP_TOKEN", token);
        }
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut begun = String::new();
        let authority = loop {
            let before = begun.len();
            assert!(stderr.read_line(&mut begun).unwrap() > 0, "it said {begun}");
            let line = begun[before..].trim();
            let address =
                line.strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
            if let Some(address) = address {
                break address.to_owned();
            }
        };
        let said = std::thread::spawn(move || {
            stderr.read_to_string(&mut begun).unwrap();
            begun
        });
        Http { child, authority, said: Some(said) }
    }

    fn pid(&self) -> u64 {
        self.child.id().into()
    }

    /// Opens a connection and sends a request with exactly these headers and this body.
    fn send(&self, request: &str, headers: &[(&str, &str)], body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.set_read_timeout(Some(GENEROUS)).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head =
            format!("{request} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
        // A server that has refused already may have closed its side.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        BufReader::new(stream)
    }

    /// The status and headers of an answer.
    fn head(&self, reply: &mut BufReader<TcpStream>) -> (u16, Vec<String>) {
        let mut lines = reply.lines().map_while(Result::ok).take_while(|line| !line.is_empty());
        let status = lines.next().expect("an answer");
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        (status, lines.map(|line| line.to_lowercase()).collect())
    }

    /// The status that this request gets.
    fn status(&self, request: &str, headers: &[(&str, &str)], body: &str) -> u16 {
        let mut reply = self.send(request, headers, body);
        self.head(&mut reply).0
    }

    /// The headers of an honest client.
    fn honest(&self) -> Vec<(&str, &str)> {
        vec![
            ("Host", self.authority.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ]
    }

    /// Says hello, and gives back the id of the conversation.
    fn shake_hands(&self, extra: &[(&str, &str)]) -> String {
        let headers = [self.honest(), extra.to_vec()].concat();
        let mut reply = self.send("POST /mcp", &headers, &hello().to_string());
        let (status, headers) = self.head(&mut reply);
        assert_eq!(status, 200);
        let id = headers.iter().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
        let headers = [self.honest(), extra.to_vec(), vec![("Mcp-Session-Id", id.as_str())]].concat();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        assert_eq!(self.status("POST /mcp", &headers, &ready), 202);
        id
    }

    /// Asks for a tool in a conversation, and gives back the connection on which the answer comes.
    fn ask(&self, conversation: &str, tool: &str, arguments: &Value) -> BufReader<TcpStream> {
        let headers = [self.honest(), vec![("Mcp-Session-Id", conversation)]].concat();
        let params = json!({"name": tool, "arguments": arguments});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.send("POST /mcp", &headers, &request.to_string())
    }

    /// Calls a tool.
    fn call(&self, conversation: &str, tool: &str, arguments: &Value) -> Value {
        let mut reply = self.ask(conversation, tool, arguments);
        assert_eq!(self.head(&mut reply).0, 200);
        let lines = reply.lines().map_while(Result::ok);
        let mut messages =
            lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        structure(&messages.find(|message| message["id"] == 1).expect("an answer"))
    }

    /// Waits for the server to end, and gives back everything it said.
    fn end(mut self) -> String {
        send_signal(self.pid(), rustix::process::Signal::TERM);
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        assert!(self.child.wait().unwrap().success());
        stdout + &self.said.take().unwrap().join().unwrap()
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hello() -> Value {
    let client = json!({"name": "a test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[test]
fn only_who_bears_the_token_is_heard_and_nobody_ever_sees_it() {
    let yard = Yard::new().with_settings(&format!("mcp.token = \"{TOKEN}\"\n"));
    let http = Http::start(&yard, &["--allow-run"], None);
    let hello = hello().to_string();
    let ask =
        |extra: &[(&str, &str)]| http.status("POST /mcp", &[http.honest(), extra.to_vec()].concat(), &hello);
    assert_eq!(ask(&[]), 401);
    for wrong in ["", "Bearer", "Bearer wrong-token-wrong-token", TOKEN, "Basic YTpi"] {
        assert_eq!(ask(&[("Authorization", wrong)]), 401, "{wrong}");
    }
    let right = bearer(TOKEN);
    assert_eq!(ask(&[("Authorization", &right), ("Authorization", "Bearer other-other-other")]), 401);
    assert_eq!(ask(&[("Authorization", &right)]), 200);
    let config = yard.sexton(&["config"]);
    let config_json = yard.json(&["config"]);
    assert_eq!(config_json["mcp.token"]["value"], "set");
    let said = http.end();
    assert!(said.contains("others can read the token in"), "{said}");
    for text in [said, config.stdout, config.stderr, config_json.to_string()] {
        assert!(!text.contains(TOKEN), "{text}");
    }
}

#[test]
fn a_token_from_the_environment_is_not_handed_on_to_what_is_run() {
    let yard = Yard::new();
    let http = Http::start(&yard, &["--allow-run"], Some(TOKEN));
    let right = bearer(TOKEN);
    let conversation = http.shake_hands(&[("Authorization", &right)]);
    let headers =
        [http.honest(), vec![("Mcp-Session-Id", conversation.as_str()), ("Authorization", &right)]].concat();
    let params = json!({"name": "execute_command", "arguments": {"command": "printenv"}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut reply = http.send("POST /mcp", &headers, &request.to_string());
    let mut text = String::new();
    reply.read_to_string(&mut text).unwrap();
    assert!(text.contains("SEXTON_SESSION_ID") && !text.contains(TOKEN), "{text}");
}

#[test]
fn a_page_in_a_browser_cannot_call_it_whatever_its_name_is_made_to_mean() {
    let yard = Yard::new();
    let marker = yard.work_dir().join("marker");
    let http = Http::start(&yard, &["--allow-run"], None);
    let params = json!({"name": "execute_command", "arguments": {"command": ["touch", marker]}});
    let run = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    for body in [hello().to_string(), run] {
        let ask = |host: &str, origin: Option<&str>| {
            let mut headers = http.honest();
            headers[0].1 = host;
            headers.extend(origin.map(|origin| ("Origin", origin)));
            http.status("POST /mcp", &headers, &body)
        };
        for host in ["evil.example", "127.0.0.1.evil.example", "10.1.2.3"] {
            assert_eq!(ask(host, None), 403, "{host}");
        }
        for origin in ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1"] {
            assert_eq!(ask(&http.authority, Some(origin)), 403, "{origin}");
        }
    }
    assert_eq!(http.status("POST http://evil.example/mcp", &http.honest(), ""), 403);
    assert_eq!(http.status("POST /mcp", &http.honest()[1..], ""), 403);
    assert_eq!(
        http.status("OPTIONS /mcp", &[http.honest(), vec![("Origin", "http://evil.example")]].concat(), ""),
        403
    );
    let own = format!("http://{}", http.authority);
    let headers = [http.honest(), vec![("Origin", own.as_str())]].concat();
    assert_eq!(http.status("POST /mcp", &headers, &hello().to_string()), 200);
    assert!(!marker.exists());
    assert!(yard.json(&["ps", "-a"]).as_array().unwrap().is_empty());
}

#[test]
fn it_does_not_listen_to_other_machines_without_a_token() {
    let yard = Yard::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let ran = yard.sexton(&["mcp", "--http", address]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("no token is configured") && ran.stderr.contains("hint:"),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(yard.sexton(&["mcp", "--http", "nonsense"]).code, 2);
}

#[test]
fn nonsense_over_http_is_refused_and_the_server_lives_on() {
    let yard = Yard::new();
    let http = Http::start(&yard, &["--allow-run"], None);
    let conversation = http.shake_hands(&[]);
    let headers = [http.honest(), vec![("Mcp-Session-Id", conversation.as_str())]].concat();
    for body in ["", "not json", "[]", "{\"jsonrpc\":\"2.0\"}"] {
        let status = http.status("POST /mcp", &headers, body);
        assert!((400..500).contains(&status), "{body}: {status}");
    }
    let foreign = [http.honest(), vec![("Mcp-Session-Id", "no-such-conversation")]].concat();
    assert!((400..500).contains(&http.status("POST /mcp", &foreign, &hello().to_string())));
    assert_eq!(http.status("GET /", &http.honest(), ""), 404);
    assert!((400..500).contains(&http.status("PUT /mcp", &http.honest(), "")));
    let huge = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y".repeat(20 << 20)}});
    assert_eq!(http.status("POST /mcp", &headers, &huge.to_string()), 413);
    let long = json!({"command": ["true", "x".repeat(10 << 20)]});
    assert_eq!(http.call(&conversation, "execute_command", &long)["success"], false);
    // A connection that never says what it wants keeps nobody else waiting.
    let _idle = TcpStream::connect(&http.authority).unwrap();
    assert_eq!(http.call(&conversation, "execute_command", &json!({"command": "echo hi"}))["stdout"], "hi\n");
}

#[test]
fn a_client_that_breaks_off_mid_call_does_not_take_the_server_along() {
    let yard = Yard::new().with_settings("stop.grace = \"2s\"\n");
    let http = Http::start(&yard, &["--allow-run"], None);
    let conversation = http.shake_hands(&[]);
    let call = http.ask(&conversation, "execute_command", &json!({"command": "sleep 300", "timeout": 300}));
    let mut running = String::new();
    eventually("it runs", || {
        let sessions = yard.json(&["ps"]);
        running = sessions[0]["id"].as_str().unwrap_or_default().to_owned();
        !running.is_empty()
    });
    drop(call);
    let listed = http.call(&conversation, "list_sessions", &json!({"which": "running"}));
    assert_eq!(listed["sessions"][0]["id"], running);
    let another = http.shake_hands(&[]);
    assert_eq!(http.call(&another, "session", &json!({"session": running}))["session"]["observed"], "alive");
    let pid = http.pid();
    let said = http.end();
    assert!(said.contains("stopped 1 session"), "{said}");
    assert!(carriers(&running).is_empty() && !is_running(pid));
    let variable = format!("SEXTON_STATE_DIR={}", yard.state_dir().display());
    assert_eq!(processes_with(&variable), Vec::<u64>::new());
}
