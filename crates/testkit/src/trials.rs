//! Cases as tests: each gets a name that `cargo test` and nextest can list, filter and run alone.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// The cases of one theme: what the file is called, and what each function in it proves.
pub(crate) struct Theme<S: 'static> {
    /// The theme's name.
    pub(crate) name: &'static str,
    /// Its cases.
    pub(crate) cases: &'static [Case<S>],
}

/// A case: its name, and the function that panics where the subject does not keep the promise.
pub(crate) type Case<S> = (&'static str, fn(&S));

/// Makes a [`Theme`] of functions, each named by itself.
macro_rules! theme {
    ($name:literal: $($case:ident),+ $(,)?) => {
        $crate::trials::Theme { name: $name, cases: &[$((stringify!($case), $case)),+] }
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
    let trial = |(case, check): &Case<S>| {
        let (subject, check) = (*subject, *check);
        Trial::test(format!("{name}::{}::{case}", theme.name), move || {
            check(&subject);
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
