//! Deliberate defects, which show that the fault campaign detects them, and a trial store format, which lets
//! upgrade tests run before a newer format exists.
//!
//! Code calls [`is`] to check whether it must fail in a certain way. Without the cargo feature `mutants` the
//! result is the constant `false` and the check is compiled out. With it, the environment variable
//! `SEXTON_MUTANT` names the one defect that this process has.

#[cfg(all(feature = "mutants", not(debug_assertions)))]
compile_error!("the feature `mutants` is for the fault campaign and must not be used in a release build");

/// Returns whether this program has the defect called `name`.
#[cfg(feature = "mutants")]
pub fn is(name: &str) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("SEXTON_MUTANT").ok()).as_deref() == Some(name)
}

/// Returns whether this program has the defect called `name`: without the feature, always `false`.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub fn is(_name: &str) -> bool {
    false
}

/// Version that a program with the trial format reports: later than any release.
pub const TRIAL_RELEASE: &str = "999.0.0";

/// Returns whether this program has one store format more than its release, so that raising the format can be
/// tested before the next format exists. `SEXTON_TRIAL=format` enables it; release builds do not support it.
#[cfg(debug_assertions)]
pub fn has_trial_format() -> bool {
    use std::sync::OnceLock;
    static REQUESTED: OnceLock<bool> = OnceLock::new();
    *REQUESTED.get_or_init(|| std::env::var_os("SEXTON_TRIAL").is_some_and(|value| value == "format"))
}

/// Returns whether this program has one store format more than its release: in a release build, always
/// `false`.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn has_trial_format() -> bool {
    false
}
