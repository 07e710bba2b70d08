//! `sexton schema`: prints the JSON Schema of a record.

use clap::Args;
use schemars::schema_for;
use sexton_core::Session;

use crate::failure::{Exit, Failure};
use crate::screen::Screen;

/// Print the JSON Schema of a record, as printed by `show --json` and `ps --json`.
#[derive(Args)]
#[command(after_help = "\
Example:
  sexton schema > session.schema.json")]
pub struct SchemaArgs {}

/// Prints the schema.
pub fn run(screen: &Screen) -> Result<Exit, Failure> {
    screen.document(&record_schema())?;
    Ok(Exit::DONE)
}

/// Returns the JSON Schema of a record.
pub fn record_schema() -> serde_json::Value {
    schema_for!(Session).to_value()
}
