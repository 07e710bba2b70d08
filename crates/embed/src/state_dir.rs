//! The state directory: made private, and refused where somebody else could change what is in it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sexton_durable::create_private_dir;

use crate::error::HouseError;

/// What is wrong with a state directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsafe {
    /// What.
    pub what: String,
    /// What to do about it.
    pub cure: String,
}

/// Makes the state directory where it is missing. One that others could write to is refused: whoever can
/// change a record decides which processes are ended and which directories are removed.
pub fn require_state_dir(dir: &Path) -> Result<(), HouseError> {
    create_private_dir(dir).map_err(|source| HouseError::StateDir { path: dir.to_owned(), source })?;
    require_safe(dir)
}

/// Refuses a state directory that others could write to; one that does not exist is nobody's.
pub fn require_safe(dir: &Path) -> Result<(), HouseError> {
    let examined = find_danger(dir)
        .map_err(HouseError::io(format!("cannot examine the state directory {}", dir.display())))?;
    match examined {
        None => Ok(()),
        Some(Unsafe { what, cure }) => Err(HouseError::UnsafeStateDir { what, cure }),
    }
}

/// Looks for what makes a state directory unsafe.
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
        return Ok(Some(Unsafe { what, cure: "give `--state-dir` a directory".to_owned() }));
    }
    if metadata.uid() != me {
        let what = format!("the state directory {shown} belongs to another user (uid {})", metadata.uid());
        let cure = "give `--state-dir` (or SEXTON_STATE_DIR) a directory of your own".to_owned();
        return Ok(Some(Unsafe { what, cure }));
    }
    if metadata.mode() & 0o022 != 0 {
        let what = format!(
            "the state directory {shown} can be written by others (mode {:03o})",
            metadata.mode() & 0o777
        );
        return Ok(Some(Unsafe { what, cure: format!("chmod 700 {shown}") }));
    }
    Ok(None)
}
