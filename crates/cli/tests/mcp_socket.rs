//! `sexton mcp --http unix:PATH`: only processes of the same user can use it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, geteuid};
use support::http::hello;
use support::{GENEROUS, TestEnv, eventually, kill_9, send_signal};

/// The uid of another user.
const STRANGER: u32 = 60002;

struct Server {
    child: Child,
    path: PathBuf,
}

impl Server {
    fn start(test_env: &TestEnv, path: &Path) -> Server {
        let address = format!("unix:{}", path.display());
        let mut command = test_env.command(&["mcp", "--allow-run", "--http", &address]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), format!("listening on {address}"));
        Server { child, path: path.to_owned() }
    }

    /// Sends a first message without a token and returns the status.
    fn ask(&self) -> u16 {
        let mut stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(GENEROUS)).unwrap();
        stream.write_all(request().as_bytes()).unwrap();
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).unwrap();
        reply.split(' ').nth(1).expect("a status").parse().unwrap()
    }

    fn end(mut self) {
        send_signal(self.child.id().into(), Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn request() -> String {
    let body = hello().to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Creates a directory that only this user can enter, and returns a socket path in it.
fn socket_in(test_env: &TestEnv) -> PathBuf {
    let directory = test_env.path().join("run");
    std::fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o700);
    directory.join("mcp.sock")
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn refusal(test_env: &TestEnv, path: &Path) -> String {
    let ran = test_env.sexton(&["mcp", "--http", &format!("unix:{}", path.display())]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    ran.stderr
}

#[test]
fn i11_the_socket_is_private_needs_no_token_and_is_removed_on_exit() {
    let test_env = TestEnv::new();
    let path = socket_in(&test_env);
    let server = Server::start(&test_env, &path);
    let metadata = path.metadata().unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(server.ask(), 200);
    assert!(!test_env.state_dir().join("mcp-token").exists());
    server.end();
    assert!(!path.exists());
}

#[test]
fn i11_a_directory_that_others_can_enter_is_refused() {
    let test_env = TestEnv::new();
    let path = socket_in(&test_env);
    for mode in [0o755, 0o710, 0o701, 0o770] {
        set_mode(path.parent().unwrap(), mode);
        let message = refusal(&test_env, &path);
        assert!(message.contains("others can enter the directory") && message.contains("hint:"), "{message}");
    }
    assert!(!path.exists());
    assert_eq!(test_env.sexton(&["mcp", "--http", "unix:"]).code, 2);
    set_mode(path.parent().unwrap(), 0o700);
    let both =
        test_env.sexton(&["mcp", "--http", &format!("unix:{}", path.display()), "--token-file", "/nowhere"]);
    assert_eq!(both.code, 2, "{}", both.stderr);
    if !geteuid().is_root() {
        assert!(refusal(&test_env, Path::new("/root-owned.sock")).contains("belongs to another user"));
    }
}

#[test]
fn a_stale_socket_is_replaced_and_any_other_file_is_kept() {
    let test_env = TestEnv::new();
    let path = socket_in(&test_env);
    let mut killed = Server::start(&test_env, &path);
    kill_9(killed.child.id().into());
    killed.child.wait().unwrap();
    assert!(path.exists());
    let next = Server::start(&test_env, &path);
    assert_eq!(next.ask(), 200);
    assert!(refusal(&test_env, &path).contains("another server listens"));
    // A stopped server does not answer but still owns the socket.
    send_signal(next.child.id().into(), Signal::STOP);
    eventually("it is stopped", || support::state_of(next.child.id().into()) == Some('T'));
    assert!(refusal(&test_env, &path).contains("another server listens"));
    send_signal(next.child.id().into(), Signal::CONT);
    assert_eq!(next.ask(), 200);

    // A server removes its own socket, and not one that replaced it.
    std::fs::remove_file(&path).unwrap();
    let other = Server::start(&test_env, &path);
    next.end();
    assert_eq!(other.ask(), 200);
    other.end();

    std::fs::write(&path, "kept").unwrap();
    assert!(refusal(&test_env, &path).contains("is not a socket"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(test_env.path().join("elsewhere"), &path).unwrap();
    assert!(refusal(&test_env, &path).contains("is not a socket"));
    assert!(!test_env.path().join("elsewhere").exists());
}

#[test]
fn a_path_longer_than_the_socket_limit_works() {
    let test_env = TestEnv::new();
    let directory = test_env.path().join("d".repeat(120));
    std::fs::create_dir(&directory).unwrap();
    set_mode(&directory, 0o700);
    let server = Server::start(&test_env, &directory.join("mcp.sock"));
    assert!(directory.join("mcp.sock").exists());
    server.end();
    assert!(!directory.join("mcp.sock").exists());
}

/// Connects as another user; returns the exit code and the response or the connection error.
fn ask_as_stranger(path: &Path) -> (i32, String) {
    let script = r#"use IO::Socket::UNIX; $SIG{PIPE} = "IGNORE"; local $/;
        my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or do { print "$!"; exit 3 };
        print $s $ARGV[1]; $s->flush; print <$s>;"#;
    let mut command = Command::new("perl");
    command.args(["-e", script]).arg(path).arg(request()).uid(STRANGER).gid(STRANGER).current_dir("/");
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn i11_another_user_gets_no_response_from_the_socket() {
    let test_env = TestEnv::new();
    let path = socket_in(&test_env);
    let server = Server::start(&test_env, &path);
    if !geteuid().is_root() {
        // Only root can change the user; without root the test checks the modes.
        assert!(Command::new("true").uid(STRANGER).spawn().is_err());
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        return;
    }
    set_mode(test_env.path(), 0o755);
    let (code, reply) = ask_as_stranger(&path);
    assert_eq!((code, reply.as_str()), (3, "Permission denied"));
    // With wider modes the server still checks the uid of the peer.
    set_mode(path.parent().unwrap(), 0o755);
    set_mode(&path, 0o666);
    let (code, reply) = ask_as_stranger(&path);
    assert_eq!((code, reply.as_str()), (0, ""));
    assert_eq!(server.ask(), 200);
    assert!(test_env.json(&["ps", "-a"]).as_array().unwrap().is_empty());
    server.end();
}
