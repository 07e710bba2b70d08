//! A client that speaks to `sexton mcp` line by line, and says what no library would let it say.

#![allow(dead_code, reason = "each test target uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use super::{GENEROUS, Yard, eventually};

/// A server on standard input and output, and everything that it has said.
pub struct Mcp {
    pub child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    stderr: Option<JoinHandle<String>>,
    next_id: u64,
    /// Messages that nobody has asked for yet.
    pub waiting: Vec<Value>,
}

impl Mcp {
    /// A server in this yard that may do what `flags` say, after the handshake.
    pub fn start(yard: &Yard, flags: &[&str]) -> Mcp {
        let mut mcp = Mcp::silent(yard, flags);
        mcp.shake_hands();
        mcp
    }

    /// A server to which nothing was said yet.
    pub fn silent(yard: &Yard, flags: &[&str]) -> Mcp {
        let mut command = yard.command(&[&["mcp"], flags].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, messages) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Nothing but the protocol is on standard output.
                let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({"not_a_message": line}));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut said = String::new();
            let _ = stderr.read_to_string(&mut said);
            said
        });
        let stdin = child.stdin.take();
        Mcp { child, stdin, messages, stderr: Some(stderr), next_id: 0, waiting: Vec::new() }
    }

    /// Says hello as clients do.
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

    /// Sends a request, and gives back its id.
    pub fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}));
        self.next_id
    }

    /// Asks for a tool, and gives back the id of the request.
    pub fn ask_tool(&mut self, tool: &str, arguments: &Value) -> u64 {
        let meta = json!({"progressToken": format!("progress of {tool}")});
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments, "_meta": meta}))
    }

    /// The next message for which `fits` is true; the others wait.
    pub fn next(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(at) = self.waiting.iter().position(&fits) {
                return self.waiting.remove(at);
            }
            let message = self.messages.recv_timeout(GENEROUS);
            let message = message.unwrap_or_else(|_| panic!("there was no {what}; {:?}", self.waiting));
            assert!(message.get("not_a_message").is_none(), "on stdout: {message}");
            self.waiting.push(message);
        }
    }

    /// The answer to the request with this id.
    pub fn answer(&mut self, id: u64) -> Value {
        self.next("answer", |message| message["id"] == id && message.get("method").is_none())
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Calls a tool, and gives back its structure, which is also its text.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.ask_tool(tool, arguments);
        let answer = self.answer(id);
        structure(&answer)
    }

    /// Calls a tool that must succeed.
    pub fn ok(&mut self, tool: &str, arguments: &Value) -> Value {
        let told = self.call(tool, arguments);
        assert_eq!(told["success"], true, "{tool} {arguments}: {told}");
        told
    }

    /// Calls a tool that must be refused, with a reason and a suggestion.
    pub fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let told = self.call(tool, arguments);
        assert_eq!(told["success"], false, "{tool} {arguments}: {told}");
        assert!(told["suggestion"].as_str().is_some_and(|text| !text.is_empty()), "{told}");
        told["error"].as_str().expect("an error").to_owned()
    }

    /// Starts a session that does nothing for long, and gives back its id.
    pub fn start_sleep(&mut self) -> String {
        let told = self.ok("start_session", &json!({"command": "sleep 600"}));
        told["session"]["id"].as_str().unwrap().to_owned()
    }

    /// The server's pid.
    pub fn pid(&self) -> u64 {
        self.child.id().into()
    }

    /// Goes away, as a client does, and waits for the server to end.
    pub fn leave(mut self) -> (ExitStatus, String) {
        self.stdin = None;
        self.wait()
    }

    /// Waits for the server to end, and gives back what it said on standard error.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let mut status = None;
        eventually("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let said = self.stderr.take().map(|reader| reader.join().unwrap()).unwrap_or_default();
        (status.unwrap(), said)
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The structure that an answer carries; its text says the same.
pub fn structure(answer: &Value) -> Value {
    let result = &answer["result"];
    let structure = result["structuredContent"].clone();
    assert!(structure.is_object(), "{answer}");
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structure);
    assert_eq!(result["isError"], !structure["success"].as_bool().unwrap(), "{answer}");
    structure
}
