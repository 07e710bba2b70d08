//! `sexton migrate`: copy every record from one store to another.

use clap::Args;
use serde_json::json;
use sexton_core::store::{Access, Change};
use sexton_core::{Batch, Query, Session, Store, StoreError};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use sexton_embed::require_state_dir;

/// Copy every record from one store to another. Running it twice adds nothing.
#[derive(Args)]
#[command(after_help = "\
Example:
  sexton migrate --from sqlite:$HOME/.local/state/sexton/sessions.db --to json:$PWD/sessions.jsonl")]
pub struct MigrateArgs {
    /// The store to read
    #[arg(long, value_name = "URL")]
    from: String,
    /// The store to add to
    #[arg(long, value_name = "URL")]
    to: String,
}

/// How many records one commit carries.
const BATCH: usize = 500;

/// What became of the records.
#[derive(Default)]
struct Outcome {
    added: usize,
    unchanged: usize,
    differing: Vec<String>,
    refused: Vec<String>,
}

/// Copies what the target does not have. A record that both have and that differs is left as the target
/// has it, and named.
pub async fn run(args: &MigrateArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let source = context.open_url(&args.from, Access::Read)?;
    let origin = source.describe();
    if !origin.path.exists() {
        return Err(Failure::new(format!("there is no store at {}", origin.path.display())));
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
    let outcome = copy(listing.sessions, target.as_ref()).await?;
    report(&outcome, active, context)
}

async fn copy(sessions: Vec<Session>, target: &dyn Store) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let mut pending = Vec::new();
    // The oldest first: a run that is cut off has carried a history without holes.
    for session in sessions.into_iter().rev() {
        match target.load(&session.id).await? {
            None => pending.push(session),
            Some(present) if same_but_revision(&present, &session) => outcome.unchanged += 1,
            Some(present) => outcome.differing.push(present.id.to_string()),
        }
        if pending.len() == BATCH {
            add(std::mem::take(&mut pending), target, &mut outcome).await?;
        }
    }
    add(pending, target, &mut outcome).await?;
    Ok(outcome)
}

/// Commits a batch; where a rule of the records refuses it, one by one, so that only those are left out
/// that the rule is about.
async fn add(sessions: Vec<Session>, target: &dyn Store, outcome: &mut Outcome) -> Result<(), Failure> {
    let mut batch = Batch::new();
    batch.changes = sessions.iter().cloned().map(|session| Change::Insert(Box::new(session))).collect();
    match target.commit(batch).await {
        Ok(_) => {
            outcome.added += sessions.len();
            return Ok(());
        }
        Err(StoreError::NameTaken { .. } | StoreError::Exists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    for session in sessions {
        let id = session.id.clone();
        match target.commit(Batch::new().insert(session)).await {
            Ok(_) => outcome.added += 1,
            Err(error @ (StoreError::NameTaken { .. } | StoreError::Exists { .. })) => {
                outcome.refused.push(format!("{id}: {error}"));
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
        screen.warn(&format!("session {id} differs in the target and was left as it is there"));
    }
    for refused in &outcome.refused {
        screen.warn(&format!("not carried over: session {refused}"));
    }
    if active > 0 {
        screen.warn(&format!(
            "{active} active sessions: whoever supervises them still writes to the old store"
        ));
    }
    if screen.json {
        screen.document(&json!({
            "added": outcome.added, "unchanged": outcome.unchanged,
            "differing": outcome.differing, "refused": outcome.refused,
        }))?;
    } else {
        screen.note(&format!("{} records added, {} were there already", outcome.added, outcome.unchanged));
    }
    let whole = outcome.differing.is_empty() && outcome.refused.is_empty();
    Ok(if whole { Exit::DONE } else { Exit::PARTLY_DONE })
}
