//! `sexton restore`: bring the records of a backup back.

use clap::Args;
use serde_json::json;
use sexton_core::store::Access;

use crate::backups::require_backup;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use sexton_embed::remember_gap;
use sexton_embed::require_state_dir;

/// Bring the records of a backup back. Sessions that are not finished keep their present records.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton backup --list             show which backups there are
  sexton restore sessions-20260102T030405.000Z.db")]
pub struct RestoreArgs {
    /// A backup's file, or its name in the backup directory
    #[arg(value_name = "BACKUP")]
    backup: String,
}

/// Restores the backup; the present records are backed up first, where they can be read.
pub async fn run(args: &RestoreArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    require_state_dir(context.state_dir())?;
    let store = context.open_store_as_it_is(Access::Write)?;
    let directory = context.backup_dir(&store.describe());
    let backup = require_backup(&directory, store.as_ref(), &args.backup)?;
    let healthy = store.damage().iter().all(|damage| damage.harmless);
    // A damaged store cannot be backed up; restoring sets its files aside instead.
    let before = match healthy {
        true => Some(store.backup(&directory, context.now).await?.path),
        false => None,
    };
    remember_gap(&store.describe(), context.now)?;
    let restored = store.restore(&backup, context.now).await?;
    if context.screen.json {
        let document = json!({
            "backup": backup.display().to_string(), "restored": restored.restored, "kept": restored.kept,
            "before": before.as_ref().map(|path| path.display().to_string()),
        });
        context.screen.document(&document)?;
    } else {
        context
            .screen
            .note(&format!("{} records restored, {} unfinished ones kept", restored.restored, restored.kept));
        if let Some(before) = before {
            context.screen.note(&format!("the records as they were before: {}", before.display()));
        }
    }
    Ok(Exit::DONE)
}
