//! Common MCP clients with the real binary: the official Python client and the command line of the MCP Inspector run
//! the whole scenario. They are installed once, below the target directory; if they cannot be installed, the tests
//! fail with a message.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::{TestEnv, carriers, eventually, kill_9, processes_with};

/// The official Python client.
const PYTHON_CLIENT: &str = "mcp==2.3.0";

/// The MCP Inspector.
const INSPECTOR: &str = "@modelcontextprotocol/inspector@2.12.0";

/// A script that waits for the file `go` between two lines of output.
const STEPS: &str = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 3\n";

#[test]
fn the_python_client_completes_the_scenario() {
    let python = python_client();
    let test_env = test_env();
    let mut command = Command::new(python);
    test_env.enclose(&mut command);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/story.py");
    command.arg(script).arg(support::program()).arg(test_env.work_dir());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let left = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert_eq!(test_env.record(&left)["status"], "orphaned");
    assert_eq!(carriers(&left), Vec::<u64>::new());
    assert_no_process_left(&test_env);
}

#[test]
fn the_inspector_completes_the_scenario() {
    let inspector = Inspector { program: inspector(), test_env: test_env() };
    let server = Server::start(&inspector.test_env, &["--allow-run", "--allow-stop"]);
    let tools = inspector.ask(&server, &["--method", "tools/list", "--strict"]);
    assert_eq!(tools["tools"].as_array().unwrap().len(), 9);
    let listed = inspector.call(&server, "list_sessions", &[]);
    assert_eq!(listed["sessions"], serde_json::json!([]));

    let started = inspector.call(&server, "start_session", &["command=sh steps.sh"]);
    let steps = format!("session={}", started["session"]["id"].as_str().unwrap());
    let mut part = Value::Null;
    eventually("the first line is printed", || {
        part = inspector.call(&server, "read_output", &[&steps]);
        part["output"] == "one\n"
    });
    std::fs::write(inspector.test_env.work_dir().join("go"), "").unwrap();
    let ended = inspector.call(&server, "wait_session", &[&steps, "timeout=60"]);
    assert_eq!(ended["session"]["exit_code"], 3, "{ended}");
    let rest = inspector.call(&server, "read_output", &[&steps, &format!("cursor={}", part["cursor"])]);
    assert_eq!((&rest["output"], &rest["eof"]), (&"two\n".into(), &true.into()), "{rest}");

    let victim = inspector.call(&server, "start_session", &["command=sleep 600"]);
    let pid = format!("pid={}", victim["session"]["pid"]);
    let killed = inspector.call(&server, "manage_process", &["action=kill", &pid, "signal=SIGKILL"]);
    assert_eq!(killed["session"]["status"], "stopped", "{killed}");

    let left = inspector.call(&server, "start_session", &["command=sleep 600"]);
    let left = left["session"]["id"].as_str().unwrap().to_owned();
    server.kill();
    let next = Server::start(&inspector.test_env, &["--allow-recover"]);
    let named = format!("session={left}");
    assert_eq!(inspector.call(&next, "session", &[&named])["session"]["observed"], "alive");
    let report = inspector.call(&next, "recover", &["dry_run=false"]);
    assert_eq!(report["report"]["ended"], 1, "{report}");
    assert_eq!(inspector.call(&next, "session", &[&named])["session"]["status"], "orphaned");
    assert_eq!(carriers(&left), Vec::<u64>::new());
    next.kill();
    assert_no_process_left(&inspector.test_env);
}

/// Creates a test environment in which only recovery stops orphans, because the owner grace period is long.
fn test_env() -> TestEnv {
    let test_env = TestEnv::new().with_settings("owner.grace = \"1h\"\nstop.grace = \"2s\"\n");
    std::fs::write(test_env.work_dir().join("steps.sh"), STEPS).unwrap();
    test_env
}

/// A server over HTTP: each call of the inspector is a separate process and connects again.
struct Server {
    child: Child,
    url: String,
    token: String,
}

impl Server {
    fn start(test_env: &TestEnv, flags: &[&str]) -> Server {
        let mut command = test_env.command(&[&["mcp", "--http", "127.0.0.1:0"], flags].concat());
        let log = test_env.path().join("server.log");
        command.stderr(File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        let mut url = String::new();
        eventually("it listens", || {
            let text = std::fs::read_to_string(&log).unwrap();
            let found = text.lines().find_map(|line| line.strip_prefix("listening on "));
            url = found.filter(|url| url.ends_with("/mcp")).unwrap_or_default().to_owned();
            !url.is_empty()
        });
        let token = std::fs::read_to_string(test_env.state_dir().join("mcp-token")).unwrap();
        Server { child, url, token: token.trim().to_owned() }
    }

    /// Sends SIGKILL to the server and waits for it.
    fn kill(mut self) {
        kill_9(self.child.id().into());
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Inspector {
    program: PathBuf,
    test_env: TestEnv,
}

impl Inspector {
    fn ask(&self, server: &Server, arguments: &[&str]) -> Value {
        let mut command = Command::new(&self.program);
        self.test_env.enclose(&mut command);
        command.args(["--cli", &server.url, "--transport", "http"]);
        command.args(["--header", &format!("Authorization: Bearer {}", server.token)]).args(arguments);
        let output = command.output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
        serde_json::from_str(&stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {stdout}{stderr}"))
    }

    /// Calls a tool and requires success.
    fn call(&self, server: &Server, tool: &str, arguments: &[&str]) -> Value {
        let mut words = vec!["--method", "tools/call", "--tool-name", tool];
        for argument in arguments {
            words.extend(["--tool-arg", argument]);
        }
        let reply = self.ask(server, &words)["structuredContent"].clone();
        assert_eq!(reply["success"], true, "{tool} {arguments:?}: {reply}");
        reply
    }
}

/// Requires that no process of this test environment is running.
fn assert_no_process_left(test_env: &TestEnv) {
    let variable = format!("SEXTON_STATE_DIR={}", test_env.state_dir().display());
    eventually("no process is left", || processes_with(&variable).is_empty());
}

/// Returns the interpreter with the Python client.
fn python_client() -> PathBuf {
    let place = installed("python", PYTHON_CLIENT, |place| {
        require(Command::new("python3").args(["-m", "venv"]).arg(place), "python3 with its venv module");
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PYTHON_CLIENT];
        require(Command::new(place.join("bin/python")).args(pip), "a package index for pip");
    });
    place.join("bin/python")
}

/// Returns the program of the MCP Inspector.
fn inspector() -> PathBuf {
    let place = installed("node", INSPECTOR, |place| {
        std::fs::create_dir(place).unwrap();
        let quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
        let mut npm = Command::new("npm");
        npm.arg("install").arg("--prefix").arg(place).args(quiet).arg(INSPECTOR);
        require(&mut npm, "node with npm, and its registry");
    });
    place.join("node_modules/.bin/mcp-inspector")
}

/// Returns the directory in which `make` has installed something. The first test installs it; an interrupted
/// installation is repeated.
fn installed(kind: &str, what: &str, make: impl Fn(&Path)) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-clients");
    std::fs::create_dir_all(&root).unwrap();
    let name: String =
        what.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let place = root.join(format!("{kind}-{}", name.trim_matches('-')));
    let lock = File::create(place.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let complete = place.join("complete");
    if !complete.exists() {
        let _ = std::fs::remove_dir_all(&place);
        make(&place);
        std::fs::write(complete, what).unwrap();
    }
    place
}

/// Runs a step of an installation; panics with what is missing if it fails.
fn require(command: &mut Command, needed: &str) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; these tests need {needed}"));
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(output.status.success(), "{command:?} failed; these tests need {needed}:\n{printed}");
}
