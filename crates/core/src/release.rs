//! Versions of this program: during an upgrade, two releases work on one store.

use semver::Version;

/// Returns the version of this program, as it is written in records.
pub fn current() -> &'static str {
    if sexton_mutant::has_trial_format() { sexton_mutant::TRIAL_RELEASE } else { env!("CARGO_PKG_VERSION") }
}

/// Returns whether the version `release` is `since` or later. A version that is unknown, as in records of the
/// first release, or malformed is not.
pub fn is_at_least(release: Option<&str>, since: &str) -> bool {
    let version = |text: &str| Version::parse(text).ok();
    release.and_then(version).zip(version(since)).is_some_and(|(release, since)| release >= since)
}

/// Returns the newest of these versions.
pub fn newest<'a>(releases: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known = releases.into_iter().filter_map(|text| Some((Version::parse(text).ok()?, text)));
    known.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_release_counts_as_older() {
        for unknown in [None, Some(""), Some("latest"), Some("0.2"), Some("0.1.0")] {
            assert!(!is_at_least(unknown, "0.2.0-dev"), "{unknown:?}");
        }
    }

    #[test]
    fn versions_compare_numerically_and_prereleases_come_first() {
        assert!(is_at_least(Some("0.10.0"), "0.9.9"));
        assert!(is_at_least(Some("0.2.0"), "0.2.0-dev"));
        assert!(!is_at_least(Some("0.2.0-dev"), "0.2.0"));
        assert_eq!(newest(["0.9.1", "nonsense", "0.10.0", "0.10.0-dev"]), Some("0.10.0"));
        assert_eq!(newest([]), None);
    }

    #[test]
    fn current_version_is_valid() {
        assert!(is_at_least(Some(current()), "0.2.0-dev"), "{}", current());
    }
}
