//! The conformance suite of [`ProcessProbe`], with real processes: the test binary executed again as an actor that
//! behaves like agents and their children. One file per theme.
//!
//! A probe declares its limits in its capabilities, and the suite checks them: if identities are not exact, evidence
//! that does not match must still never be accepted as a match.

use std::ffi::OsString;
use std::process::ExitCode;

use sexton_core::{ProbeError, ProcessProbe};

use crate::role;
use crate::trials::{Theme, run_themes};

mod actor;
mod ending;
mod handle;
mod identity;
mod members;
mod neighbours;
mod occupants;
mod test_env;
mod usage;

/// A probe under test.
#[derive(Clone, Copy)]
pub struct ProbeSubject {
    /// Its name, the prefix of its test names.
    pub name: &'static str,
    /// Opens it.
    pub open: fn() -> Result<Box<dyn ProcessProbe>, ProbeError>,
}

const THEMES: [Theme<ProbeSubject>; 7] = [
    identity::THEME,
    members::THEME,
    neighbours::THEME,
    occupants::THEME,
    ending::THEME,
    handle::THEME,
    usage::THEME,
];

/// Runs the suite on `subject`, or the role for which a case started this process.
pub fn run(subject: &ProbeSubject) -> ExitCode {
    if let Some((role, arguments)) = role::assigned() {
        run_role(subject, &role, &arguments);
        return ExitCode::SUCCESS;
    }
    run_themes(subject.name, subject, &THEMES)
}

fn run_role(subject: &ProbeSubject, role: &str, arguments: &[OsString]) {
    match (role, arguments) {
        (actor::ACTOR, acts) => actor::perform(acts),
        (handle::ENDER, [session]) => {
            let session = session.to_str().and_then(|session| session.parse().ok());
            handle::end(subject, session.expect("a session's id"));
        }
        (other, arguments) => panic!("unknown role `{other}` with {arguments:?}"),
    }
}
