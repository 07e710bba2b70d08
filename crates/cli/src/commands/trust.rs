//! `sexton trust`: allow this repository's own files to set everything.

use clap::Args;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::layers::{REPO_FILE, load_files_to_trust};
use crate::trust;
use sexton_embed::require_state_dir;
use sexton_ralph::ticketflow::FILE;

/// Allow this repository's .sexton.toml to set everything: the store, the state directory, commands. The same
/// for .tf/ralph/config.json, where there is one. Remembered by content; a file that changes has to be trusted
/// again.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cat .sexton.toml                 read it first
  sexton trust")]
pub struct TrustArgs {}

/// Trusts the file as it is now.
pub fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    let files = load_files_to_trust()?;
    if files.is_empty() {
        let message =
            format!("there is no {REPO_FILE} at the root of a repository around here, and no {FILE}");
        return Err(Failure::new(message));
    }
    let state_dir = context.trust_dir();
    require_state_dir(state_dir)?;
    for file in files {
        trust::trust(state_dir, &file).map_err(|error| {
            Failure::new(format!("cannot remember the trust in {}: {error}", state_dir.display()))
        })?;
        let path = file.path.display();
        context.screen.note(&format!("{path} may now set everything, as long as it does not change"));
    }
    Ok(Exit::DONE)
}
