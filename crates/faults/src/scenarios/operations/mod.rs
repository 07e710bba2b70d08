//! The program's operations on a test environment in which nothing runs: each with the test environment it
//! needs and the state it must leave. Interrupted in any way and repeated, it must leave the same state.
//!
//! That state is checked twice. Each operation states what it must be: a program that always did the wrong
//! thing would always leave the same. And it must equal, in every detail, the state that an undisturbed run
//! leaves.

mod dispatch;
mod orphans;
mod rows;

use std::path::Path;

use serde_json::Value;
use sexton_test_harness::TestEnv;
use sexton_test_harness::strace::Family;

use crate::bystanders::Bystanders;
use crate::snapshot::Snapshot;

pub(crate) use dispatch::require_merged;
pub(crate) use orphans::require_saved_or_there;
pub(crate) use rows::finished;

/// An operation of the program that can be repeated from the same initial state.
pub(crate) struct Operation {
    /// Its name in reports.
    pub(crate) name: &'static str,
    /// The stores it is run on.
    pub(crate) stores: &'static [&'static str],
    /// Which processes' calls are attacked: if the operation starts agents, not those of the agents.
    pub(crate) family: Family,
    prepare: fn(&TestEnv) -> Vec<String>,
    outcome: fn(&TestEnv) -> Value,
    /// Checks what an undisturbed run must also have done, so that the attack really hits this operation.
    undisturbed: fn(&TestEnv),
}

/// Every operation except starting and ending a session, which are scenarios of their own.
pub(crate) const OPERATIONS: &[Operation] = &[
    RECOVER,
    Operation { name: "prune", outcome: rows::outcome_of_prune, prepare: rows::prepare_prune, ..PLAIN },
    Operation { name: "resume", outcome: rows::outcome_of_resume, prepare: rows::prepare_resume, ..PLAIN },
    Operation { name: "migrate", outcome: rows::outcome_of_migrate, prepare: rows::prepare_migrate, ..PLAIN },
    // SQLite has no journal of its own to compact.
    Operation {
        name: "compaction",
        stores: &["json"],
        outcome: rows::outcome_of_prune,
        prepare: rows::prepare_compaction,
        undisturbed: rows::require_compacted,
        ..PLAIN
    },
    Operation { name: "backup", outcome: rows::outcome_of_backup, prepare: rows::prepare_backup, ..PLAIN },
    Operation { name: "restore", outcome: rows::outcome_of_restore, prepare: rows::prepare_restore, ..PLAIN },
    Operation {
        name: "ralph",
        family: Family::Threads,
        outcome: dispatch::outcome,
        prepare: dispatch::prepare,
        ..PLAIN
    },
];

/// The operation that can lose the most.
pub(crate) const RECOVER: Operation =
    Operation { name: "recover", outcome: orphans::outcome, prepare: orphans::prepare, ..PLAIN };

/// What most operations have in common.
const PLAIN: Operation = Operation {
    name: "",
    stores: &["sqlite", "json"],
    family: Family::All,
    prepare: |_| Vec::new(),
    outcome: |_| Value::Null,
    undisturbed: |_| (),
};

/// Small, quick, and with nothing that acts by itself.
const SETTINGS: &str = "contain = \"tree\"\nstore.durability = \"power\"\nowner.grace = \"10m\"\n\
                        stop.grace = \"200ms\"\n[ralph]\nsleep_between_tickets = \"0s\"\n\
                        sleep_between_retries = \"50ms\"\n";

/// A test environment that is ready for an operation, and the state that the operation leaves if nothing
/// disturbs it.
pub(crate) struct Stage {
    /// The test environment.
    pub(crate) test_env: TestEnv,
    /// The operation's command.
    pub(crate) arguments: Vec<String>,
    /// What must not be changed.
    pub(crate) bystanders: Bystanders,
    snapshot: Snapshot,
    outcome: fn(&TestEnv) -> Value,
    expected: Value,
}

impl Stage {
    /// Prepares a test environment, and runs the operation once, undisturbed.
    pub(crate) fn set(operation: &Operation, store: &'static str) -> Stage {
        Stage::set_inside(&std::env::temp_dir(), operation, store)
    }

    /// Like `set`, in a new folder of this directory.
    pub(crate) fn set_inside(directory: &Path, operation: &Operation, store: &'static str) -> Stage {
        let test_env = TestEnv::inside(directory, store).with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&test_env);
        let arguments = (operation.prepare)(&test_env);
        let snapshot = Snapshot::take(&test_env);
        let mut stage = Stage {
            test_env,
            arguments,
            bystanders,
            snapshot,
            outcome: operation.outcome,
            expected: Value::Null,
        };
        stage.do_again();
        (operation.undisturbed)(&stage.test_env);
        stage.expected = (operation.outcome)(&stage.test_env);
        stage.reset();
        stage
    }

    /// Restores the test environment.
    pub(crate) fn reset(&self) {
        self.snapshot.put_back();
    }

    /// Returns the operation's command, as the test harness needs it.
    pub(crate) fn command(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }

    /// Runs the operation, which must succeed.
    pub(crate) fn do_again(&self) {
        self.test_env.ok(&self.command());
    }

    /// Requires that the test environment is as an undisturbed operation leaves it, and that the bystanders
    /// are unchanged.
    pub(crate) fn require_done(&self) {
        let found = (self.outcome)(&self.test_env);
        assert_eq!(found, self.expected, "the final state differs from that of an undisturbed run");
        self.bystanders.require_untouched(&self.test_env);
    }

    /// Requires that the store can be read, and that the bystanders are unchanged, whatever happened.
    pub(crate) fn require_readable(&self) {
        self.test_env.json(&["ps", "-a"]);
        self.bystanders.require_untouched(&self.test_env);
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
