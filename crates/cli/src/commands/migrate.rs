//! `sexton migrate`: copies all records from one store to another.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use sexton_core::store::{Access, Change, Fitted};
use sexton_core::{Batch, Query, Session, SessionId, Store, StoreError};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::Bar;
use sexton_service::require_state_dir;

/// Copy all records from one store to another. A second run adds nothing.
///
/// If the target store does not support a field, the rest of the record is copied, and each field that was not
/// copied is reported.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton migrate --from sqlite:$HOME/.local/state/sexton/sessions.db --to json:$PWD/sessions.jsonl
  sexton migrate --from tf:.tf/ralph/dispatch-sessions.json --to sqlite:$PWD/sessions.db")]
pub struct MigrateArgs {
    /// Source store
    #[arg(long, value_name = "URL")]
    from: String,
    /// Target store
    #[arg(long, value_name = "URL")]
    to: String,
}

/// The number of records per commit.
const BATCH: usize = 500;

/// The maximum number of example sessions per field in the report.
const EXAMPLES: usize = 3;

/// The result of a migration.
#[derive(Default)]
struct Outcome {
    added: usize,
    unchanged: usize,
    differing: Vec<String>,
    refused: Vec<String>,
    lost: BTreeMap<String, Lost>,
}

/// A field that was not copied.
#[derive(Default, Serialize)]
struct Lost {
    /// The number of records that lost it.
    records: usize,
    /// Some of these records.
    examples: Vec<SessionId>,
}

impl Outcome {
    fn note_lost(&mut self, fitted: &Fitted) {
        for field in &fitted.lost {
            let lost = self.lost.entry(field.clone()).or_default();
            lost.records += 1;
            if lost.examples.len() < EXAMPLES {
                lost.examples.push(fitted.session.id.clone());
            }
        }
    }
}

/// Copies the records that the target does not have. A record that differs in the target is not changed, and is
/// reported.
pub async fn run(args: &MigrateArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let source = context.open_url(&args.from, Access::Read)?;
    let origin = source.describe();
    if !origin.path.exists() {
        return Err(Failure::new(format!("no store at {}", origin.path.display())));
    }
    let serious: Vec<_> = source.damage().into_iter().filter(|damage| !damage.harmless).collect();
    if !serious.is_empty() {
        return Err(StoreError::Damaged { path: origin.path, damage: serious }.into());
    }
    require_state_dir(context.state_dir())?;
    let target = context.open_url(&args.to, Access::Write)?;
    if target.describe().path == origin.path {
        return Err(Failure::usage("--from and --to are the same store"));
    }
    let listing = source.list(&Query::all()).await?;
    context.screen.report_damage(&origin.path, &listing.damage);
    let active = listing.sessions.iter().filter(|session| session.status.is_active()).count();
    let bar = Bar::for_terminal();
    let outcome = copy(listing.sessions, target.as_ref(), &bar).await?;
    bar.clear();
    report(&outcome, active, context)
}

async fn copy(sessions: Vec<Session>, target: &dyn Store, bar: &Bar) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let mut pending = Vec::new();
    let present = target.list(&Query::all()).await?.sessions.into_iter();
    let present: BTreeMap<_, _> = present.map(|session| (session.id.clone(), session)).collect();
    bar.start("copying records", sessions.len());
    // Oldest first, so that an interrupted run leaves a history without gaps.
    for session in sessions.into_iter().rev() {
        bar.step();
        let fitted = match target.fit(&session) {
            Err(error @ StoreError::Unsupported { .. }) => {
                outcome.refused.push(format!("{}: {error}", session.id));
                continue;
            }
            fitted => fitted?,
        };
        match present.get(&session.id) {
            None => pending.push(fitted),
            Some(present) if same_but_revision(present, &fitted.session) => {
                outcome.unchanged += 1;
                outcome.note_lost(&fitted);
            }
            Some(present) => outcome.differing.push(present.id.to_string()),
        }
        if pending.len() == BATCH {
            add(std::mem::take(&mut pending), target, &mut outcome).await?;
        }
    }
    add(pending, target, &mut outcome).await?;
    Ok(outcome)
}

/// Commits a batch. If a constraint rejects it, commits the records one by one, so that only the conflicting
/// records are omitted.
async fn add(records: Vec<Fitted>, target: &dyn Store, outcome: &mut Outcome) -> Result<(), Failure> {
    let mut batch = Batch::new();
    batch.changes = records.iter().map(|fitted| Change::Insert(Box::new(fitted.session.clone()))).collect();
    match target.commit(batch).await {
        Ok(_) => {
            outcome.added += records.len();
            records.iter().for_each(|fitted| outcome.note_lost(fitted));
            return Ok(());
        }
        Err(StoreError::NameTaken { .. } | StoreError::Exists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    for fitted in records {
        match target.commit(Batch::new().insert(fitted.session.clone())).await {
            Ok(_) => {
                outcome.added += 1;
                outcome.note_lost(&fitted);
            }
            Err(error @ (StoreError::NameTaken { .. } | StoreError::Exists { .. })) => {
                outcome.refused.push(format!("{}: {error}", fitted.session.id));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn same_but_revision(a: &Session, b: &Session) -> bool {
    *a == Session { revision: a.revision, ..b.clone() }
}

fn report(outcome: &Outcome, active: usize, context: &Context<'_>) -> Result<Exit, Failure> {
    let screen = &context.screen;
    for id in &outcome.differing {
        screen.warn(&format!("session {id} differs in the target store and was not changed"));
    }
    for refused in &outcome.refused {
        screen.warn(&format!("not copied: session {refused}"));
    }
    for (field, lost) in &outcome.lost {
        let examples: Vec<_> = lost.examples.iter().map(SessionId::as_str).collect();
        let more = if lost.records > examples.len() { ", …" } else { "" };
        let examples = examples.join(", ");
        screen.warn(&format!("`{field}` was not copied for {} records ({examples}{more})", lost.records));
    }
    if active > 0 {
        screen.warn(&format!("{active} active sessions: their supervisors still write to the old store"));
    }
    if screen.json {
        screen.document(&json!({
            "added": outcome.added, "unchanged": outcome.unchanged,
            "differing": outcome.differing, "refused": outcome.refused, "lost": outcome.lost,
        }))?;
    } else {
        screen.note(&format!("{} records added, {} already present", outcome.added, outcome.unchanged));
    }
    let whole = outcome.differing.is_empty() && outcome.refused.is_empty();
    Ok(if whole { Exit::DONE } else { Exit::PARTLY_DONE })
}
