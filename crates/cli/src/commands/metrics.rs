//! `sexton metrics`: prints metrics in the Prometheus text format.

use std::fmt::Write;

use clap::Args;
use serde_json::json;
use sexton_core::Status;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Print metrics in the Prometheus text format.
#[derive(Args)]
#[command(after_help = "\
Example:
  sexton metrics > /var/lib/node_exporter/sexton.prom")]
pub struct MetricsArgs {}

/// A group of counters of the store, and its metric name.
struct Family {
    prefix: &'static str,
    metric: &'static str,
    label: Option<&'static str>,
    help: &'static str,
}

/// All counters. The counters of a family start with its prefix; the rest of the name is the label's value.
const FAMILIES: [Family; 6] = [
    Family {
        prefix: "recoveries",
        metric: "sexton_recoveries_total",
        label: None,
        help: "Recoveries that changed something.",
    },
    Family {
        prefix: "recovery_milliseconds",
        metric: "sexton_recovery_milliseconds_total",
        label: None,
        help: "Time spent in recoveries that changed something.",
    },
    Family {
        prefix: "orphans.",
        metric: "sexton_orphans_total",
        label: Some("cause"),
        help: "Orphans, by cause.",
    },
    Family {
        prefix: "worktrees.",
        metric: "sexton_worktrees_total",
        label: Some("outcome"),
        help: "Worktrees of orphans, by outcome.",
    },
    Family {
        prefix: "pruned.age_days.",
        metric: "sexton_pruned_age_days_total",
        label: Some("days"),
        help: "Records deleted by retention, by age.",
    },
    Family {
        prefix: "pruned.",
        metric: "sexton_pruned_total",
        label: Some("reason"),
        help: "Records deleted by retention, by reason.",
    },
];

/// Prints the metrics.
pub async fn run(context: &mut Context<'_>) -> Result<Exit, Failure> {
    let store = context.open_for_reading()?;
    let tally = store.tally().await?;
    let counters = store.counters().await?;
    if context.screen.json {
        context.screen.document(&json!({"sessions": tally, "counters": counters}))?;
        return Ok(Exit::DONE);
    }
    let mut text = String::from(
        "# HELP sexton_sessions Sessions in the store, by status.\n# TYPE sexton_sessions gauge\n",
    );
    for status in Status::ALL {
        let count = tally.get(&status).copied().unwrap_or(0);
        _ = writeln!(text, "sexton_sessions{{status=\"{status}\"}} {count}");
    }
    for (number, family) in FAMILIES.iter().enumerate() {
        _ = writeln!(text, "# HELP {} {}\n# TYPE {} counter", family.metric, family.help, family.metric);
        let Some(label) = family.label else {
            let count = counters.get(family.prefix).copied().unwrap_or(0);
            _ = writeln!(text, "{} {count}", family.metric);
            continue;
        };
        for (name, count) in &counters {
            let taken = FAMILIES[..number].iter().any(|earlier| name.starts_with(earlier.prefix));
            if let Some(value) = name.strip_prefix(family.prefix).filter(|_| !taken) {
                _ = writeln!(text, "{}{{{label}=\"{value}\"}} {count}", family.metric);
            }
        }
    }
    context.screen.raw(text.as_bytes())?;
    Ok(Exit::DONE)
}
