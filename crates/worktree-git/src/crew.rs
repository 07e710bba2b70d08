//! How many threads share a piece of work. Several worktrees are mostly looked after at once, each by a thread
//! of its own; more of them than there are processors would only take turns.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// More threads than this only wait for each other.
const MAX_THREADS: usize = 8;

/// How many threads of this program are at work.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// The threads that do one piece of work, counted until this is dropped.
pub(crate) struct Crew<'a> {
    size: usize,
    busy: &'a AtomicUsize,
}

impl Crew<'static> {
    /// As many threads as are worth having now, the caller among them, and no more than `most`.
    pub(crate) fn hire(most: usize) -> Crew<'static> {
        Crew::hire_among(&BUSY, std::thread::available_parallelism().map_or(1, usize::from), most)
    }
}

impl<'a> Crew<'a> {
    fn hire_among(busy: &'a AtomicUsize, processors: usize, most: usize) -> Crew<'a> {
        let size = |busy: usize| processors.saturating_sub(busy).min(MAX_THREADS).min(most).max(1);
        let hire = |busy: usize| Some(busy + size(busy));
        let before = busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, hire);
        Crew { size: size(before.unwrap_or_else(|busy| busy)), busy }
    }

    /// Puts those besides the caller to work. Where the system has no thread to give, there are fewer, and it
    /// only takes longer.
    pub(crate) fn put_to<'scope, T: Send + 'scope>(
        &self,
        work: impl Fn() -> T + Copy + Send + 'scope,
        scope: &'scope Scope<'scope, '_>,
    ) -> Vec<ScopedJoinHandle<'scope, T>> {
        (0..self.helpers()).filter_map(|_| Builder::new().spawn_scoped(scope, work).ok()).collect()
    }

    /// How many there are besides the caller.
    fn helpers(&self) -> usize {
        self.size - 1
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(self.size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_first_has_the_processors_and_everybody_has_one_thread() {
        let busy = AtomicUsize::new(0);
        let hire = |most| Crew::hire_among(&busy, 4, most);
        let (first, second, third) = (hire(3), hire(100), hire(100));
        assert_eq!([first.helpers(), second.helpers(), third.helpers()], [2, 0, 0]);
        drop((first, third));
        let again = hire(100);
        assert_eq!(again.helpers(), 2, "one of four is still at work");
        drop((second, again));
        assert_eq!(busy.into_inner(), 0);
    }

    #[test]
    fn there_are_never_more_than_the_work_or_the_limit_allows() {
        let busy = AtomicUsize::new(0);
        assert_eq!(Crew::hire_among(&busy, 64, 100).helpers(), MAX_THREADS - 1);
        assert_eq!(Crew::hire_among(&busy, 64, 2).helpers(), 1);
        assert_eq!(Crew::hire_among(&busy, 64, 0).helpers(), 0);
    }
}
