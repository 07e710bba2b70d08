//! `cargo xtask tidy`: the project rules that the compiler does not check.
//!
//! A rule is a small function over texts, so that its tests can show it failing. Only this file reads files.

mod code;
mod commands;
mod manifest;
mod markdown;
mod readme;
mod rust;
mod words;

use std::fs;
use std::path::Path;

use sexton_workspace::root;

use crate::{Result, docs};

/// A file of the project.
struct SourceFile {
    /// Its path from the root, with `/` between the parts.
    path: String,
    /// Its content.
    text: String,
}

/// Folders that are not part of the project.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// Checks every rule, and prints all findings, not only the first.
pub(crate) fn run() -> Result {
    let mut findings = check_texts(&load_files(root())?, |path| root().join(path).exists());
    match docs::find_stale() {
        Ok(stale) => findings.extend(stale),
        // A program that does not compile must not hide the other findings.
        Err(error) => findings.push(error.to_string()),
    }
    if findings.is_empty() {
        return Ok(());
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    Err(format!("{} findings", findings.len()).into())
}

/// Returns the findings of every rule that needs only the texts and whether a path exists.
fn check_texts(files: &[SourceFile], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(words::find_retired(file));
        if file.path.ends_with(".rs") {
            findings.extend(rust::check(file));
        } else if file.path.ends_with(".md") {
            findings.extend(markdown::find_dead_links(file, &exists));
            findings.extend(commands::find_unknown(file, crate::has_task));
        } else if file.path.ends_with("/Cargo.toml") {
            findings.extend(manifest::require_workspace_lints(file));
        }
    }
    findings.extend(readme::check(files));
    findings.extend(readme::check_figures(files));
    findings
}

/// Returns every file that a rule reads, sorted by path.
fn load_files(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                    folders.push(path);
                }
                continue;
            }
            let path = path.strip_prefix(root)?.to_string_lossy().into_owned();
            if is_checked(&path) {
                let text =
                    fs::read_to_string(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
                files.push(SourceFile { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn is_checked(path: &str) -> bool {
    [".rs", ".md", "Cargo.toml"].iter().any(|end| path.ends_with(end)) || path == readme::CI
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_kinds_and_of_the_target_folder_are_not_read() {
        let root = tempfile::tempdir().unwrap();
        for path in ["crates/a/src/lib.rs", "crates/a/logo.png", "target/x.rs", "README.md", ".ci/run"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, [0xff]).unwrap();
        }
        let read = load_files(root.path());
        assert!(read.is_err(), "a source file that is not text is an error, not a file to skip");
        for path in ["crates/a/src/lib.rs", "README.md", ".ci/run"] {
            fs::write(root.path().join(path), "text").unwrap();
        }
        let paths: Vec<String> = load_files(root.path()).unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(paths, [".ci/run", "README.md", "crates/a/src/lib.rs"]);
    }

    #[test]
    fn each_kind_of_file_is_checked_by_its_rules() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let files = [
            file("crates/a/src/lib.rs", "fn a() {}"),
            file("crates/a/Cargo.toml", "[package]"),
            file("docs/a.md", "[gone](gone.md)"),
        ];
        let findings = check_texts(&files, |_| false).join("\n");
        for part in ["lib.rs:1", "a/Cargo.toml", "docs/a.md:1", "README.md", ".ci/run"] {
            assert!(findings.contains(part), "{part} is missing in\n{findings}");
        }
    }
}
