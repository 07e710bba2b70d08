//! The conformance suite of [`ProcessProbe`], with real processes: the test binary executed again as an
//! actor that does what agents and their children do. One small file per theme.
//!
//! What a probe cannot promise it says in its capabilities, and the suite holds it to that: where
//! identities are not exact, evidence that does not match must at least never be taken for a match.

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
mod occupants;
mod scene;
mod usage;

/// A probe to be measured.
#[derive(Clone, Copy)]
pub struct ProbeSubject {
    /// Its name, which begins the names of its tests.
    pub name: &'static str,
    /// Opens it.
    pub open: fn() -> Result<Box<dyn ProcessProbe>, ProbeError>,
}

const THEMES: [Theme<ProbeSubject>; 6] =
    [identity::THEME, members::THEME, occupants::THEME, ending::THEME, handle::THEME, usage::THEME];

/// Runs the suite on `subject`, or plays the part that a case started this process for.
pub fn run(subject: &ProbeSubject) -> ExitCode {
    if let Some((role, arguments)) = role::assigned() {
        play(subject, &role, &arguments);
        return ExitCode::SUCCESS;
    }
    run_themes(subject.name, subject, &THEMES)
}

fn play(subject: &ProbeSubject, role: &str, arguments: &[OsString]) {
    match (role, arguments) {
        (actor::ACTOR, acts) => actor::perform(acts),
        (handle::ENDER, [session]) => {
            let session = session.to_str().and_then(|session| session.parse().ok());
            handle::end(subject, session.expect("a session's id"));
        }
        (other, arguments) => panic!("there is no role `{other}` with {arguments:?}"),
    }
}
