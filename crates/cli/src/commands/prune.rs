//! `sexton prune`: retention alone.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use sexton_core::duration::{format_duration, parse_duration};
use sexton_core::recover::{Retention, prune};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::Bar;

/// Let old finished records go, with their logs. Never one whose worktree is still there.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton prune --dry-run           say how many would go
  sexton prune --ttl 1d --keep 100")]
pub struct PruneArgs {
    /// Keep finished records for so long [default: retention.ttl, 7d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// Keep so many of them [default: retention.keep, 1000]
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Say how many would go, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Prunes, and says what went.
pub async fn run(args: &PruneArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    let tools = if args.dry_run { context.tools_for_reading()? } else { context.tools_for_writing()? };
    let mut retention = Retention::from_config(&context.config);
    retention.ttl = args.ttl.unwrap_or(retention.ttl);
    retention.keep = args.keep.unwrap_or(retention.keep);
    let bar = Bar::for_terminal();
    let pruned = prune(&tools.ground(), &retention, args.dry_run, &bar).await?;
    bar.clear();
    if context.screen.json {
        context.screen.document(&json!({"dry_run": args.dry_run, "pruned": pruned}))?;
    } else {
        let verb = if args.dry_run { "would be removed" } else { "removed" };
        context.screen.note(&format!(
            "{verb}: {} older than {}, {} beyond the newest {}",
            pruned.expired,
            format_duration(retention.ttl),
            pruned.over_limit,
            retention.keep
        ));
    }
    Ok(Exit::DONE)
}
