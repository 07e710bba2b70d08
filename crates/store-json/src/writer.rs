//! Everything that changes the journal. All of it happens through [`Writer`], which is the held lock: what
//! must hold it cannot be called without.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::MutexGuard;

use sexton_core::StoreError;
use sexton_core::store::{Committed, Durability};
use sexton_durable::{FileLock, Mark, MarkFile, random_uuid, remove_leftovers, replace_file, sync_data};

use crate::health::Health;
use crate::journal::{Journal, io_error, lock_path};
use crate::quarantine::Quarantine;
use crate::snapshot::Snapshot;
use crate::store::JsonStore;

/// A journal smaller than this is never worth rewriting.
const COMPACT_FROM: u64 = 1 << 20;
/// How many times larger than its live lines a journal may be.
const COMPACT_RATIO: u64 = 3;

/// The right to write, held by one thread of one process at a time.
pub(crate) struct Writer<'s> {
    store: &'s JsonStore,
    lock: FileLock,
}

impl<'s> Writer<'s> {
    /// Waits until nobody else writes.
    pub(crate) fn acquire(store: &'s JsonStore) -> Result<Writer<'s>, StoreError> {
        let path = lock_path(store.path());
        let lock = FileLock::acquire(&path).map_err(io_error("cannot lock", &path))?;
        Ok(Writer { store, lock })
    }

    /// The journal as it stands now, whatever state it is in.
    pub(crate) fn look(&self) -> Result<MutexGuard<'s, Journal>, StoreError> {
        let mut journal = self.store.journal();
        journal.refresh(Some(&self.lock))?;
        Ok(journal)
    }

    /// The journal as it stands, read from its beginning.
    pub(crate) fn look_afresh(&self) -> Result<MutexGuard<'s, Journal>, StoreError> {
        self.store.journal().forget();
        self.look()
    }

    /// The journal, ready to be appended to: made where there is none, and mended where its last writer
    /// did not come to an end.
    pub(crate) fn prepare(&self) -> Result<MutexGuard<'s, Journal>, StoreError> {
        let journal = self.look()?;
        require_writable(&journal)?;
        if journal.contents().health == Health::Absent {
            drop(journal);
            return self.replace(&Snapshot::empty(random_uuid()));
        }
        let marked = journal.load_mark()?.map(|mark| mark.sequence);
        let settled = marked.is_some_and(|marked| marked >= journal.contents().image.seq);
        if settled && journal.contents().health == Health::Whole { Ok(journal) } else { self.settle(journal) }
    }

    /// A commit beyond the mark is whole, but perhaps not on the disk: its writer may have been told that
    /// syncing failed, after which the kernel forgets. So everything is written once more, into a new file.
    fn settle(&self, journal: MutexGuard<'s, Journal>) -> Result<MutexGuard<'s, Journal>, StoreError> {
        if journal.contents().health == Health::Torn {
            let label = format!("torn-after-{}", journal.contents().image.seq);
            Quarantine::of(journal.path()).keep(&journal.load_torn_end()?, &label)?;
        }
        let snapshot = journal.snapshot()?;
        drop(journal);
        self.replace(&snapshot)
    }

    /// Puts `snapshot` in the place of the whole journal, durably and at once. The view of it is not held
    /// meanwhile: readers of this handle do not wait for the disk.
    pub(crate) fn replace(&self, snapshot: &Snapshot) -> Result<MutexGuard<'s, Journal>, StoreError> {
        let (path, bytes) = (self.store.path(), snapshot.encode());
        // What a killed writer left behind: housekeeping, and no reason to stop.
        let _ = remove_leftovers(path);
        if let Err(source) = replace_file(path, |file| file.write_all(&bytes)) {
            self.unsettle(snapshot);
            return Err(io_error("cannot write", path)(source));
        }
        self.acknowledge(&snapshot.store, snapshot.seq);
        self.look_afresh()
    }

    /// Appends the lines of one commit, durably, and takes them up.
    pub(crate) fn append(
        &self,
        journal: MutexGuard<'s, Journal>,
        lines: &[u8],
        seq: u64,
    ) -> Result<Committed, StoreError> {
        let (end, store) = (journal.contents().image.end, journal.contents().image.header.store.clone());
        // Readers of this handle do not wait for the disk.
        drop(journal);
        let appended = append_durably(self.store.path(), lines, end, self.store.durability());
        let mut journal = self.store.journal();
        if let Err(error) = appended {
            // What is in the file now is unknown, and so is everything that was known of it.
            journal.forget();
            return Err(error);
        }
        self.acknowledge(&store, seq);
        journal.refresh(Some(&self.lock))?;
        self.compact_if_grown(journal);
        Ok(Committed::at(seq))
    }

    /// Moves the mark. The commit holds without it too: the next writer, finding the mark behind, makes
    /// sure of everything once more.
    fn acknowledge(&self, store: &str, sequence: u64) {
        let _ = self.mark().store(&Mark { store: store.to_owned(), sequence, stamp: None });
    }

    /// Moves the mark back by one. The new journal may be in place without its directory having been
    /// synced, and this tells the next writer not to build on it.
    fn unsettle(&self, snapshot: &Snapshot) {
        if let Ok(Some(mark)) = self.mark().load() {
            self.acknowledge(&mark.store, mark.sequence.min(snapshot.seq.saturating_sub(1)));
        }
    }

    fn mark(&self) -> MarkFile {
        MarkFile::beside(self.store.path())
    }

    /// Housekeeping: where it fails, the commit holds all the same and the next one tries again.
    fn compact_if_grown(&self, journal: MutexGuard<'s, Journal>) {
        let contents = journal.contents();
        let length = contents.image.end;
        let worthwhile = length > COMPACT_FROM && length / COMPACT_RATIO > contents.image.index.live_bytes();
        if worthwhile && contents.health == Health::Whole {
            let snapshot = journal.snapshot();
            drop(journal);
            let _ = snapshot.and_then(|snapshot| self.replace(&snapshot).map(drop));
        }
    }
}

fn append_durably(path: &Path, lines: &[u8], end: u64, durability: Durability) -> Result<(), StoreError> {
    let mut file = OpenOptions::new().append(true).open(path).map_err(io_error("cannot open", path))?;
    if let Err(source) = file.write_all(lines)
        && !sexton_mutant::is("ignore_write_errors")
    {
        // Nobody has read half a commit for anything, so it can go at once. Where even that fails, it is
        // a torn end for the next writer.
        let _ = file.set_len(end);
        return Err(io_error("cannot write", path)(source));
    }
    match durability {
        Durability::Power => sync_data(&file).map_err(io_error("cannot sync", path)),
        Durability::Process => Ok(()),
    }
}

/// Refuses to write to a journal that is damaged or of a newer format.
pub(crate) fn require_writable(journal: &Journal) -> Result<(), StoreError> {
    let contents = journal.contents();
    let path = journal.path().to_owned();
    match contents.health {
        Health::Absent | Health::Whole | Health::Torn => Ok(()),
        Health::Damaged => Err(StoreError::Damaged { path, damage: contents.damage.clone() }),
        Health::Newer => {
            let found = contents.image.header.format;
            Err(StoreError::NewerFormat { path, found, supported: crate::format::FORMAT })
        }
    }
}
