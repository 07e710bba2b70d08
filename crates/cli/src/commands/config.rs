//! `sexton config`: shows every setting, its value and its source.

use clap::Args;
use serde_json::json;
use sexton_core::config::Config;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::{Cell, Column, Table, Tone};

/// Show every setting and its source.
#[derive(Args)]
#[command(long_about = "\
Show every setting and its source. Settings are read from <config-dir>/sexton/config.toml, then \
.sexton.toml at the root of the repository (most keys only after `sexton trust`), then the \
environment, then flags.")]
#[command(after_help = help())]
pub struct ConfigArgs {}

fn help() -> String {
    let widest = Config::SETTINGS.iter().map(|info| info.key.len()).max().unwrap_or(0);
    let lines = Config::SETTINGS.iter().map(|info| format!("  {:widest$}  {}", info.key, info.summary));
    let keys = lines.collect::<Vec<_>>().join("\n");
    format!("Keys:\n{keys}\n\nExample:\n  sexton config --json | jq '.[\"store.url\"].value'")
}

/// Shows the configuration.
pub fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    context.require_foreign()?;
    let shown = context.config.shown();
    if context.screen.json {
        let entry = |shown: &sexton_core::config::ShownSetting| {
            (shown.info.key.to_owned(), json!({"value": shown.value, "origin": shown.origin}))
        };
        let document: serde_json::Map<_, _> = shown.iter().map(entry).collect();
        context.screen.document(&document)?;
        return Ok(Exit::DONE);
    }
    let mut table = Table::new([Column::fixed("KEY"), Column::shrinking("VALUE"), Column::shrinking("FROM")]);
    for shown in shown {
        let value = shown.value.as_str().map_or_else(|| shown.value.to_string(), str::to_owned);
        table.row([shown.info.key.into(), value.into(), Cell::toned(Tone::Faint, &shown.origin)]);
    }
    context.screen.table(&table)?;
    Ok(Exit::DONE)
}
