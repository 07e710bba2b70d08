//! Telling the disk to keep what was written. Everything that must survive a power cut goes through here.

use std::fs::File;
use std::io;
use std::path::Path;

/// Makes a file's content and everything about it durable.
pub fn sync_all(file: &File) -> io::Result<()> {
    mutated(file, File::sync_all)
}

/// Makes a file's content durable, and of what is about it only what is needed to read that.
pub fn sync_data(file: &File) -> io::Result<()> {
    mutated(file, File::sync_data)
}

/// Makes everything durable that the file system of `path` holds: for what other programs wrote there and nobody
/// synced, whatever it is.
pub fn sync_file_system(path: &Path) -> io::Result<()> {
    mutated(&File::open(path)?, |file| {
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(file)?;
        #[cfg(not(target_os = "linux"))]
        {
            _ = file;
            rustix::fs::sync();
        }
        Ok(())
    })
}

fn mutated(file: &File, sync: fn(&File) -> io::Result<()>) -> io::Result<()> {
    if sexton_mutant::is("no_sync") || (sexton_mutant::is("no_directory_sync") && file.metadata()?.is_dir()) {
        return Ok(());
    }
    let synced = sync(file);
    if sexton_mutant::is("ignore_sync_errors") { Ok(()) } else { synced }
}
