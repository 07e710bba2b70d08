//! The conformance suite of [`Store`]: one file per theme, each case a separate test.
//!
//! Cases that need other processes start the test binary again as a worker (see [`run`]); crash cases use SIGKILL. The
//! suite accesses a store only through the trait, except where the contract is about files: that no byte of them
//! changes, or that they are synced.

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
mod test_env;
mod trace;
mod worker;

/// A store under test.
#[derive(Clone, Copy)]
pub struct Subject {
    /// Its name, the prefix of its test names.
    pub name: &'static str,
    /// Opens it.
    pub open: fn(&StoreOptions) -> Result<Box<dyn Store>, StoreError>,
    /// Name of its file.
    pub file_name: &'static str,
    /// Rewrites a healthy store without open handles as if a newer version had written it.
    pub make_newer: fn(&Path),
    /// Changes bytes of a store without open handles so that only this record cannot be read.
    pub damage_one_record: fn(&Path, &SessionId),
    /// What it can represent. A case that needs more is replaced by one that asserts a refusal.
    pub capabilities: Capabilities,
    /// Adds what every record of this store must have, and replaces a status that it cannot write.
    pub dress: fn(Session) -> Session,
    /// Contents of a file of another kind that is most similar to this store's.
    pub stranger: &'static [u8],
    /// Number of commits by each of 16 processes; fewer for a store that rewrites everything.
    pub contended_commits: usize,
}

/// Themes for every store, including one in memory.
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

/// Themes for stores with files.
const BETWEEN_PROCESSES: [Theme<Subject>; 6] = [
    files::THEME,
    locks::BETWEEN_PROCESSES,
    contention::THEME,
    crashes::THEME,
    durability::THEME,
    model::THEME,
];

/// Runs the suite on `subject`, or the role for which a case started this process.
pub fn run(subject: &Subject) -> ExitCode {
    if let Some((role, arguments)) = role::assigned() {
        worker::run_role(subject, &role, &arguments);
        return ExitCode::SUCCESS;
    }
    let themes: Vec<_> = WITHIN_ONE_PROCESS.into_iter().chain(BETWEEN_PROCESSES).collect();
    run_themes(subject.name, subject, &themes)
}

/// Runs the part of the suite that needs neither files nor other processes.
pub fn run_within_one_process(subject: &Subject) -> ExitCode {
    run_themes(subject.name, subject, &WITHIN_ONE_PROCESS)
}
