//! Resolution of symbolic links.

use std::io;
use std::path::{Path, PathBuf};

use crate::find::find;

/// Returns the file that `path` refers to. A link must not be replaced when its target is written, and two
/// names of one file must share one lock. A dangling link is returned as it is; a link that cannot be
/// resolved is an error.
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
    fn links_are_resolved_and_other_paths_are_unchanged() {
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
    fn a_link_that_cannot_be_resolved_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        symlink(&link, &link).unwrap();
        assert!(follow_link(&link).is_err());
    }
}
