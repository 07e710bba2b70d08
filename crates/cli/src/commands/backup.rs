//! `sexton backup`: creates a verified copy of the store.

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use sexton_core::Time;
use sexton_core::duration::format_age;
use sexton_core::store::Access;
use sexton_supervise::rotate_backups;

use crate::backups::find_backups;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::screen::{Column, Table};
use sexton_service::require_state_dir;

/// Back up the store. Each backup is read back and verified.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton backup                    create a backup
  sexton backup --list             list backups
  sexton restore BACKUP            restore a backup")]
pub struct BackupArgs {
    /// List backups instead of creating one
    #[arg(long)]
    list: bool,
}

/// Creates a backup, or lists the backups.
pub async fn run(args: &BackupArgs, context: &mut Context<'_>) -> Result<Exit, Failure> {
    if args.list {
        return list(context);
    }
    require_state_dir(context.state_dir())?;
    let store = context.open_for_reading()?;
    let directory = context.backup_dir(&store.describe());
    let backup = store.backup(&directory, context.now).await?;
    let rotated = rotate_backups(&directory, &store.describe().path, context.config.backup_keep.value)
        .map_err(|error| Failure::new(format!("cannot remove old backups: {error}")))?;
    if context.screen.json {
        let removed: Vec<_> = rotated.iter().map(|path| path.display().to_string()).collect();
        let document = json!({"backup": backup.path.display().to_string(), "records": backup.records, "removed": removed});
        context.screen.document(&document)?;
    } else {
        context.screen.path(&backup.path)?;
        context.screen.note(&format!("{} records, read back and verified", backup.records));
    }
    Ok(Exit::DONE)
}

fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.open_store_as_it_is(Access::Read)?;
    let backups = find_backups(&context.backup_dir(&store.describe()), &store.describe().path)?;
    let made_at = |at| Timestamp::try_from(at).map_or(context.now, Time::from);
    if context.screen.json {
        let documents: Vec<_> = backups
            .iter()
            .map(|backup| {
                json!({"backup": backup.path.display().to_string(), "bytes": backup.bytes,
                       "made_at": made_at(backup.made_at)})
            })
            .collect();
        context.screen.document(&documents)?;
        return Ok(Exit::DONE);
    }
    let mut table = Table::new([Column::fixed("AGE"), Column::fixed("BYTES"), Column::fixed("BACKUP")]);
    for backup in backups {
        let age = format_age(made_at(backup.made_at).age_at(context.now));
        table.row([age.into(), backup.bytes.to_string().into(), backup.path.display().to_string().into()]);
    }
    if table.is_empty() {
        context.screen.note("no backups yet; `sexton backup` creates one");
    } else {
        context.screen.table(&table)?;
    }
    Ok(Exit::DONE)
}
