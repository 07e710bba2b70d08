//! Problems that recovery could not resolve, and how a user can resolve them.

use sexton_core::recover::{Problem, ProblemKind};

use crate::findings::{Finding, Severity};

/// Returns how to delete the remaining files of a removed worktree manually.
pub fn how_to_delete(problem: &Problem) -> String {
    let Some(path) = &problem.path else { return "`sexton recover` retries".to_owned() };
    let path = quote(&path.display().to_string());
    if problem.error.contains("(os error 1)") {
        // Immutable or append-only files, or files of another user in a directory with the sticky bit.
        return format!("`sudo chattr -R -i -a {path}; sudo rm -rf {path}` deletes it");
    }
    if problem.error.contains("(os error 13)") {
        return format!("`sudo rm -rf {path}` deletes it");
    }
    "fix the cause, then run `sexton recover` again".to_owned()
}

/// Converts a problem that a recovery recorded into a finding of `doctor`.
pub fn find_problem(problem: &Problem) -> Option<Finding> {
    let (subject, fix) = match problem.kind {
        // The session's record contains the same error, and the exit files have a check of their own.
        ProblemKind::Session | ProblemKind::ExitFile => return None,
        ProblemKind::Trash => ("worktrees", how_to_delete(problem)),
        ProblemKind::Stray => ("worktrees", "fix the cause, then run `sexton recover` again".to_owned()),
        ProblemKind::WorktreeRoot => {
            ("worktrees", "make the worktree root readable, then run `sexton recover` again".to_owned())
        }
        ProblemKind::SessionFiles => {
            ("logs", "delete the directory, or fix the cause and run `sexton recover` again".to_owned())
        }
        ProblemKind::Rescue => ("rescues", "fix the cause, then run `sexton recover` again".to_owned()),
        ProblemKind::Memory => ("problems", "fix the cause, then run `sexton recover` again".to_owned()),
    };
    let prefix = problem.session.as_ref().map(|id| format!("session {id}: ")).unwrap_or_default();
    Some(Finding::new(Severity::Problem, subject, format!("{prefix}{}", problem.error)).fix(fix))
}

/// Quotes a path for a shell.
fn quote(path: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+:@,".contains(character);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_a_shell() {
        assert_eq!(quote("/w/.trash/a.b"), "/w/.trash/a.b");
        assert_eq!(quote("/w/it's mine"), r"'/w/it'\''s mine'");
    }
}
