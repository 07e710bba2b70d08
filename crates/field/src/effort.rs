//! How much of a test that could take an hour is done. Each has a number of its own that is enough for every day;
//! these variables ask for all of it.

/// Every how many-th kill point is tried: `usual`, or what SEXTON_CRASH_STRIDE says. All are tried with 1.
pub fn crash_stride(usual: usize) -> usize {
    number("SEXTON_CRASH_STRIDE").unwrap_or(usual)
}

/// How often something is tried that has no end of its own: `usual`, or what SEXTON_TRIALS says.
pub fn trials(usual: usize) -> usize {
    number("SEXTON_TRIALS").unwrap_or(usual)
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}
