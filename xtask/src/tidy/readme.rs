//! The rules for README.md: CI runs the commands that a new user types first, and the quoted figures are
//! those that were measured.

use sexton_workspace::quotation::{MARKS, find_quotation};

use super::SourceFile;

/// The script that CI runs.
pub(super) const CI: &str = ".ci/run";

const README: &str = "README.md";

const BENCHMARKS: &str = "docs/benchmarks.md";

/// The two commands that introduce the project.
const COMMANDS: [&str; 2] = ["cargo run --release -- demo", "cargo xtask test"];

/// Returns a finding for each command that one of the two files lacks, or that README.md has beyond the two.
pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for path in [README, CI] {
        let Some(file) = files.iter().find(|file| file.path == path) else {
            findings.push(format!("{path}: missing"));
            continue;
        };
        let found: Vec<&str> = cargo_lines(&file.text).collect();
        let missing = COMMANDS.iter().filter(|command| !found.contains(command));
        findings.extend(missing.map(|command| format!("{path}: the line `{command}` is missing")));
        let further = found.iter().filter(|line| path == README && !COMMANDS.contains(line));
        findings.extend(further.map(|line| format!("{path}: CI does not run `{line}`")));
    }
    findings
}

/// Returns a finding if README.md quotes figures that docs/benchmarks.md does not have.
pub(super) fn check_figures(files: &[SourceFile]) -> Option<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| &file.text);
    let missing = |file: &str| Some(format!("{file}: `{}` is missing", MARKS.0));
    match (find_quotation(text(README)), find_quotation(text(BENCHMARKS))) {
        (None, _) => missing(README),
        (_, None) => missing(BENCHMARKS),
        (Some(quoted), Some(measured)) if quoted == measured => None,
        _ => {
            Some(format!("{README}: the quoted figures are not those of {BENCHMARKS}: copy them from there"))
        }
    }
}

/// Returns the lines that run cargo, without a prompt and without a comment at the end.
fn cargo_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let line = line.split_once(" #").map_or(line, |(command, _)| command.trim_end());
        line.starts_with("cargo ").then_some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "text\n```\n$ cargo run --release -- demo   # the story\ncargo xtask test\n```\n";

    fn findings(readme: &str, ci: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        check(&[file(README, readme), file(CI, ci)])
    }

    #[test]
    fn the_two_commands_in_both_files_are_enough() {
        assert_eq!(findings(BOTH, &format!("cargo --version\n{BOTH}")), Vec::<String>::new());
    }

    #[test]
    fn a_missing_command_is_found() {
        assert_eq!(
            findings("cargo xtask test", BOTH),
            ["README.md: the line `cargo run --release -- demo` is missing"]
        );
        let without_test = "echo cargo xtask test\ncargo run --release -- demo";
        assert_eq!(findings(BOTH, without_test), [".ci/run: the line `cargo xtask test` is missing"]);
    }

    #[test]
    fn a_command_that_ci_does_not_run_is_found() {
        let readme = format!("{BOTH}cargo install sexton\n");
        assert_eq!(findings(&readme, BOTH), ["README.md: CI does not run `cargo install sexton`"]);
    }

    #[test]
    fn quoted_figures_without_a_measurement_are_found() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let quoted = "<!-- quoted figures -->\n5 ms\n<!-- end of quoted figures -->";
        let page = |text: &str| file(BENCHMARKS, text);
        assert_eq!(check_figures(&[file(README, quoted), page(quoted)]), None);
        let stale = check_figures(&[file(README, quoted), page(&quoted.replace('5', "6"))]);
        assert!(stale.is_some_and(|finding| finding.contains("not those of docs/benchmarks.md")));
        let without = |files: &[SourceFile]| check_figures(files).unwrap();
        assert!(without(&[file(README, ""), page(quoted)]).starts_with("README.md: `<!-- quoted"));
        assert!(without(&[file(README, quoted)]).starts_with("docs/benchmarks.md: `<!-- quoted"));
    }

    #[test]
    fn a_missing_file_is_found() {
        assert_eq!(check(&[]), ["README.md: missing", ".ci/run: missing"]);
    }
}
