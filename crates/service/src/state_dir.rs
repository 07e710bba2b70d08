//! The state directory: created private, and refused if other users could change its content.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sexton_durable::create_private_dir;

use crate::error::ServiceError;

/// What is wrong with a state directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsafe {
    /// The problem.
    pub what: String,
    /// How to fix it.
    pub fix: String,
}

/// Creates the state directory if it is missing. Refuses one that other users can write to: records decide
/// which processes are stopped and which directories are removed.
pub fn require_state_dir(dir: &Path) -> Result<(), ServiceError> {
    create_private_dir(dir).map_err(|source| ServiceError::StateDir { path: dir.to_owned(), source })?;
    require_safe(dir)
}

/// Refuses a state directory that other users can write to. A missing one is safe.
pub fn require_safe(dir: &Path) -> Result<(), ServiceError> {
    let examined = find_danger(dir)
        .map_err(ServiceError::io(format!("cannot examine the state directory {}", dir.display())))?;
    match examined {
        None => Ok(()),
        Some(Unsafe { what, fix }) => Err(ServiceError::UnsafeStateDir { what, fix }),
    }
}

/// Returns what makes a state directory unsafe.
pub fn find_danger(dir: &Path) -> io::Result<Option<Unsafe>> {
    let metadata = match fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let shown = dir.display();
    let me = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() {
        let what = format!("the state directory {shown} is not a directory");
        return Ok(Some(Unsafe { what, fix: "set `--state-dir` to a directory".to_owned() }));
    }
    if metadata.uid() != me {
        let what = format!("the state directory {shown} belongs to another user (uid {})", metadata.uid());
        let fix = "set `--state-dir` (or SEXTON_STATE_DIR) to a directory that you own".to_owned();
        return Ok(Some(Unsafe { what, fix }));
    }
    if metadata.mode() & 0o022 != 0 {
        let what = format!(
            "the state directory {shown} is writable by other users (mode {:03o})",
            metadata.mode() & 0o777
        );
        return Ok(Some(Unsafe { what, fix: format!("chmod 700 {shown}") }));
    }
    Ok(None)
}
