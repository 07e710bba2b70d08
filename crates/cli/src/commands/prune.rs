//! `sexton prune`: applies the retention policy.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use sexton_core::duration::{format_duration, parse_duration};
use sexton_core::recover::{PruneReport, Retention, prune, prune_host};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::Bar;

/// Delete old finished records and their logs. Records whose worktree still exists are kept.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton prune --dry-run           show how many records would be deleted
  sexton prune --ttl 1d --keep 100
  sexton prune --host old-laptop   delete records of a decommissioned machine, or of this machine's former name")]
pub struct PruneArgs {
    /// Maximum age of finished records [default: retention.ttl, 7d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// Maximum number of finished records [default: retention.keep, 1000]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Delete the records of this other host instead of those of the current host
    #[arg(long, value_name = "HOSTNAME")]
    host: Option<String>,
    /// Show how many records would be deleted without deleting them
    #[arg(long)]
    dry_run: bool,
}

/// Deletes the records, and prints how many.
pub async fn run(args: &PruneArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let tools = if args.dry_run { context.tools_for_reading()? } else { context.tools_for_writing()? };
    let mut retention = Retention::from_config(&context.config);
    retention.ttl = args.ttl.unwrap_or(retention.ttl);
    retention.keep = args.keep.unwrap_or(retention.keep);
    let bar = Bar::for_terminal();
    let recovery_context = tools.recovery_context();
    let PruneReport { pruned, problems } = match &args.host {
        None => prune(&recovery_context, &retention, args.dry_run, &bar).await?,
        Some(host) => prune_host(host, &recovery_context, &retention, args.dry_run, &bar).await?,
    };
    bar.clear();
    if context.screen.json {
        context.screen.document(&json!({"dry_run": args.dry_run, "pruned": pruned, "problems": problems}))?;
    } else {
        let verb = if args.dry_run { "would delete" } else { "deleted" };
        let records = if pruned.expired == 1 { "record" } else { "records" };
        context.screen.note(&format!(
            "{verb} {} {records} older than {} and {} beyond the newest {}",
            pruned.expired,
            format_duration(retention.ttl),
            pruned.over_limit,
            retention.keep
        ));
    }
    for problem in &problems {
        let prefix = problem.session.as_ref().map(|id| format!("session {id}: ")).unwrap_or_default();
        context.screen.warn(&format!("{prefix}{}", problem.error));
    }
    if problems.is_empty() {
        return Ok(Exit::DONE);
    }
    context.screen.hint("the next `sexton recover` retries");
    Ok(Exit::PARTLY_DONE)
}
