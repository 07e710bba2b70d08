//! The effort of tests that could take an hour. Each test has its own default for daily runs; these variables override
//! it.

/// Returns the stride between tested kill points: SEXTON_CRASH_STRIDE, or `usual`. With 1 all are tested.
pub fn crash_stride(usual: usize) -> usize {
    number("SEXTON_CRASH_STRIDE").unwrap_or(usual)
}

/// Returns the number of repetitions of an open-ended test: SEXTON_TRIALS, or `usual`.
pub fn trials(usual: usize) -> usize {
    number("SEXTON_TRIALS").unwrap_or(usual)
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}
