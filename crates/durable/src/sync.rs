//! Syncing to disk. Everything that must survive a power cut goes through here.

use std::fs::File;
use std::io;
use std::path::Path;

/// Syncs a file's content and all metadata.
pub fn sync_all(file: &File) -> io::Result<()> {
    mutated(file, File::sync_all)
}

/// Syncs a file's content, and only the metadata needed to read it.
pub fn sync_data(file: &File) -> io::Result<()> {
    mutated(file, File::sync_data)
}

/// Syncs the whole file system of `path`: for files that other programs wrote without syncing them.
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
