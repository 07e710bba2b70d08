//! Formats notices as lines of text.

use sexton_core::duration::format_duration;
use sexton_ralph::{How, Notice, Work};

/// Returns the line for a notice, and whether it is a warning; `None` if the notice is shown in another way.
pub(super) fn line(notice: &Notice) -> Option<(String, bool)> {
    let plain = |text: String| Some((text, false));
    let warning = |text: String| Some((text, true));
    match notice {
        Notice::Began { session, name, base } => {
            plain(format!("{name} is session {session}; finished work is merged into `{base}`"))
        }
        Notice::Continued { from, iteration, unfinished } => plain(format!(
            "continues session {from}: {iteration} tickets started so far, {unfinished} not finished"
        )),
        Notice::Started { ticket, attempt, session, rescue, .. } => {
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            let rescue = rescue.as_ref().map(|id| format!(", with the work of session {id}"));
            plain(format!("{ticket}: started session {session}{again}{}", rescue.unwrap_or_default()))
        }
        Notice::Ended { ticket, how, .. } => plain(format!("{ticket}: {how}")),
        Notice::Retrying { ticket, attempt, pause } => {
            plain(format!("{ticket}: attempt {attempt} starts in {}", format_duration(*pause)))
        }
        Notice::Done { ticket, work, kept } => {
            let kept = kept.as_ref().map(|why| format!("; its worktree was kept: {why}")).unwrap_or_default();
            plain(format!("{ticket}: {}{kept}", done(work)))
        }
        Notice::Deferred { ticket, why } => warning(format!("{ticket} cannot be merged now: {why}")),
        Notice::Conflict { ticket, branch, worktree, paths } => {
            let place = worktree.as_ref().map(|path| format!(" and {}", path.display())).unwrap_or_default();
            warning(format!("{ticket} has merge conflicts in {}: kept {branch}{place}", paths.join(", ")))
        }
        Notice::SetAside { ticket, why, log } => {
            let log = log.as_ref().map(|log| format!("; its output is in {}", log.display()));
            warning(format!("{ticket} is set aside: {why}{}", log.unwrap_or_default()))
        }
        Notice::Refused { why } => warning(why.clone()),
        Notice::QueryFailed { why } => warning(format!("the ticket query failed: {why}")),
        Notice::Warning { what } => warning(what.clone()),
        Notice::Stopping { at_once: true, .. } => plain("stopping immediately".to_owned()),
        Notice::Stopping { sessions, .. } => {
            plain(format!("stopping {sessions} running sessions; repeat the signal to kill them immediately"))
        }
        Notice::Failed { why } => warning(format!("no more tickets are started: {why}")),
        Notice::Recovered { .. } | Notice::Finished(_) => None,
    }
}

fn done(work: &Work) -> String {
    match work {
        Work::Merged { commit, how: How::FastForward } => format!("merged as {commit}"),
        Work::Merged { commit, how: How::MergeCommit } => format!("merged by {commit}"),
        Work::Merged { how: How::Already, .. } => "already merged".to_owned(),
        Work::OnBranch { commit } => format!("done, on its branch at {commit}"),
        Work::Nothing => "done, with nothing to merge".to_owned(),
    }
}
