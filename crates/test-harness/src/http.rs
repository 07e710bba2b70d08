//! An HTTP server, and a client that sends exactly what a test specifies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::{GENEROUS, TestEnv, peak_memory, send_signal};

/// A server that listens on a free port of this machine.
pub struct Http {
    child: Child,
    /// The address and port that it listens on.
    pub authority: String,
    /// The Authorization header of clients that have the token.
    bearer: String,
    stderr: Option<JoinHandle<String>>,
}

impl Http {
    /// Starts a server with a token in its environment, or with the token that it creates.
    pub fn start(test_env: &TestEnv, flags: &[&str], token: Option<&str>) -> Http {
        let mut command = test_env.command(&[&["mcp", "--http", "127.0.0.1:0"], flags].concat());
        if let Some(token) = token {
            command.env("SEXTON_MCP_TOKEN", token);
        }
        Http::listen(command, token)
    }

    /// Starts a server that reads this token from its configuration.
    pub fn start_with_own(test_env: &TestEnv, flags: &[&str], token: &str) -> Http {
        let command = test_env.command(&[&["mcp", "--http", "127.0.0.1:0"], flags].concat());
        Http::listen(command, Some(token))
    }

    fn listen(mut command: Command, token: Option<&str>) -> Http {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut begun = String::new();
        let mut token = token.map(str::to_owned);
        let authority = loop {
            let before = begun.len();
            assert!(stderr.read_line(&mut begun).unwrap() > 0, "the server printed {begun}");
            let line = begun[before..].trim();
            if let Some(path) = line.strip_prefix("every request needs the token in ") {
                token = Some(std::fs::read_to_string(path).unwrap().trim().to_owned());
            }
            let address =
                line.strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
            if let Some(address) = address {
                break address.to_owned();
            }
        };
        let rest = std::thread::spawn(move || {
            stderr.read_to_string(&mut begun).unwrap();
            begun
        });
        let bearer = token.map(|token| bearer(&token)).unwrap_or_default();
        Http { child, authority, bearer, stderr: Some(rest) }
    }

    /// Returns the pid of the server.
    pub fn pid(&self) -> u64 {
        self.child.id().into()
    }

    /// Returns the peak memory of the server in KiB.
    pub fn peak_memory(&self) -> u64 {
        peak_memory(self.pid()).expect("the server is alive")
    }

    /// Opens a connection and sends a request with exactly these headers and this body.
    pub fn send(&self, request: &str, headers: &[(&str, &str)], body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.set_read_timeout(Some(GENEROUS)).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head =
            format!("{request} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
        // A server that has refused the request may have closed its side already.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        BufReader::new(stream)
    }

    /// Reads the status and headers of a response.
    pub fn head(&self, reply: &mut BufReader<TcpStream>) -> (u16, Vec<String>) {
        let mut lines = reply.lines().map_while(Result::ok).take_while(|line| !line.is_empty());
        let status = lines.next().expect("a response");
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        (status, lines.map(|line| line.to_lowercase()).collect())
    }

    /// Reads the status of a response; `None` if the connection was closed without one.
    pub fn find_status(&self, reply: &mut BufReader<TcpStream>) -> Option<u16> {
        let line = reply.lines().next()?.ok()?;
        Some(line.split(' ').nth(1).unwrap().parse().unwrap())
    }

    /// Sends a request and returns the status of the response.
    pub fn status(&self, request: &str, headers: &[(&str, &str)], body: &str) -> u16 {
        let mut reply = self.send(request, headers, body);
        self.head(&mut reply).0
    }

    /// Returns the headers of a client that has the token.
    pub fn honest(&self) -> Vec<(&str, &str)> {
        [self.stranger(), vec![("Authorization", self.bearer.as_str())]].concat()
    }

    /// Returns the headers of a client without a token.
    pub fn stranger(&self) -> Vec<(&str, &str)> {
        vec![
            ("Host", self.authority.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ]
    }

    /// Does the MCP handshake, and returns the id of the conversation.
    pub fn shake_hands(&self, extra: &[(&str, &str)]) -> String {
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

    /// Sends a tool call in a conversation, and returns the connection for the response.
    pub fn ask(&self, conversation: &str, tool: &str, arguments: &Value) -> BufReader<TcpStream> {
        let headers = [self.honest(), vec![("Mcp-Session-Id", conversation)]].concat();
        let params = json!({"name": tool, "arguments": arguments});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.send("POST /mcp", &headers, &request.to_string())
    }

    /// Calls a tool and returns its structured result.
    pub fn call(&self, conversation: &str, tool: &str, arguments: &Value) -> Value {
        let mut reply = self.ask(conversation, tool, arguments);
        assert_eq!(self.head(&mut reply).0, 200);
        let lines = reply.lines().map_while(Result::ok);
        let mut messages =
            lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        structure(&messages.find(|message| message["id"] == 1).expect("a response"))
    }

    /// Sends SIGTERM to the server, waits for it, and returns everything it printed.
    pub fn end(mut self) -> String {
        send_signal(self.pid(), rustix::process::Signal::TERM);
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        assert!(self.child.wait().unwrap().success());
        stdout + &self.stderr.take().unwrap().join().unwrap()
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the first message of a client.
pub fn hello() -> Value {
    let client = json!({"name": "a test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

/// Returns the Authorization header for a token.
pub fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Returns the structured content of a response, and requires that its text is the same.
pub fn structure(answer: &Value) -> Value {
    let result = &answer["result"];
    let structure = result["structuredContent"].clone();
    assert!(structure.is_object(), "{answer}");
    let text = result["content"][0]["text"].as_str().expect("text content");
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structure);
    assert_eq!(result["isError"], !structure["success"].as_bool().unwrap(), "{answer}");
    structure
}
