//! Real namespaces: a session whose pids mean nothing here, and a look from where ticks mean something else.

use std::process::{Command, Stdio};

use serde_json::Value;
use sexton_field::{Yard, carriers, eventually, is_running};

use super::SETTINGS;
use super::stranger::{require_spared, start_as};
use crate::bystanders::Bystanders;

/// A session in a pid namespace inside of ours, looked at from here: whoever has its pids here is a stranger,
/// and the session is neither ended nor said to have ended.
pub(super) fn spare_inner() -> u64 {
    let yard = Yard::new().with_settings(SETTINGS);
    let bystanders = Bystanders::plant(&yard);
    let mut inner = Command::new("unshare");
    yard.enclose(&mut inner);
    inner.args(["--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c"]);
    inner.arg("\"$0\" run -d --name inner -- sleep 600 && exec sleep 600").arg(sexton_field::program());
    let mut inner = inner.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    eventually("the session runs", || yard.sexton(&["show", "inner"]).code == 0);
    let record = yard.record("inner");
    let id = record["id"].as_str().unwrap().to_owned();
    let alive = carriers(&id);
    assert!(!alive.is_empty(), "the session does not run");
    // Its numbers are taken here, or are now.
    let free = |pid: &u64| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    let pids = ["process", "supervisor"].map(|whose| record[whose]["pid"].as_u64().unwrap());
    let strangers: Vec<_> =
        pids.into_iter().filter(free).map(|pid| start_as(pid, b"sleep", yard.path())).collect();
    for command in
        [&["recover"][..], &["recover", "--stale", "1ms"], &["prune", "--ttl", "1ms", "--keep", "0"]]
    {
        yard.sexton(command);
        require_left_alone(&yard.record(&id), &alive, &carriers(&id));
    }
    // Its cookie proves its own processes, whatever their numbers: those may be stopped from here.
    yard.sexton(&["stop", "--force", &id]);
    strangers.into_iter().for_each(require_spared);
    bystanders.require_untouched(&yard);
    inner.kill().unwrap();
    inner.wait().unwrap();
    1
}

/// A session of ours, looked at from a time namespace in which everything began at another time.
pub(super) fn spare_shifted() -> u64 {
    let yard = Yard::new().with_settings(SETTINGS);
    let bystanders = Bystanders::plant(&yard);
    let id = yard.ok(&["run", "-d", "--", "sleep", "600"]);
    let alive = carriers(&id);
    for command in [&["recover"][..], &["recover", "--stale", "1ms"]] {
        let mut shifted = Command::new("unshare");
        yard.enclose(&mut shifted);
        shifted.args(["--time", "--boottime", "8640000", "--monotonic", "8640000", "--fork"]);
        shifted.arg(sexton_field::program()).args(command);
        let output = shifted.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("unshare:"), "{said}");
        require_left_alone(&yard.record(&id), &alive, &carriers(&id));
    }
    bystanders.require_untouched(&yard);
    1
}

/// The session is as it was: its processes live, and its record says so.
fn require_left_alone(record: &Value, before: &[u64], now: &[u64]) {
    assert_eq!(before, now, "processes of another namespace were ended");
    assert!(now.iter().all(|pid| is_running(*pid)), "processes of another namespace were ended");
    assert_eq!(record["status"], "running", "a session of another namespace was judged: {record}");
    assert!(record["ending"].is_null() || record["finished_at"].is_null(), "{record}");
}
