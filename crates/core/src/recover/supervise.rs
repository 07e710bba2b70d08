//! Starts a new supervisor for a running session whose own was killed.

use super::act::Run;
use super::case::Case;
use super::plan::StepKind;
use crate::Session;

/// Starts a supervisor for every session that needs one. From then on its deadline, its owner and the size
/// limit of its log are enforced again.
pub(super) fn supervise(run: &Run<'_>, cases: &mut [Case]) {
    for case in cases.iter_mut().filter(|case| case.is_due(StepKind::Supervise)) {
        match supervise_again(run, &case.session) {
            Ok(true) => {}
            // It ended meanwhile, or has a supervisor now, so it is judged again.
            Ok(false) => case.overtaken = true,
            Err(why) => case.failure = Some(why),
        }
    }
}

/// Starts a supervisor for a session that lost its own. Returns whether it was still needed.
pub(super) fn supervise_again(run: &Run<'_>, session: &Session) -> Result<bool, String> {
    let started = run.context.state_files.supervise_again(session);
    started.map_err(|error| format!("cannot start a supervisor for it: {error}"))
}
