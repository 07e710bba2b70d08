//! Distinguishes "not found" from failures: only the former is a result.

use std::io;

/// Returns what was found; `None` if it does not exist.
pub fn find<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_files_are_none() {
        let outcome = |kind: io::ErrorKind| find::<()>(Err(kind.into()));
        assert_eq!(find(Ok(1)).unwrap(), Some(1));
        assert_eq!(outcome(io::ErrorKind::NotFound).unwrap(), None);
        assert_eq!(outcome(io::ErrorKind::NotADirectory).unwrap(), None);
        assert_eq!(
            outcome(io::ErrorKind::PermissionDenied).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
    }
}
