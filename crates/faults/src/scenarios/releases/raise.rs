//! A raise of the format that is killed at every call that changes something: the store has the old format or
//! the new one, and every record.

use std::process::Stdio;

use serde_json::Value;
use sexton_test_harness::TestEnv;
use sexton_test_harness::releases::Release;
use sexton_test_harness::strace::{Call, MUTATING, killed_in, load_lines, mutating_calls};

use crate::bystanders::Bystanders;
use crate::campaign::Trials;
use crate::snapshot::Snapshot;

const SETTINGS: &str = "contain = \"tree\"\nretention.ttl = \"365d\"\n";

/// A store of this release's format with no running session.
struct Fixture {
    test_env: TestEnv,
    bystanders: Bystanders,
    records: Value,
    snapshot: Snapshot,
}

pub(super) fn kill_at_every_call(trials: &mut Trials, store: &'static str) {
    if trials.has_enough_violations() {
        return;
    }
    let fixture = Fixture::new(store);
    let calls = fixture.calls();
    for Call { name, nth } in trials.some_of(&calls, 12) {
        trials.trial(&format!("{store}, a raise killed at {name} number {nth}"), || {
            fixture.snapshot.put_back();
            let kill = format!("inject={name}:signal=SIGKILL:when={nth}");
            let trace = fixture.recover_under(&[&format!("trace={name}"), &kill]);
            fixture.require_whole();
            (!killed_in(&trace, &name).is_empty()).into()
        });
    }
}

impl Fixture {
    fn new(store: &'static str) -> Fixture {
        let test_env = TestEnv::on(store).with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&test_env);
        for name in ["one", "two"] {
            test_env.ok(&["run", "--name", name, "--", "true"]);
        }
        let records = test_env.json(&["ps", "-a"]);
        let snapshot = Snapshot::take(&test_env);
        Fixture { test_env, bystanders, records, snapshot }
    }

    /// Returns the calls of an undisturbed raise.
    fn calls(&self) -> Vec<Call> {
        let trace = self.recover_under(&[&format!("trace=openat,{}", MUTATING.join(","))]);
        let raised = Release::this().run(&self.test_env, &["ps"]).code == 5;
        assert!(raised, "the store was not raised, so nothing was traced");
        mutating_calls(&trace)
    }

    fn recover_under(&self, expressions: &[&str]) -> Vec<String> {
        let output = self.test_env.path().join("trace-of-a-raise");
        let path = output.to_str().unwrap();
        let mut options = vec!["-f", "--quiet=attach,personality,thread-execve", "-y", "-o", path];
        options.extend(expressions.iter().flat_map(|expression| ["-e", expression]));
        let mut command = Release::next().traced(&self.test_env, &options, &["recover"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        load_lines(&output)
    }

    fn require_whole(&self) {
        let next = Release::next();
        assert_eq!(next.json(&self.test_env, &["ps", "-a"]), self.records, "a record was lost or changed");
        next.ok(&self.test_env, &["recover"]);
        let records = next.json(&self.test_env, &["ps", "-a"]);
        assert_eq!(records, self.records, "a record was changed by the second attempt");
        assert_eq!(next.json(&self.test_env, &["doctor"])["healthy"], true);
        let raised = Release::this().run(&self.test_env, &["ps"]).code == 5;
        assert!(raised, "the second attempt did not raise the format");
        let found = records.as_array().unwrap().iter().find(|one| one["id"] == self.bystanders.session);
        self.bystanders.require_untouched_as(found.expect("the bystander's record was lost"));
    }
}
