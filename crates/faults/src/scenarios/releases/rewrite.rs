//! One record that both releases change in turns, each keeping the fields that only the other one knows,
//! until it is pruned.

use serde_json::Value;
use sexton_test_harness::gate::Gate;
use sexton_test_harness::records::edit_record;
use sexton_test_harness::releases::Release;
use sexton_test_harness::{Bystander, TestEnv};

use super::story::invented;

const SETTINGS: &str = "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"200ms\"\n";

/// Makes each release change the record of a session in every way. Returns how many faults were injected.
pub(super) fn in_turns(store: &'static str, [one, other]: [&Release; 2], by_older: bool) -> u64 {
    let test_env = TestEnv::on(store).with_settings(SETTINGS);
    // A store that both releases can write.
    one.ok(&test_env, &["run", "--name", "first", "--", "true"]);
    let (starter, follower) = if by_older { (one, other) } else { (other, one) };
    let mut owner = Bystander::start();
    let gate = Gate::at(&test_env.path().join("gate"));
    let (pid, script) = (owner.pid(), gate.script(0));
    let start = ["run", "-d", "--name", "shared", "--owner-pid", &pid, "--", "sh", "-c", &script];
    let id = starter.ok(&test_env, &start);
    edit_record(&test_env, &id, |session| {
        session.extra.insert("invented".to_owned(), invented());
        session.host.extra.insert("rack".to_owned(), invented());
        session.process.as_mut().unwrap().extra.insert("colour".to_owned(), invented());
    });
    let begun = follower.json(&test_env, &["show", &id]);
    assert_eq!(
        begun["invented"],
        invented(),
        "{} does not show a field that it does not know",
        follower.name
    );
    let require_kept = |by: &Release, what: &str| {
        let record = by.json(&test_env, &["show", &id]);
        for pointer in ["/invented", "/host", "/process", "/release", "/command", "/created_at", "/probe"] {
            let (before, now) = (begun.pointer(pointer), record.pointer(pointer));
            assert_eq!(now, before, "{} {what}: {pointer} was changed", by.name);
        }
        record
    };
    for release in [follower, starter] {
        release.ok(&test_env, &["loop", "set", "shared", "iteration=2"]);
        require_kept(release, "changed its loop");
    }
    owner.end();
    follower.ok(&test_env, &["recover", "--adopt"]);
    assert_eq!(require_kept(follower, "adopted it")["owner"], Value::Null, "it still has its dead owner");
    follower.ok(&test_env, &["stop", &id]);
    assert_eq!(require_kept(follower, "stopped it")["status"], "stopped");
    for release in [starter, follower] {
        release.ok(&test_env, &["prune", "--ttl", "365d"]);
        require_kept(release, "pruned others");
    }
    follower.ok(&test_env, &["prune", "--ttl", "0s"]);
    let left = starter.json(&test_env, &["ps", "-a"]);
    assert_eq!(left.as_array().map(Vec::len), Some(0), "{} pruned in part: {left}", follower.name);
    1
}
