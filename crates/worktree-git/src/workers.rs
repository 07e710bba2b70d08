//! How many threads share one piece of work. Several worktrees are usually processed at the same time, each
//! on its own thread; more threads than processors would not make that faster.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// More threads than this only wait for each other.
const MAX_THREADS: usize = 8;

/// The number of threads of this program that are in use.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// The threads reserved for one piece of work, counted until this value is dropped.
pub(crate) struct Workers<'a> {
    size: usize,
    busy: &'a AtomicUsize,
}

impl Workers<'static> {
    /// Reserves as many threads as are useful now, including the caller, and at most `most`.
    pub(crate) fn reserve(most: usize) -> Workers<'static> {
        Workers::reserve_from(&BUSY, std::thread::available_parallelism().map_or(1, usize::from), most)
    }
}

impl<'a> Workers<'a> {
    fn reserve_from(busy: &'a AtomicUsize, processors: usize, most: usize) -> Workers<'a> {
        let size = |busy: usize| processors.saturating_sub(busy).min(MAX_THREADS).min(most).max(1);
        let reserve = |busy: usize| Some(busy + size(busy));
        let before = busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve);
        Workers { size: size(before.unwrap_or_else(|busy| busy)), busy }
    }

    /// Starts the threads other than the caller. If the system cannot start one, the work is done with fewer
    /// threads.
    pub(crate) fn spawn<'scope, T: Send + 'scope>(
        &self,
        work: impl Fn() -> T + Copy + Send + 'scope,
        scope: &'scope Scope<'scope, '_>,
    ) -> Vec<ScopedJoinHandle<'scope, T>> {
        (0..self.helpers()).filter_map(|_| Builder::new().spawn_scoped(scope, work).ok()).collect()
    }

    /// The number of threads other than the caller.
    fn helpers(&self) -> usize {
        self.size - 1
    }
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(self.size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_callers_get_the_processors_and_every_caller_gets_one_thread() {
        let busy = AtomicUsize::new(0);
        let reserve = |most| Workers::reserve_from(&busy, 4, most);
        let (first, second, third) = (reserve(3), reserve(100), reserve(100));
        assert_eq!([first.helpers(), second.helpers(), third.helpers()], [2, 0, 0]);
        drop((first, third));
        let again = reserve(100);
        assert_eq!(again.helpers(), 2, "one of four is still in use");
        drop((second, again));
        assert_eq!(busy.into_inner(), 0);
    }

    #[test]
    fn thread_count_is_bounded_by_the_work_and_the_limit() {
        let busy = AtomicUsize::new(0);
        assert_eq!(Workers::reserve_from(&busy, 64, 100).helpers(), MAX_THREADS - 1);
        assert_eq!(Workers::reserve_from(&busy, 64, 2).helpers(), 1);
        assert_eq!(Workers::reserve_from(&busy, 64, 0).helpers(), 0);
    }
}
