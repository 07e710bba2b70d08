//! The rule for Markdown: a link to a file of the project has an existing target.

use super::SourceFile;

/// Returns a finding for each link to a path that does not exist. `exists` is called with paths from the
/// root.
pub(super) fn find_dead_links(file: &SourceFile, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in targets(line) {
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
            if !elsewhere && !resolve(folder, path).is_some_and(|path| exists(&path)) {
                findings.push(format!("{}:{}: `{target}` does not exist", file.path, index + 1));
            }
        }
    }
    findings
}

/// Returns the targets of the links in one line: `[text](target)`, or a line `[label]: target`.
fn targets(line: &str) -> Vec<&str> {
    let prose: Vec<&str> = line.split('`').step_by(2).collect();
    let mut targets = Vec::new();
    for part in prose {
        for (at, _) in part.match_indices("](") {
            let inside = &part[at + 2..];
            targets.extend(inside.split([')', ' ']).next().filter(|target| inside.len() > target.len()));
        }
    }
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        targets.extend(target.split_whitespace().next());
    }
    targets
}

/// Returns the path from the root that `path` means in `folder`; `None` if it leaves the root.
fn resolve(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(text: &str) -> Vec<String> {
        let file = SourceFile { path: "docs/decisions/1.md".into(), text: text.into() };
        let there = ["docs/schema.md", "README.md", "docs/decisions/2.md", "docs/decisions"];
        find_dead_links(&file, |path| there.contains(&path))
    }

    #[test]
    fn a_dead_link_is_found() {
        for text in [
            "[a](gone.md)",
            "see [a](../schema.md) and [b](schema.md)",
            "[a]: ../gone.md",
            "[a](../../../README.md)",
        ] {
            assert_eq!(dead(text).len(), 1, "{text}");
        }
        assert_eq!(dead("a\n[b](c.md#d)"), ["docs/decisions/1.md:2: `c.md#d` does not exist"]);
    }

    #[test]
    fn a_valid_link_is_not_found() {
        for text in [
            "[a](2.md) [b](../schema.md#part) [c](../../README.md) [d](./)",
            "[a](https://example.com/x) [b](#here) [c](mailto:a@b)",
            "`[a](gone.md)`",
            "```\n[a](gone.md)\n```",
            "[a]: ../schema.md",
        ] {
            assert_eq!(dead(text), Vec::<String>::new(), "{text}");
        }
    }
}
