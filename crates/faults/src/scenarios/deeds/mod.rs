//! What the program does to a yard at rest: each deed with the yard it needs and what it must leave behind.
//! Interrupted in any way and done again, it must leave the same.
//!
//! What a deed leaves is judged twice. What it must be is said here, by itself: a program that always did the
//! wrong thing would always end the same. And it must be, in every detail, what an undisturbed run leaves.

mod dispatch;
mod orphans;
mod rows;

use std::path::Path;

use serde_json::Value;
use sexton_field::Yard;
use sexton_field::strace::Family;

use crate::bystanders::Bystanders;
use crate::snapshot::Snapshot;

pub(crate) use dispatch::require_merged;
pub(crate) use orphans::require_saved_or_there;
pub(crate) use rows::finished;

/// Something the program does, from the same beginning as often as one likes.
pub(crate) struct Deed {
    /// What it is called in reports.
    pub(crate) name: &'static str,
    /// The stores it is done on.
    pub(crate) stores: &'static [&'static str],
    /// Whose calls are attacked: where the deed starts agents, not theirs.
    pub(crate) family: Family,
    prepare: fn(&Yard) -> Vec<String>,
    outcome: fn(&Yard) -> Value,
    /// What an undisturbed run must have done besides, or it would not be this deed that is attacked.
    undisturbed: fn(&Yard),
}

/// Every deed there is, but for starting and ending a session, which are scenarios of their own.
pub(crate) const DEEDS: &[Deed] = &[
    RECOVER,
    Deed { name: "prune", outcome: rows::outcome_of_prune, prepare: rows::prepare_prune, ..PLAIN },
    Deed { name: "resume", outcome: rows::outcome_of_resume, prepare: rows::prepare_resume, ..PLAIN },
    Deed { name: "migrate", outcome: rows::outcome_of_migrate, prepare: rows::prepare_migrate, ..PLAIN },
    // SQLite has no journal of its own to compact.
    Deed {
        name: "compaction",
        stores: &["json"],
        outcome: rows::outcome_of_prune,
        prepare: rows::prepare_compaction,
        undisturbed: rows::require_compacted,
        ..PLAIN
    },
    Deed { name: "backup", outcome: rows::outcome_of_backup, prepare: rows::prepare_backup, ..PLAIN },
    Deed { name: "restore", outcome: rows::outcome_of_restore, prepare: rows::prepare_restore, ..PLAIN },
    Deed {
        name: "ralph",
        family: Family::Threads,
        outcome: dispatch::outcome,
        prepare: dispatch::prepare,
        ..PLAIN
    },
];

/// The deed in which most is at stake.
pub(crate) const RECOVER: Deed =
    Deed { name: "recover", outcome: orphans::outcome, prepare: orphans::prepare, ..PLAIN };

/// What most deeds have in common.
const PLAIN: Deed = Deed {
    name: "",
    stores: &["sqlite", "json"],
    family: Family::All,
    prepare: |_| Vec::new(),
    outcome: |_| Value::Null,
    undisturbed: |_| (),
};

/// Small, quick and without anything that would act by itself.
const SETTINGS: &str = "contain = \"tree\"\nstore.durability = \"power\"\nowner.grace = \"10m\"\n\
                        stop.grace = \"200ms\"\n[ralph]\nsleep_between_tickets = \"0s\"\n\
                        sleep_between_retries = \"50ms\"\n";

/// A yard that is ready for a deed, and what the deed leaves behind when nothing disturbs it.
pub(crate) struct Stage {
    /// The yard.
    pub(crate) yard: Yard,
    /// The deed's command.
    pub(crate) arguments: Vec<String>,
    /// What nobody may touch.
    pub(crate) bystanders: Bystanders,
    snapshot: Snapshot,
    outcome: fn(&Yard) -> Value,
    expected: Value,
}

impl Stage {
    /// Prepares a yard, and does the deed once, undisturbed.
    pub(crate) fn set(deed: &Deed, store: &'static str) -> Stage {
        Stage::set_inside(&std::env::temp_dir(), deed, store)
    }

    /// The same in a folder of this directory.
    pub(crate) fn set_inside(directory: &Path, deed: &Deed, store: &'static str) -> Stage {
        let yard = Yard::inside(directory, store).with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&yard);
        let arguments = (deed.prepare)(&yard);
        let snapshot = Snapshot::take(&yard);
        let mut stage =
            Stage { yard, arguments, bystanders, snapshot, outcome: deed.outcome, expected: Value::Null };
        stage.do_again();
        (deed.undisturbed)(&stage.yard);
        stage.expected = (deed.outcome)(&stage.yard);
        stage.reset();
        stage
    }

    /// Puts the yard back.
    pub(crate) fn reset(&self) {
        self.snapshot.put_back();
    }

    /// The deed's command, as the field wants it.
    pub(crate) fn command(&self) -> Vec<&str> {
        self.arguments.iter().map(String::as_str).collect()
    }

    /// Does the deed, which must succeed.
    pub(crate) fn do_again(&self) {
        self.yard.ok(&self.command());
    }

    /// Requires that the yard is as an undisturbed deed leaves it, and that nobody else was touched.
    pub(crate) fn require_done(&self) {
        let found = (self.outcome)(&self.yard);
        assert_eq!(found, self.expected, "the end is not that of an undisturbed run");
        self.bystanders.require_untouched(&self.yard);
    }

    /// Requires that the store can be read as it stands, and that nobody else was touched: whatever happened.
    pub(crate) fn require_readable(&self) {
        self.yard.json(&["ps", "-a"]);
        self.bystanders.require_untouched(&self.yard);
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
