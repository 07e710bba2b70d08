//! A client that talks to `sexton mcp` line by line, and can send messages that no library would send.

#![allow(dead_code, reason = "each test target uses a different part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};

pub use super::http::structure;
use super::{GENEROUS, TestEnv, eventually};

/// A server on standard input and output, and the messages that it has sent.
pub struct Mcp {
    pub child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    stderr: Option<JoinHandle<String>>,
    next_id: u64,
    /// Received messages that were not consumed yet.
    pub waiting: Vec<Value>,
}

impl Mcp {
    /// Starts a server in this test environment with these flags, and does the handshake.
    pub fn start(test_env: &TestEnv, flags: &[&str]) -> Mcp {
        let mut mcp = Mcp::silent(test_env, flags);
        mcp.shake_hands();
        mcp
    }

    /// Starts a server without the handshake.
    pub fn silent(test_env: &TestEnv, flags: &[&str]) -> Mcp {
        Mcp::of(test_env.command(&[&["mcp"], flags].concat()))
    }

    /// Starts the server with this command.
    pub fn of(mut command: Command) -> Mcp {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, messages) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Standard output must contain only protocol messages; `next` fails on anything else.
                let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({"not_a_message": line}));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let stdin = child.stdin.take();
        Mcp { child, stdin, messages, stderr: Some(stderr), next_id: 0, waiting: Vec::new() }
    }

    /// Does the handshake.
    pub fn shake_hands(&mut self) {
        let client = json!({"name": "a test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let answer = self.request("initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "sexton", "{answer}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// Sends a request, and returns its id.
    pub fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}));
        self.next_id
    }

    /// Sends a tool call, and returns the id of the request.
    pub fn ask_tool(&mut self, tool: &str, arguments: &Value) -> u64 {
        let meta = json!({"progressToken": format!("progress of {tool}")});
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments, "_meta": meta}))
    }

    /// Returns the next message that `fits` accepts; keeps the others.
    pub fn next(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(at) = self.waiting.iter().position(&fits) {
                return self.waiting.remove(at);
            }
            let message = self.messages.recv_timeout(GENEROUS);
            let message = message.unwrap_or_else(|_| panic!("no {what} received; {:?}", self.waiting));
            assert!(message.get("not_a_message").is_none(), "on stdout: {message}");
            self.waiting.push(message);
        }
    }

    /// Waits for the response to the request with this id.
    pub fn answer(&mut self, id: u64) -> Value {
        self.next("answer", |message| message["id"] == id && message.get("method").is_none())
    }

    /// Sends a request and waits for its response.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Calls a tool and returns its structured result, which must equal its text.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.ask_tool(tool, arguments);
        let answer = self.answer(id);
        structure(&answer)
    }

    /// Calls a tool and requires success.
    pub fn ok(&mut self, tool: &str, arguments: &Value) -> Value {
        let reply = self.call(tool, arguments);
        assert_eq!(reply["success"], true, "{tool} {arguments}: {reply}");
        reply
    }

    /// Calls a tool, requires a refusal with a suggestion, and returns the error.
    pub fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let reply = self.call(tool, arguments);
        assert_eq!(reply["success"], false, "{tool} {arguments}: {reply}");
        assert!(reply["suggestion"].as_str().is_some_and(|text| !text.is_empty()), "{reply}");
        reply["error"].as_str().expect("an error").to_owned()
    }

    /// Starts a session that sleeps for ten minutes, and returns its id.
    pub fn start_sleep(&mut self) -> String {
        let reply = self.ok("start_session", &json!({"command": "sleep 600"}));
        reply["session"]["id"].as_str().unwrap().to_owned()
    }

    /// Returns the server's pid.
    pub fn pid(&self) -> u64 {
        self.child.id().into()
    }

    /// Closes the connection, as a client does, and waits for the server to exit.
    pub fn leave(mut self) -> (ExitStatus, String) {
        self.stdin = None;
        self.wait()
    }

    /// Waits for the server to exit, and returns its status and standard error.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut status = None;
        eventually("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let stderr = self.stderr.take().map(|reader| reader.join().unwrap()).unwrap_or_default();
        (status.unwrap(), stderr)
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
