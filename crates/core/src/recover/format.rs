//! Raises the store's format, but only if it is proved that no program of an older release still works on the
//! store. A supervisor that was started before an upgrade records its session's end in the format that it
//! knows.

use std::collections::BTreeMap;

use super::act::Run;
use super::context::{RecoverError, RecoveryContext};
use super::observe::{Sighting, sight};
use super::report::{FormatOutcome, FormatReport};
use crate::store::Format;
use crate::{Liveness, Query, Session, SessionId, Status, StoreError, release};

/// How many times records that changed meanwhile are examined.
const ROUNDS: usize = 4;

/// The state of the sessions of older releases.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Older {
    /// Sessions without a live supervisor, with the revision that was judged.
    gone: BTreeMap<SessionId, u64>,
    /// Sessions that may have a live supervisor.
    at_work: Vec<SessionId>,
}

/// Raises the format if a newer one exists and no process of an older release is running. A failure is
/// reported: the store keeps its present format.
pub(super) async fn raise(run: &mut Run<'_>) -> Result<(), RecoverError> {
    let Some(format) = run.context.store.format().await?.filter(Format::is_older) else { return Ok(()) };
    let mut report = FormatReport { found: format.found, newest: format.newest, ..FormatReport::default() };
    if let Err(error) = try_raise(run, format.since, &mut report).await {
        report.outcome = FormatOutcome::Failed;
        report.error = Some(error_chain(&error));
    }
    run.report.format = Some(report);
    Ok(())
}

async fn try_raise(run: &Run<'_>, since: &str, report: &mut FormatReport) -> Result<(), RecoverError> {
    for _ in 0..ROUNDS {
        let older = find_older(run.context, since).await?;
        report.waits_for.clone_from(&older.at_work);
        if !older.at_work.is_empty() || run.policy.dry_run {
            return Ok(());
        }
        // The backup lets a program go back that does not support the new format.
        if report.backup.is_none() {
            report.backup = Some(run.context.state_files.back_up(run.context.store, run.now())?.path);
        }
        let allows = |session: &Session| older.allows(session, since);
        match run.context.store.raise_format(&allows).await {
            Ok(()) => {
                report.outcome = FormatOutcome::Raised;
                return Ok(());
            }
            Err(StoreError::Conflict { id, .. }) => report.waits_for = vec![id],
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn error_chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", error_chain(source)),
        None => error.to_string(),
    }
}

impl Older {
    /// Returns whether a record, as it is now, proves that its supervisor cannot write in the older format any
    /// more.
    fn allows(&self, session: &Session, since: &str) -> bool {
        release::is_at_least(session.release.as_deref(), since)
            || self.gone.get(&session.id) == Some(&session.revision)
            || sexton_mutant::is("raise_under_old")
    }
}

/// Examines the sessions whose supervisor may be of a release before `since`.
async fn find_older(context: &RecoveryContext<'_>, since: &str) -> Result<Older, RecoverError> {
    let mut older = Older::default();
    for session in context.store.list(&Query::all()).await?.sessions {
        if release::is_at_least(session.release.as_deref(), since) {
            continue;
        }
        let (id, revision) = (session.id.clone(), session.revision);
        if may_be_at_work(&sight(context, session).await?) && !sexton_mutant::is("raise_under_old") {
            older.at_work.push(id);
        } else {
            older.gone.insert(id, revision);
        }
    }
    Ok(older)
}

/// Returns whether a program of the session's own release may still write its record. After the end is
/// recorded, only a supervisor that was observed alive may; before, any that was not observed gone.
fn may_be_at_work(seen: &Sighting) -> bool {
    let session = &seen.session;
    let is_active = session.status.is_active();
    if seen.rebooted {
        return false;
    }
    match &seen.supervisor {
        Some(Liveness::Alive) => true,
        Some(Liveness::Unknown(_)) => is_active,
        Some(Liveness::Gone | Liveness::Reused) => false,
        // Only the host that runs a session can determine this.
        None if !seen.ours && session.supervisor.is_some() => is_active,
        // Its start is in progress or was interrupted, which recovery handles. A registered session has no
        // supervisor.
        None => session.status == Status::Starting,
    }
}
