//! `sexton trust`: trusts the configuration files of a repository.

use clap::Args;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::layers::{REPO_FILE, load_files_to_trust};
use sexton_durable::remember_trust;
use sexton_ralph::ticketflow::FILE;
use sexton_service::require_state_dir;

/// Trust this repository's .sexton.toml, and .tf/ralph/config.json if it exists. A trusted file may change every
/// setting, including the store, the state directory and commands. Trust applies to the current content; a changed
/// file has to be trusted again.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cat .sexton.toml                 review the file first
  sexton trust")]
pub struct TrustArgs {}

/// Trusts the current content of the files.
pub fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    let files = load_files_to_trust()?;
    if files.is_empty() {
        let message = format!("no {REPO_FILE} or {FILE} found at the root of the current repository");
        return Err(Failure::new(message));
    }
    let state_dir = context.trust_dir();
    require_state_dir(state_dir)?;
    for file in files {
        remember_trust(state_dir, &file.path, file.text.as_bytes()).map_err(|error| {
            Failure::new(format!("cannot store the trust in {}: {error}", state_dir.display()))
        })?;
        let path = file.path.display();
        context.screen.note(&format!("{path} is trusted until its content changes"));
    }
    Ok(Exit::DONE)
}
