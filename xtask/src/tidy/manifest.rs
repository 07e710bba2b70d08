//! The rule for manifests: every crate uses the workspace's lints.

use super::SourceFile;

/// Returns a finding if the manifest does not use the workspace's lints.
pub(super) fn require_workspace_lints(file: &SourceFile) -> Vec<String> {
    let lines = || file.text.lines().map(str::trim);
    let in_section = lines().skip_while(|line| *line != "[lints]").skip(1);
    let mut in_section = in_section.take_while(|line| !line.starts_with('['));
    // The short form is a root key: inside a section it would mean something else.
    let mut at_root = lines().take_while(|line| !line.starts_with('['));
    if in_section.any(|line| line == "workspace = true")
        || at_root.any(|line| line == "lints.workspace = true")
    {
        Vec::new()
    } else {
        vec![format!("{}: `lints.workspace = true` is missing", file.path)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_without_the_workspaces_lints_is_found() {
        let findings = |text: &str| {
            require_workspace_lints(&SourceFile { path: "crates/a/Cargo.toml".into(), text: text.into() })
                .len()
        };
        assert_eq!(findings("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"), 0);
        assert_eq!(findings("lints.workspace = true\n[package]\nname = \"a\"\n"), 0);
        assert_eq!(findings("[package]\nname = \"a\"\n"), 1);
        assert_eq!(findings("[lints]\n[dependencies]\nworkspace = true\n"), 1);
        assert_eq!(findings("[package]\nlints.workspace = true\n"), 1);
        assert_eq!(findings("[lints]\n# workspace = true\n"), 1);
    }
}
