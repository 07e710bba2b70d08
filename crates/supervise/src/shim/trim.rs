//! Keeps the log below its limit by freeing its oldest part. Offsets do not change, so cursors of readers
//! stay valid.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::platform::free_before;

/// Delay before a growing log is checked.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest polling interval of a log that does not grow, if there is no notification.
const IDLE_PAUSE: Duration = Duration::from_secs(64);

/// Delay before freeing is tried again after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// File systems free whole blocks; a smaller step would free nothing.
const BLOCK: u64 = 4096;

/// Unit of `st_blocks`.
const SECTOR: u64 = 512;

/// The bound of one log.
pub(crate) struct Trim {
    max_bytes: u64,
    /// Its size at the last check.
    seen: u64,
    due: Option<Instant>,
    /// Delay before a growing log is checked.
    pause: Duration,
    /// Current polling interval, if there is no notification.
    unwatched: Duration,
}

impl Trim {
    pub(crate) fn to(max_bytes: u64) -> Trim {
        Trim { max_bytes, seen: 0, due: None, pause: PAUSE, unwatched: PAUSE }
    }

    /// Schedules a check of a log that grew, if none is scheduled.
    pub(crate) fn plan(&mut self, now: Instant) {
        self.due.get_or_insert(now + self.pause);
    }

    /// Schedules a check without a notification. The interval increases while the log does not grow.
    pub(crate) fn plan_unwatched(&mut self, now: Instant) {
        self.due.get_or_insert(now + self.unwatched.max(self.pause));
    }

    /// Returns when the next check is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns whether a check is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Frees the oldest part if the log exceeds its limit.
    pub(crate) fn apply(&mut self, log: &File) -> io::Result<()> {
        self.due = None;
        self.pause = RETRY_PAUSE;
        let metadata = log.metadata()?;
        let grew = metadata.size() != self.seen;
        self.unwatched = if grew { PAUSE } else { (self.unwatched * 2).min(IDLE_PAUSE) };
        self.seen = metadata.size();
        self.free_surplus(log, &metadata)?;
        self.pause = PAUSE;
        Ok(())
    }

    fn free_surplus(&self, log: &File, metadata: &Metadata) -> io::Result<()> {
        if metadata.blocks() * SECTOR <= self.max_bytes {
            return Ok(());
        }
        let surplus = self.seen.saturating_sub(self.max_bytes) / BLOCK * BLOCK;
        if surplus == 0 { Ok(()) } else { free_before(log, surplus) }
    }

    /// Schedules a check if the log has grown since the last one: writes before the watch was set up are not
    /// notified.
    pub(crate) fn catch_up(&mut self, log: &File, now: Instant) -> io::Result<()> {
        if log.metadata()?.size() > self.seen.max(self.max_bytes) {
            self.plan(now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn oldest_part_is_freed_and_the_size_stays() {
        let mut log = tempfile::tempfile().unwrap();
        log.write_all(&vec![b'x'; 100_000]).unwrap();
        Trim::to(20_000).apply(&log).unwrap();
        let metadata = log.metadata().unwrap();
        assert_eq!(metadata.size(), 100_000);
        assert!(metadata.blocks() * SECTOR <= 20_000 + 2 * BLOCK, "{} blocks", metadata.blocks());
    }

    #[test]
    fn writes_before_the_watch_are_checked() {
        let mut log = tempfile::tempfile().unwrap();
        let (mut trim, now) = (Trim::to(20_000), Instant::now());
        log.write_all(&vec![b'x'; 20_000]).unwrap();
        trim.catch_up(&log, now).unwrap();
        assert_eq!(trim.due(), None, "it is within the limit");
        log.write_all(b"x").unwrap();
        trim.catch_up(&log, now).unwrap();
        assert!(trim.is_due(now + PAUSE));
        trim.apply(&log).unwrap();
        trim.catch_up(&log, now).unwrap();
        assert_eq!(trim.due(), None, "the check has seen all of it");
        log.write_all(b"x").unwrap();
        trim.catch_up(&log, now).unwrap();
        assert!(trim.is_due(now + PAUSE));
    }

    #[test]
    fn i9_unwatched_log_is_polled_less_often_while_it_does_not_grow() {
        let mut log = tempfile::tempfile().unwrap();
        let (mut trim, now) = (Trim::to(20_000), Instant::now());
        let mut check = |log: &File| {
            trim.plan_unwatched(now);
            let pause = trim.due().unwrap() - now;
            trim.apply(log).unwrap();
            pause
        };
        assert_eq!(check(&log), PAUSE);
        for doubled in [2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(check(&log), PAUSE * doubled);
        }
        log.write_all(&vec![b'x'; 100_000]).unwrap();
        assert_eq!(check(&log), IDLE_PAUSE, "growth without a notification is found by the next check");
        assert!(log.metadata().unwrap().blocks() * SECTOR <= 20_000 + 2 * BLOCK);
        assert_eq!(check(&log), PAUSE, "it grows");
    }

    #[test]
    fn i9_failed_trim_is_retried_after_a_pause() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
        // A file that is open only for reading cannot be trimmed.
        let (read_only, now) = (File::open(&path).unwrap(), Instant::now());
        let mut trim = Trim::to(20_000);
        trim.apply(&read_only).unwrap_err();
        trim.plan(now);
        assert_eq!(trim.due(), Some(now + RETRY_PAUSE));
        trim.apply(&File::options().write(true).open(&path).unwrap()).unwrap();
        trim.plan(now);
        assert_eq!(trim.due(), Some(now + PAUSE));
    }

    #[test]
    fn small_log_is_not_changed() {
        let mut log = tempfile::tempfile().unwrap();
        log.write_all(&vec![b'x'; 10_000]).unwrap();
        let before = log.metadata().unwrap().blocks();
        Trim::to(20_000).apply(&log).unwrap();
        assert_eq!(log.metadata().unwrap().blocks(), before);
    }
}
