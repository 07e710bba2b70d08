//! What a recovery could not resolve, and whether an earlier one met it already.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::worktree::Leftover;
use crate::{OsText, SessionId};

/// A problem that could not be resolved and that every later recovery tries again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What it is about.
    pub kind: ProblemKind,
    /// The session that it is about, if known.
    pub session: Option<SessionId>,
    /// The file or directory that it is about.
    pub path: Option<OsText>,
    /// What failed, on what and why.
    pub error: String,
    /// The worktree root that is swept again because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<OsText>,
    /// Whether no earlier recovery met it in this form.
    #[serde(default)]
    pub new: bool,
}

/// What a problem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// A session that could not be cleaned up.
    Session,
    /// A worktree without a record, or session files without one.
    Stray,
    /// A removed worktree whose files could not be deleted.
    Trash,
    /// An exit file that cannot be read.
    ExitFile,
    /// The files of a deleted record.
    SessionFiles,
    /// An expired rescue that could not be deleted.
    Rescue,
    /// A worktree root that could not be swept.
    WorktreeRoot,
    /// The file in which these problems are remembered.
    Memory,
}

impl Problem {
    /// Creates a problem that no earlier recovery is known to have met.
    pub fn new(kind: ProblemKind, error: impl Into<String>) -> Problem {
        Problem { kind, session: None, path: None, error: error.into(), root: None, new: true }
    }

    /// Sets the session that it is about.
    #[must_use]
    pub fn of_session(mut self, session: &SessionId) -> Problem {
        self.session = Some(session.clone());
        self
    }

    /// Sets the file or directory that it is about.
    #[must_use]
    pub fn at(mut self, path: impl Into<OsText>) -> Problem {
        self.path = Some(path.into());
        self
    }

    /// Creates the problem of a removed worktree whose files could not be deleted.
    pub(super) fn of_leftover(leftover: &Leftover, root: &std::path::Path) -> Problem {
        Problem {
            session: leftover.session.clone(),
            root: Some(root.into()),
            ..Problem::new(ProblemKind::Trash, leftover.why.clone()).at(leftover.path.as_path())
        }
    }

    /// Returns whether both are the same problem, whenever they were met.
    pub fn is_same(&self, other: &Problem) -> bool {
        Problem { new: self.new, ..other.clone() } == *self
    }

    /// Returns the problem in the form in which it is remembered.
    #[must_use]
    pub fn remembered(&self) -> Problem {
        Problem { new: false, ..self.clone() }
    }
}

/// Marks which problems of `met` are new, that is, not in `known`, and sorts them. Returns whether the two sets
/// differ.
pub(super) fn compare(met: &mut Vec<Problem>, known: &[Problem]) -> bool {
    for problem in met.iter_mut() {
        problem.new = !known.iter().any(|known| known.is_same(problem));
    }
    met.sort();
    met.dedup_by(|one, other| one.is_same(other));
    met.len() != known.len() || met.iter().any(|problem| problem.new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i7_problem_is_new_once_and_forgotten_when_resolved() {
        let stuck = Problem::new(ProblemKind::Trash, "cannot delete /w/.trash/a/f").at("/w/.trash/a");
        let mut met = vec![stuck.clone(), stuck.clone()];
        assert!(compare(&mut met, &[]));
        assert_eq!((met.len(), met[0].new), (1, true));
        let known: Vec<_> = met.iter().map(Problem::remembered).collect();
        assert!(!compare(&mut met, &known), "unchanged");
        assert!(!met[0].new);
        let mut other = vec![Problem { error: "another reason".to_owned(), ..stuck }];
        assert!(compare(&mut other, &known));
        assert!(other[0].new);
        assert!(compare(&mut Vec::new(), &known), "a resolved problem is forgotten");
    }
}
