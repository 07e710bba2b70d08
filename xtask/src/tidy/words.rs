//! The rule for words: the project's earlier private vocabulary is not used any more.

use super::SourceFile;

/// Words that are not used, and what to write instead.
const RETIRED: [(&str, &str); 17] = [
    ("yard", "worktree root, or test environment"),
    ("yards", "worktree roots"),
    ("premises", "state files"),
    ("testimony", "foreign identity"),
    ("vantage", "identity scope"),
    ("demolish", "remove"),
    ("uproot", "undo"),
    ("blueprint", "plan"),
    ("herald", "notice"),
    ("house", "service, or project"),
    ("plot", "worktree location"),
    ("cure", "fix, or hint"),
    ("nobody", "no process, or no user"),
    ("somebody", "a process, or a user"),
    ("anybody", "any process, or any user"),
    ("whoever", "the process that"),
    ("whom", "a sentence without it"),
];

/// Places where a word stays: a beginning of a path, the word, and the reason.
const EXCEPTIONS: [(&str, &str, &str); 9] = [
    ("docs/decisions/", "", "decisions keep the words of their time"),
    ("CHANGELOG.md", "", "so does the history"),
    ("xtask/src/tidy/words.rs", "", "this list"),
    ("crates/cli/src/commands/doctor.rs", "cure", "a field of `doctor --json`"),
    ("crates/cli/tests/containment.rs", "cure", "the same field"),
    ("crates/test-harness/src/user.rs", "nobody", "the name of a user"),
    ("crates/cli/tests/trust.rs", "nobody", "that user"),
    ("crates/faults/src/scenarios/crowd.rs", "nobody", "that user"),
    ("xtask/src/unprivileged.rs", "nobody", "that user"),
];

/// Returns a finding for each retired word in prose, names of files, and identifiers.
pub(super) fn find_retired(file: &SourceFile) -> Vec<String> {
    let is_excepted = |word: &str| {
        let mut places = EXCEPTIONS.iter();
        places.any(|(path, only, _)| file.path.starts_with(path) && (only.is_empty() || *only == word))
    };
    // The target of a link is the name of a file, which is checked by itself.
    let prose = |line: &str| -> String { line.split("](").map(without_target).collect() };
    let lines = file.text.lines().map(prose).enumerate().map(|(index, line)| (index + 1, line));
    let named = std::iter::once((0, file.path.clone())).chain(lines);
    let mut findings = Vec::new();
    for (number, line) in named {
        let words = line.split(|character: char| !character.is_alphabetic());
        for found in words.filter(|word| !word.chars().all(char::is_uppercase)).map(str::to_lowercase) {
            if let Some((word, instead)) = RETIRED.iter().find(|(word, _)| *word == found)
                && !is_excepted(word)
            {
                findings.push(format!("{}:{number}: `{word}` is not used; write: {instead}", file.path));
            }
        }
    }
    findings
}

/// Returns the part behind the target of a link, or all of a part without one.
fn without_target(part: &str) -> &str {
    part.split_once(".md)").map_or(part, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<String> {
        find_retired(&SourceFile { path: path.into(), text: text.into() })
    }

    #[test]
    fn retired_words_are_found_in_prose_identifiers_and_paths() {
        assert_eq!(check("a.md", "one\nA Yard of old\n").len(), 1);
        assert!(check("a.md", "one\nA Yard of old\n")[0].starts_with("a.md:2: `yard`"));
        assert_eq!(check("a.rs", "fn find_yard() {}").len(), 1);
        assert_eq!(check("src/yard.rs", "").len(), 1);
        assert_eq!(check("a.md", "whoever and somebody").len(), 2);
    }

    #[test]
    fn other_words_constants_links_and_exceptions_are_allowed() {
        for text in ["a farmyard", "NOBODY", "[why](decisions/0011-testimony-is-not-evidence.md).", "secure"]
        {
            assert_eq!(check("a.md", text), [""; 0], "{text}");
        }
        assert_eq!(check("docs/decisions/0001.md", "the yard"), [""; 0]);
        assert_eq!(check("crates/cli/src/commands/doctor.rs", "\"cure\""), [""; 0]);
        assert_eq!(check("crates/cli/src/commands/doctor.rs", "a yard").len(), 1);
    }
}
