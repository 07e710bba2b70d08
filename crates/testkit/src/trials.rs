//! Cases as tests: each gets a name that `cargo test` and nextest can list, filter and run alone.
//!
//! A case may need what not every subject has. Where the subject lacks it, the case is not left out: in its
//! place, under its name, the subject must show that it refuses clearly.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// The cases of one theme: what the file is called, and what each function in it proves.
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
    /// Panics where the subject does not keep the promise.
    pub(crate) check: fn(&S),
    /// What a subject must have for the case to make sense.
    pub(crate) needs: &'static [Need<S>],
}

/// Something that a subject may lack.
pub(crate) struct Need<S: 'static> {
    /// What it is.
    pub(crate) what: &'static str,
    /// Whether the subject has it.
    pub(crate) is_met: fn(&S, &'static str) -> bool,
    /// Panics unless a subject without it says so clearly when it is asked for it.
    pub(crate) require_refusal: fn(&S, &'static str),
}

/// Makes a [`Theme`] of functions, each named by itself, some with what they need: `case: [NEED]`.
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

/// Runs every case of every theme on `subject`. Without a single case it fails: a suite that ran nothing
/// must not look like one that found nothing.
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
    fn a_suite_without_a_case_fails() {
        run_themes("empty", &(), &[Theme { name: "nothing", cases: &[] }]);
    }
}
