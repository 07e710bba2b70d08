//! Which file a name means.

use std::io;
use std::path::{Path, PathBuf};

use crate::find::find;

/// The file that `path` means. A link must not be replaced by what is written in the place of the file it leads
/// to, and two names of one file must share one lock. One that leads nowhere is itself the place; one that cannot
/// be followed is an error, never a file of its own.
pub fn follow_link(path: &Path) -> io::Result<PathBuf> {
    let is_link = find(path.symlink_metadata())?.is_some_and(|metadata| metadata.is_symlink());
    let target = if is_link { find(path.canonicalize())? } else { None };
    Ok(target.unwrap_or_else(|| path.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_means_its_target_and_everything_else_itself() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let [file, link, nowhere, missing] =
            ["file", "link", "nowhere", "missing"].map(|name| home.join(name));
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        symlink(&missing, &nowhere).unwrap();
        assert_eq!(follow_link(&link).unwrap(), file);
        for itself in [&file, &nowhere, &missing] {
            assert_eq!(follow_link(itself).unwrap(), *itself);
        }
    }

    #[test]
    fn a_link_that_cannot_be_followed_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink(&link, &link).unwrap();
        assert!(follow_link(&link).is_err());
    }
}
