//! Deliberate defects, so that the fault campaign can show that it would notice them.
//!
//! A place in the program asks [`is`] whether it should fail in a certain way. Without the cargo feature
//! `mutants` the answer is `false` when the program is compiled, and nothing of the question is left; with
//! it, the environment variable `SEXTON_MUTANT` names the one defect that this process has.

#[cfg(all(feature = "mutants", not(debug_assertions)))]
compile_error!("the feature `mutants` is for the fault campaign, and never for a release build");

/// Whether this program has the defect called `name`.
#[cfg(feature = "mutants")]
pub fn is(name: &str) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("SEXTON_MUTANT").ok()).as_deref() == Some(name)
}

/// Whether this program has the defect called `name`. It has none.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub fn is(_name: &str) -> bool {
    false
}
