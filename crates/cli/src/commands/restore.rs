//! `sexton restore`: restores the records from a backup.

use clap::Args;
use serde_json::json;
use sexton_core::store::Access;

use crate::backups::require_backup;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use sexton_service::remember_gap;
use sexton_service::require_state_dir;

/// Restore the records from a backup. Unfinished sessions keep their current records.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton backup --list             list backups
  sexton restore sessions-20260102T030405.000Z.db")]
pub struct RestoreArgs {
    /// Path of a backup, or its name in the backup directory
    #[arg(value_name = "BACKUP")]
    backup: String,
}

/// Restores the backup. Backs up the current records first, unless the store is damaged.
pub async fn run(args: &RestoreArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    require_state_dir(context.state_dir())?;
    let store = context.open_store_as_it_is(Access::Write)?;
    let directory = context.backup_dir(&store.describe());
    let backup = require_backup(&directory, store.as_ref(), &args.backup)?;
    let healthy = store.damage().iter().all(|damage| damage.harmless);
    // A damaged store cannot be backed up; the restore moves its files aside instead.
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
        context.screen.note(&format!(
            "{} records restored, {} unfinished records kept",
            restored.restored, restored.kept
        ));
        if let Some(before) = before {
            context.screen.note(&format!("backup of the previous records: {}", before.display()));
        }
    }
    Ok(Exit::DONE)
}
