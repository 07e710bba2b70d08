//! Determines whether a checkout would change the bytes of any file. If in doubt, yes: then git itself does
//! the checkout.

use std::path::{Path, PathBuf};

use git2::{Config, Repository};
use sexton_durable::{SMALL_FILE, read_regular};

use super::plan::{Kind, Plan};

/// The attributes file of the whole system.
const SYSTEM_ATTRIBUTES: &str = "/etc/gitattributes";

/// Returns whether the configuration alone requires a conversion.
pub(super) fn is_configured(repo: &Repository) -> Result<bool, git2::Error> {
    let config = repo.config()?.snapshot()?;
    let is = |name: &str, value: &str| {
        config.get_string(name).is_ok_and(|found| found.eq_ignore_ascii_case(value))
    };
    let changes_line_ends = config.get_bool("core.autocrlf").unwrap_or(false) || is("core.eol", "crlf");
    let no_symlinks = !config.get_bool("core.symlinks").unwrap_or(true);
    // In a partial clone, objects are fetched when they are first needed, and libgit2 cannot fetch.
    let partial = config.get_string("extensions.partialclone").is_ok();
    Ok(changes_line_ends
        || no_symlinks
        || partial
        || files(repo, &config).iter().any(|file| file_converts(file)))
}

/// Returns whether an attribute in the tree requires a conversion.
pub(super) fn is_required_by_tree(repo: &Repository, plan: &Plan) -> Result<bool, git2::Error> {
    let attributes =
        plan.items.iter().filter(|item| item.name() == b".gitattributes" && item.kind != Kind::Gitlink);
    for item in attributes {
        if converts(repo.find_blob(item.oid)?.content()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the attribute files outside of the tree.
fn files(repo: &Repository, config: &Config) -> Vec<PathBuf> {
    let of_user = config.get_path("core.attributesfile").ok().or_else(|| {
        let xdg = std::env::var_os("XDG_CONFIG_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".config"));
        Some(xdg.or_else(home)?.join("git/attributes"))
    });
    let shared = [repo.commondir().join("info/attributes"), SYSTEM_ATTRIBUTES.into()];
    shared.into_iter().chain(of_user).collect()
}

fn file_converts(path: &Path) -> bool {
    match read_regular(path, SMALL_FILE) {
        Ok(text) => converts(&text),
        Err(error) => {
            !matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
        }
    }
}

/// Returns whether attributes require bytes other than the stored ones. `text` alone does not: on this system
/// lines end as they are stored.
fn converts(attributes: &[u8]) -> bool {
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
    fn only_attributes_that_change_bytes_require_a_conversion() {
        for text in
            ["*.png filter=lfs diff=lfs", "a\teol=crlf", "*.c ident", "[attr]x working-tree-encoding=UTF-16"]
        {
            assert!(converts(text.as_bytes()), "{text}");
        }
        for text in ["* text=auto", "*.sh eol=lf", "*.bin binary -text", "# nothing", ""] {
            assert!(!converts(text.as_bytes()), "{text}");
        }
    }
}
