//! Looking: nothing there is an answer, not being able to look is none.

use std::io;

/// What was found; `None` where nothing is there.
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
    fn only_what_is_not_there_is_nothing() {
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
