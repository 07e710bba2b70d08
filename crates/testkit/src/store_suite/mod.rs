//! The conformance suite of [`Store`]: one small file per theme, each case a test of its own.
//!
//! Cases that need other processes start the test binary again as a worker ([`run`] notices); what must
//! survive a kill is killed with SIGKILL. The suite looks at a store only through the trait, except where
//! a promise is about its files: that not one byte of them changes, or that they are synced.

use std::path::Path;
use std::process::ExitCode;

use sexton_core::plugin::StoreOptions;
use sexton_core::store::Capabilities;
use sexton_core::{Session, SessionId, Store, StoreError};

use crate::role;
use crate::trials::{Theme, run_themes};

mod backups;
mod batches;
mod capabilities;
mod contention;
mod counters;
mod crashes;
mod damage;
mod durability;
mod fields;
mod files;
mod handles;
mod listing;
mod locks;
mod model;
mod needs;
mod newer;
mod roundtrip;
mod rules;
mod samples;
mod site;
mod trace;
mod worker;

/// A store to be measured.
#[derive(Clone, Copy)]
pub struct Subject {
    /// Its name, which begins the names of its tests.
    pub name: &'static str,
    /// Opens it.
    pub open: fn(&StoreOptions) -> Result<Box<dyn Store>, StoreError>,
    /// What its file is called.
    pub file_name: &'static str,
    /// Rewrites a healthy store, which nobody has open, as if a newer version had written it.
    pub make_newer: fn(&Path),
    /// Flips bytes of a store that nobody has open, so that this one record cannot be read and every
    /// other can.
    pub damage_one_record: fn(&Path, &SessionId),
    /// What it can represent. A case that needs more is replaced by one that asserts the refusal.
    pub capabilities: Capabilities,
    /// Gives a sample what every record of this store must have, and another status where its own cannot
    /// be written at all.
    pub dress: fn(Session) -> Session,
    /// The content of a file of another kind that looks most like this one's, and is not.
    pub stranger: &'static [u8],
    /// How many commits each of sixteen processes makes: fewer where each rewrites everything.
    pub contended_commits: usize,
}

/// What every store is asked, also one that lives in this process alone.
const WITHIN_ONE_PROCESS: [Theme<Subject>; 12] = [
    capabilities::THEME,
    roundtrip::THEME,
    batches::THEME,
    rules::THEME,
    listing::THEME,
    fields::THEME,
    counters::THEME,
    handles::THEME,
    locks::THEME,
    backups::THEME,
    newer::THEME,
    damage::THEME,
];

/// What only a store with files can be asked.
const BETWEEN_PROCESSES: [Theme<Subject>; 6] = [
    files::THEME,
    locks::BETWEEN_PROCESSES,
    contention::THEME,
    crashes::THEME,
    durability::THEME,
    model::THEME,
];

/// Runs the suite on `subject`, or plays the part that a case started this process for.
pub fn run(subject: &Subject) -> ExitCode {
    if let Some((role, arguments)) = role::assigned() {
        worker::play(subject, &role, &arguments);
        return ExitCode::SUCCESS;
    }
    let themes: Vec<_> = WITHIN_ONE_PROCESS.into_iter().chain(BETWEEN_PROCESSES).collect();
    run_themes(subject.name, subject, &themes)
}

/// Runs the part of the suite that needs neither files nor other processes.
pub fn run_within_one_process(subject: &Subject) -> ExitCode {
    run_themes(subject.name, subject, &WITHIN_ONE_PROCESS)
}
