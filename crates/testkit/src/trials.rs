//! Runs cases as tests: `cargo test` and nextest can list, filter and run each by its name.
//!
//! A case may need something that a subject lacks. Then the case is not skipped: a test with its name checks that the
//! subject clearly refuses instead.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// The cases of one theme, from one file.
pub(crate) struct Theme<S: 'static> {
    /// The theme's name.
    pub(crate) name: &'static str,
    /// Its cases.
    pub(crate) cases: &'static [Case<S>],
}

/// A case.
pub(crate) struct Case<S: 'static> {
    /// Its name.
    pub(crate) name: &'static str,
    /// Panics if the subject violates the contract.
    pub(crate) check: fn(&S),
    /// What a subject must support for the case.
    pub(crate) needs: &'static [Need<S>],
}

/// Something that a subject may not support.
pub(crate) struct Need<S: 'static> {
    /// Its name.
    pub(crate) what: &'static str,
    /// Returns whether the subject supports it.
    pub(crate) is_met: fn(&S, &'static str) -> bool,
    /// Panics unless the subject clearly refuses a request for it.
    pub(crate) require_refusal: fn(&S, &'static str),
}

/// Creates a [`Theme`] from functions, optionally with their needs: `case: [NEED]`.
macro_rules! theme {
    ($name:literal: $($case:ident $(: [$($need:expr),+])?),+ $(,)?) => {
        $crate::trials::Theme {
            name: $name,
            cases: &[$($crate::trials::Case {
                name: stringify!($case),
                check: $case,
                needs: &[$($($need),+)?],
            }),+],
        }
    };
}
pub(crate) use theme;

/// Runs every case of every theme on `subject`. Fails without any case, because a suite that ran nothing must not look
/// like one that passed.
pub(crate) fn run_themes<S: Copy + Send + 'static>(name: &str, subject: &S, themes: &[Theme<S>]) -> ExitCode {
    let trials: Vec<Trial> = themes.iter().flat_map(|theme| trials_of(name, subject, theme)).collect();
    assert!(!trials.is_empty(), "the suite for `{name}` has no case");
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trials_of<S: Copy + Send + 'static>(name: &str, subject: &S, theme: &Theme<S>) -> Vec<Trial> {
    let trial = |case: &'static Case<S>| {
        let subject = *subject;
        let full_name = format!("{name}::{}::{}", theme.name, case.name);
        let Some(need) = case.needs.iter().find(|need| !(need.is_met)(&subject, need.what)) else {
            return Trial::test(full_name, move || {
                (case.check)(&subject);
                Ok(())
            });
        };
        Trial::test(format!("{full_name}::without_{}", need.what.replace('.', "_")), move || {
            (need.require_refusal)(&subject, need.what);
            Ok(())
        })
    };
    theme.cases.iter().map(trial).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "has no case")]
    fn suite_without_cases_fails() {
        run_themes("empty", &(), &[Theme { name: "nothing", cases: &[] }]);
    }
}
