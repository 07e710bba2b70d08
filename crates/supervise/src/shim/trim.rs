//! Keeps the log below its limit by freeing its oldest part. Offsets stay as they are, so a cursor that
//! somebody keeps stays valid.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::platform::free_before;

/// How long a growing log is left alone before it is looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// File systems free whole blocks; a smaller step would free nothing.
const BLOCK: u64 = 4096;

/// What `st_blocks` counts in.
const SECTOR: u64 = 512;

/// The bound of one log.
pub(crate) struct Trim {
    max_bytes: u64,
    /// How long it was when it was last looked at.
    seen: u64,
    due: Option<Instant>,
}

impl Trim {
    pub(crate) fn to(max_bytes: u64) -> Trim {
        Trim { max_bytes, seen: 0, due: None }
    }

    /// The log grew: look at it in a while, if that is not planned already.
    pub(crate) fn plan(&mut self, now: Instant) {
        self.due.get_or_insert(now + PAUSE);
    }

    /// When to look next.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether it is time to look.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Frees the oldest part where the log holds more than it may.
    pub(crate) fn apply(&mut self, log: &File) -> io::Result<()> {
        self.due = None;
        let metadata = log.metadata()?;
        self.seen = metadata.size();
        if metadata.blocks() * SECTOR <= self.max_bytes {
            return Ok(());
        }
        let surplus = self.seen.saturating_sub(self.max_bytes) / BLOCK * BLOCK;
        if surplus == 0 { Ok(()) } else { free_before(log, surplus) }
    }

    /// Plans a look where the log has grown since the last one: what was written before somebody began to
    /// watch it, nobody tells of.
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
    fn the_oldest_part_is_freed_and_the_size_stays() {
        let mut log = tempfile::tempfile().unwrap();
        log.write_all(&vec![b'x'; 100_000]).unwrap();
        Trim::to(20_000).apply(&log).unwrap();
        let metadata = log.metadata().unwrap();
        assert_eq!(metadata.size(), 100_000);
        assert!(metadata.blocks() * SECTOR <= 20_000 + 2 * BLOCK, "{} blocks", metadata.blocks());
    }

    #[test]
    fn what_was_written_before_anybody_watched_is_looked_at() {
        let mut log = tempfile::tempfile().unwrap();
        let (mut trim, now) = (Trim::to(20_000), Instant::now());
        log.write_all(&vec![b'x'; 20_000]).unwrap();
        trim.catch_up(&log, now).unwrap();
        assert_eq!(trim.due(), None, "it may be that long");
        log.write_all(b"x").unwrap();
        trim.catch_up(&log, now).unwrap();
        assert!(trim.is_due(now + PAUSE));
        trim.apply(&log).unwrap();
        trim.catch_up(&log, now).unwrap();
        assert_eq!(trim.due(), None, "all of it was seen");
        log.write_all(b"x").unwrap();
        trim.catch_up(&log, now).unwrap();
        assert!(trim.is_due(now + PAUSE));
    }

    #[test]
    fn a_small_log_is_left_alone() {
        let mut log = tempfile::tempfile().unwrap();
        log.write_all(&vec![b'x'; 10_000]).unwrap();
        let before = log.metadata().unwrap().blocks();
        Trim::to(20_000).apply(&log).unwrap();
        assert_eq!(log.metadata().unwrap().blocks(), before);
    }
}
