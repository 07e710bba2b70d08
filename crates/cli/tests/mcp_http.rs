//! `sexton mcp --http`: which clients are accepted, and what they can do.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use support::http::{Http, bearer, hello};
use support::{TestEnv, carriers, eventually, is_running, processes_with};

const TOKEN: &str = "a-token-that-cannot-be-guessed";

/// Makes the user's settings readable only for the user.
fn make_private(test_env: &TestEnv) {
    let settings = test_env.path().join("config/sexton/config.toml");
    std::fs::set_permissions(settings, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn i11_requests_need_the_token_and_the_token_is_never_shown() {
    let test_env = TestEnv::new().with_settings(&format!("mcp.token = \"{TOKEN}\"\n"));
    make_private(&test_env);
    let http = Http::start_with_own(&test_env, &["--allow-run"], TOKEN);
    let hello = hello().to_string();
    let ask = |extra: &[(&str, &str)]| {
        http.status("POST /mcp", &[http.stranger(), extra.to_vec()].concat(), &hello)
    };
    assert_eq!(ask(&[]), 401);
    for wrong in ["", "Bearer", "Bearer wrong-token-wrong-token", TOKEN, "Basic YTpi"] {
        assert_eq!(ask(&[("Authorization", wrong)]), 401, "{wrong}");
    }
    let right = bearer(TOKEN);
    assert_eq!(ask(&[("Authorization", &right), ("Authorization", "Bearer other-other-other")]), 401);
    assert_eq!(ask(&[("Authorization", &right)]), 200);
    let config = test_env.sexton(&["config"]);
    let config_json = test_env.json(&["config"]);
    assert_eq!(config_json["mcp.token"]["value"], "set");
    let output = http.end();
    for text in [output, config.stdout, config.stderr, config_json.to_string()] {
        assert!(!text.contains(TOKEN), "{text}");
    }
}

#[test]
fn i11_without_a_token_every_request_gets_an_empty_401() {
    let test_env = TestEnv::new();
    let http = Http::start(&test_env, &["--allow-run", "--allow-stop", "--allow-recover"], None);
    let id = http.shake_hands(&[]);
    let hello = hello().to_string();
    for request in
        ["POST /mcp", "GET /mcp", "DELETE /mcp", "OPTIONS /mcp", "PUT /mcp", "GET /", "GET /../etc"]
    {
        let headers = [http.stranger(), vec![("Mcp-Session-Id", id.as_str())]].concat();
        let mut reply = http.send(request, &headers, &hello);
        let (status, headers) = http.head(&mut reply);
        assert_eq!(status, 401, "{request}");
        assert!(headers.contains(&"www-authenticate: bearer".to_owned()), "{headers:?}");
        let mut body = String::new();
        reply.read_to_string(&mut body).unwrap();
        assert_eq!(body, "", "{request}");
    }
    // The conversation of the client with the token still works.
    assert_eq!(http.call(&id, "list_sessions", &json!({}))["success"], true);
}

#[test]
fn i11_a_token_is_created_once_kept_private_and_never_shown() {
    let test_env = TestEnv::new();
    let http = Http::start(&test_env, &[], None);
    let path = test_env.state_dir().join("mcp-token");
    let token = std::fs::read_to_string(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(token.trim().len() >= 64, "{}", token.len());
    let output = http.end();
    assert!(output.contains(path.to_str().unwrap()) && !output.contains(token.trim()), "{output}");
    let again = Http::start(&test_env, &[], None);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), token);
    again.shake_hands(&[]);
    again.end();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = test_env.sexton(&["mcp", "--http", "127.0.0.1:0"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("others can read") && ran.stderr.contains("hint: chmod 600"),
        "{}",
        ran.stderr
    );
}

#[test]
fn i11_a_token_file_that_others_can_read_is_refused() {
    let test_env = TestEnv::new().with_settings(&format!("mcp.token = \"{TOKEN}\"\n"));
    let settings = test_env.path().join("config/sexton/config.toml");
    std::fs::set_permissions(&settings, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = test_env.sexton(&["mcp", "--http", "127.0.0.1:0"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("others can read") && !ran.stderr.contains(TOKEN), "{}", ran.stderr);

    let file = test_env.path().join("token");
    let named = file.to_str().unwrap().to_owned();
    let other = "another-token-that-is-long";
    std::fs::write(&file, format!("{other}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let ran = test_env.sexton(&["mcp", "--http", "127.0.0.1:0", "--token-file", &named]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("others can read") && !ran.stderr.contains(other), "{}", ran.stderr);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let http = Http::start_with_own(&test_env, &["--token-file", &named], other);
    http.shake_hands(&[]);
    let first = [http.stranger(), vec![("Authorization", "Bearer a-token-that-cannot-be-guessed")]].concat();
    assert_eq!(http.status("POST /mcp", &first, &hello().to_string()), 401);
    assert_eq!(test_env.sexton(&["mcp", "--token-file", &named]).code, 2);
}

#[test]
fn a_token_from_the_environment_is_not_passed_to_commands() {
    let test_env = TestEnv::new();
    let http = Http::start(&test_env, &["--allow-run"], Some(TOKEN));
    let conversation = http.shake_hands(&[]);
    let ran = http.call(&conversation, "execute_command", &json!({"command": "printenv"}));
    let text = ran["stdout"].as_str().unwrap();
    assert!(text.contains("SEXTON_SESSION_ID") && !text.contains(TOKEN), "{text}");
}

#[test]
fn a_foreign_host_or_origin_header_is_refused() {
    let test_env = TestEnv::new();
    let marker = test_env.work_dir().join("marker");
    let http = Http::start(&test_env, &["--allow-run"], None);
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
    assert!(test_env.json(&["ps", "-a"]).as_array().unwrap().is_empty());
}

#[test]
fn a_public_address_without_a_token_is_refused() {
    let test_env = TestEnv::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let ran = test_env.sexton(&["mcp", "--http", address]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("no token is configured") && ran.stderr.contains("hint:"),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(test_env.sexton(&["mcp", "--http", "nonsense"]).code, 2);
}

#[test]
fn malformed_requests_are_refused_and_the_server_continues() {
    let test_env = TestEnv::new();
    let http = Http::start(&test_env, &["--allow-run"], None);
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
    let long = json!({"command": ["true", "x".repeat(3 << 20)]});
    assert_eq!(http.call(&conversation, "execute_command", &long)["success"], false);
    // A connection that sends nothing does not delay other clients.
    let _idle = TcpStream::connect(&http.authority).unwrap();
    assert_eq!(http.call(&conversation, "execute_command", &json!({"command": "echo hi"}))["stdout"], "hi\n");
}

#[test]
fn a_client_that_disconnects_during_a_call_does_not_stop_the_server() {
    let test_env = TestEnv::new().with_settings("stop.grace = \"2s\"\n");
    let http = Http::start(&test_env, &["--allow-run"], None);
    let conversation = http.shake_hands(&[]);
    let call = http.ask(&conversation, "execute_command", &json!({"command": "sleep 300", "timeout": 300}));
    let mut running = String::new();
    eventually("it runs", || {
        let sessions = test_env.json(&["ps"]);
        running = sessions[0]["id"].as_str().unwrap_or_default().to_owned();
        !running.is_empty()
    });
    drop(call);
    let listed = http.call(&conversation, "list_sessions", &json!({"which": "running"}));
    assert_eq!(listed["sessions"][0]["id"], running);
    let another = http.shake_hands(&[]);
    assert_eq!(http.call(&another, "session", &json!({"session": running}))["session"]["observed"], "alive");
    let pid = http.pid();
    let output = http.end();
    assert!(output.contains("stopped 1 session"), "{output}");
    assert!(carriers(&running).is_empty() && !is_running(pid));
    let variable = format!("SEXTON_STATE_DIR={}", test_env.state_dir().display());
    assert_eq!(processes_with(&variable), Vec::<u64>::new());
}
