//! Whether a checkout would change the bytes of any file. Sooner yes than no: then git itself does it.

use std::path::{Path, PathBuf};

use git2::{Config, Repository};

use super::plan::{Kind, Plan};

/// Where git looks for attributes of the whole machine.
const SYSTEM_ATTRIBUTES: &str = "/etc/gitattributes";

/// Whether the configuration alone is a reason.
pub(super) fn is_configured(repo: &Repository) -> Result<bool, git2::Error> {
    let config = repo.config()?.snapshot()?;
    let is = |name: &str, value: &str| {
        config.get_string(name).is_ok_and(|found| found.eq_ignore_ascii_case(value))
    };
    let converts = config.get_bool("core.autocrlf").unwrap_or(false) || is("core.eol", "crlf");
    let no_symlinks = !config.get_bool("core.symlinks").unwrap_or(true);
    // Objects that are fetched when they are first needed: libgit2 cannot fetch.
    let partial = config.get_string("extensions.partialclone").is_ok();
    Ok(converts || no_symlinks || partial || files(repo, &config).iter().any(|file| asks_in_file(file)))
}

/// Whether an attribute in the tree is a reason.
pub(super) fn is_asked_for(repo: &Repository, plan: &Plan) -> Result<bool, git2::Error> {
    let attributes =
        plan.items.iter().filter(|item| item.name() == b".gitattributes" && item.kind != Kind::Gitlink);
    for item in attributes {
        if asks(repo.find_blob(item.oid)?.content()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The attribute files outside of the tree.
fn files(repo: &Repository, config: &Config) -> Vec<PathBuf> {
    let of_user = config.get_path("core.attributesfile").ok().or_else(|| {
        let xdg = std::env::var_os("XDG_CONFIG_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".config"));
        Some(xdg.or_else(home)?.join("git/attributes"))
    });
    let shared = [repo.commondir().join("info/attributes"), SYSTEM_ATTRIBUTES.into()];
    shared.into_iter().chain(of_user).collect()
}

fn asks_in_file(path: &Path) -> bool {
    match std::fs::read(path) {
        Ok(text) => asks(&text),
        Err(error) => {
            !matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
        }
    }
}

/// Whether attributes ask for bytes other than the stored ones. `text` alone does not: here lines end as
/// they are stored.
fn asks(attributes: &[u8]) -> bool {
    let words = attributes.split(u8::is_ascii_whitespace);
    words.into_iter().any(|word| {
        word == b"ident"
            || word == b"eol=crlf"
            || word.starts_with(b"filter=")
            || word.starts_with(b"working-tree-encoding=")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_bytes_is_a_reason() {
        for text in
            ["*.png filter=lfs diff=lfs", "a\teol=crlf", "*.c ident", "[attr]x working-tree-encoding=UTF-16"]
        {
            assert!(asks(text.as_bytes()), "{text}");
        }
        for text in ["* text=auto", "*.sh eol=lf", "*.bin binary -text", "# nothing", ""] {
            assert!(!asks(text.as_bytes()), "{text}");
        }
    }
}
