//! The rule for commands in documents: one that runs cargo names an existing task. crates/cli/tests/docs.rs
//! runs the commands of the program itself.

use super::SourceFile;

/// Returns a finding for each line of a shell block that runs a task which does not exist, or cargo in a way
/// that nothing checks. `has_task` is called with the words after `cargo xtask`.
pub(super) fn find_unknown(file: &SourceFile, has_task: impl Fn(&[&str]) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    let mut in_shell = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with("```") {
            in_shell = line.trim_end() == "```sh";
            continue;
        }
        let Some(arguments) = line.strip_prefix("cargo ").filter(|_| in_shell) else { continue };
        let command = arguments.split('#').next().unwrap_or_default();
        let words: Vec<&str> = command.split_whitespace().take_while(|word| !word.starts_with('-')).collect();
        let is_known = match words.as_slice() {
            ["xtask", task @ ..] => !task.is_empty() && has_task(task),
            // README's first command; .ci/run runs it.
            ["run"] => command.trim() == "run --release -- demo",
            _ => false,
        };
        if !is_known {
            findings.push(format!("{}:{}: nothing checks `cargo {}`", file.path, index + 1, command.trim()));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(text: &str) -> Vec<String> {
        let file = SourceFile { path: "a.md".into(), text: text.into() };
        find_unknown(&file, |words| words == ["test"] || words == ["bench", "run"])
    }

    #[test]
    fn an_unknown_task_is_found() {
        let page = "```sh\ncargo xtask tset\ncargo install sexton\ncargo xtask --help\n```\n";
        let findings = unknown(page);
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert_eq!(findings[0], "a.md:2: nothing checks `cargo xtask tset`");
    }

    #[test]
    fn known_tasks_and_text_are_not_found() {
        let page = "```sh\ncargo xtask test   # all\ncargo xtask bench run --quick\ncargo run --release -- demo\n```\n\
                    cargo nonsense\n```text\ncargo nonsense\n```\n";
        assert_eq!(unknown(page), Vec::<String>::new());
    }
}
