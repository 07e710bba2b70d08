//! `sexton trust`: allow this repository's `.sexton.toml` to set everything.

use clap::Args;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::layers::{REPO_FILE, load_repo_file};
use crate::trust;
use sexton_embed::require_state_dir;

/// Allow this repository's .sexton.toml to set everything: the store, the state directory, commands.
/// Remembered by content; a file that changes has to be trusted again.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cat .sexton.toml                 read it first
  sexton trust")]
pub struct TrustArgs {}

/// Trusts the file as it is now.
pub fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    let Some(file) = load_repo_file()? else {
        return Err(Failure::new(format!("there is no {REPO_FILE} at the root of a repository around here")));
    };
    let state_dir = context.trust_dir();
    require_state_dir(state_dir)?;
    trust::trust(state_dir, &file).map_err(|error| {
        Failure::new(format!("cannot remember the trust in {}: {error}", state_dir.display()))
    })?;
    context
        .screen
        .note(&format!("{} may now set everything, as long as it does not change", file.path.display()));
    Ok(Exit::DONE)
}
