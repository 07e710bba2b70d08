//! `sexton backends`: lists the available backends, and whether they work on this machine.

use clap::Args;
use serde_json::json;
use sexton_core::plugin::Registry;
use sexton_core::worktree::WorktreeOptions;

use crate::failure::{Exit, Failure};
use crate::screen::{Cell, Column, Screen, Table, Tone};

/// List the available backends, and whether they work on this machine.
#[derive(Args)]
#[command(after_help = "\
Example:
  sexton backends --json | jq -r '.[] | select(.kind == \"store\") | .name'")]
pub struct BackendsArgs {}

struct Backend {
    kind: &'static str,
    name: &'static str,
    summary: &'static str,
    /// Why it does not work on this machine.
    trouble: Option<String>,
}

/// Lists the backends.
pub fn run(screen: &Screen) -> Result<Exit, Failure> {
    let backends = backends(&Registry::linked()?);
    if screen.json {
        let documents: Vec<_> = backends
            .iter()
            .map(|backend| {
                json!({"kind": backend.kind, "name": backend.name, "summary": backend.summary,
                       "works": backend.trouble.is_none(), "trouble": backend.trouble})
            })
            .collect();
        screen.document(&documents)?;
        return Ok(Exit::DONE);
    }
    let mut table = Table::new([
        Column::fixed("KIND"),
        Column::fixed("NAME"),
        Column::fixed("STATUS"),
        Column::shrinking("DESCRIPTION"),
    ]);
    for backend in &backends {
        let works = match backend.trouble {
            None => Cell::toned(Tone::Good, "works"),
            Some(_) => Cell::toned(Tone::Warning, "does not work"),
        };
        let what = backend.trouble.as_deref().unwrap_or(backend.summary);
        table.row([backend.kind.into(), backend.name.into(), works, what.into()]);
    }
    screen.table(&table)?;
    Ok(Exit::DONE)
}

fn backends(registry: &Registry) -> Vec<Backend> {
    let stores = registry.stores.iter().map(|plugin| Backend {
        kind: "store",
        name: plugin.name,
        summary: plugin.summary,
        trouble: None,
    });
    let probes = registry.probes.iter().map(|plugin| Backend {
        kind: "probe",
        name: plugin.name,
        summary: plugin.summary,
        trouble: (plugin.open)().err().map(|error| error.to_string()),
    });
    let worktrees = registry.worktrees.iter().map(|plugin| Backend {
        kind: "worktree",
        name: plugin.name,
        summary: plugin.summary,
        trouble: (plugin.open)(&WorktreeOptions { rescue_ignored: true, host: None })
            .err()
            .map(|error| error.to_string()),
    });
    stores.chain(probes).chain(worktrees).collect()
}
