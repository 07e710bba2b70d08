//! Telling the disk to keep what was written. Everything that must survive a power cut goes through here.

use std::fs::File;
use std::io;

/// Makes a file's content and everything about it durable.
pub fn sync_all(file: &File) -> io::Result<()> {
    mutated(|| file.sync_all())
}

/// Makes a file's content durable, and of what is about it only what is needed to read that.
pub fn sync_data(file: &File) -> io::Result<()> {
    mutated(|| file.sync_data())
}

fn mutated(sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    if sexton_mutant::is("no_sync") {
        return Ok(());
    }
    let synced = sync();
    if sexton_mutant::is("ignore_sync_errors") { Ok(()) } else { synced }
}
