//! Real namespaces: a session whose pids mean nothing here, and recovery from where ticks mean something
//! else.

use std::process::{Command, Stdio};

use serde_json::Value;
use sexton_test_harness::{TestEnv, carriers, eventually, is_running};

use super::SETTINGS;
use super::stranger::{require_spared, start_as};
use crate::bystanders::Bystanders;

/// A session in a nested pid namespace, seen from here: processes with its pids here are unrelated, and the
/// session is neither stopped nor recorded as ended.
pub(super) fn spare_inner() -> u64 {
    let test_env = TestEnv::new().with_settings(SETTINGS);
    let bystanders = Bystanders::plant(&test_env);
    let mut inner = Command::new("unshare");
    test_env.enclose(&mut inner);
    inner.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c"]);
    inner
        .arg("\"$0\" run -d --name inner -- sleep 600 && exec sleep 600")
        .arg(sexton_test_harness::program());
    let mut inner = inner.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    eventually("the session runs", || test_env.sexton(&["show", "inner"]).code == 0);
    let record = test_env.record("inner");
    let id = record["id"].as_str().unwrap().to_owned();
    let alive = carriers(&id);
    assert!(!alive.is_empty(), "the session does not run");
    // Start a process with each of its pids, unless one has it already.
    let free = |pid: &u64| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    let pids = ["process", "supervisor"].map(|whose| record[whose]["pid"].as_u64().unwrap());
    let strangers: Vec<_> =
        pids.into_iter().filter(free).map(|pid| start_as(pid, b"sleep", test_env.path())).collect();
    for command in
        [&["recover"][..], &["recover", "--stale", "1ms"], &["prune", "--ttl", "1ms", "--keep", "0"]]
    {
        test_env.sexton(command);
        require_left_alone(&test_env.record(&id), &alive, &carriers(&id));
    }
    // Its cookie identifies its own processes, whatever their pids: those may be stopped from here.
    test_env.sexton(&["stop", "--force", &id]);
    strangers.into_iter().for_each(require_spared);
    bystanders.require_untouched(&test_env);
    inner.kill().unwrap();
    inner.wait().unwrap();
    1
}

/// A session of this namespace, seen from a time namespace with other boot and monotonic clocks.
pub(super) fn spare_shifted() -> u64 {
    let test_env = TestEnv::new().with_settings(SETTINGS);
    let bystanders = Bystanders::plant(&test_env);
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let alive = carriers(&id);
    for command in [&["recover"][..], &["recover", "--stale", "1ms"]] {
        let mut shifted = Command::new("unshare");
        test_env.enclose(&mut shifted);
        shifted.args(["--time", "--boottime", "8640000", "--monotonic", "8640000", "--fork"]);
        shifted.arg(sexton_test_harness::program()).args(command);
        let output = shifted.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("unshare:"), "{stderr}");
        require_left_alone(&test_env.record(&id), &alive, &carriers(&id));
    }
    bystanders.require_untouched(&test_env);
    1
}

/// Requires that the session is unchanged: its processes live, and its record says so.
fn require_left_alone(record: &Value, before: &[u64], now: &[u64]) {
    assert_eq!(before, now, "processes of another namespace were ended");
    assert!(now.iter().all(|pid| is_running(*pid)), "processes of another namespace were ended");
    assert_eq!(
        record["status"], "running",
        "the status of a session of another namespace was changed: {record}"
    );
    assert!(record["ending"].is_null() || record["finished_at"].is_null(), "{record}");
}
