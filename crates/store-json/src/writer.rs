//! Everything that writes the journal. [`Writer`] is the held lock, so nothing that needs the lock can be
//! called without it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::MutexGuard;

use sexton_core::StoreError;
use sexton_core::store::{Committed, Durability};
use sexton_durable::{FileLock, Mark, MarkFile, random_uuid, remove_leftovers, replace_file, sync_data};

use crate::format;
use crate::health::Health;
use crate::journal::{Journal, io_error, lock_path};
use crate::quarantine::Quarantine;
use crate::snapshot::Snapshot;
use crate::store::JsonStore;

/// A smaller journal is not worth rewriting.
const COMPACT_FROM: u64 = 1 << 20;
/// How many times larger than its live lines a journal may become.
const COMPACT_RATIO: u64 = 3;

/// The writer lock, held by one thread of one process at a time.
pub(crate) struct Writer<'s> {
    store: &'s JsonStore,
    lock: FileLock,
}

impl<'s> Writer<'s> {
    /// Waits until no other writer holds the lock.
    pub(crate) fn acquire(store: &'s JsonStore) -> Result<Writer<'s>, StoreError> {
        let path = lock_path(store.path());
        let lock = FileLock::acquire(&path).map_err(io_error("cannot lock", &path))?;
        Ok(Writer { store, lock })
    }

    /// Returns the current journal, whatever its state.
    pub(crate) fn refreshed(&self) -> Result<MutexGuard<'s, Journal>, StoreError> {
        let mut journal = self.store.journal();
        journal.refresh(Some(&self.lock))?;
        Ok(journal)
    }

    /// Returns the current journal, read from its start.
    pub(crate) fn reloaded(&self) -> Result<MutexGuard<'s, Journal>, StoreError> {
        self.store.journal().forget();
        self.refreshed()
    }

    /// Returns the journal ready for appending. Creates it if it is absent, and rewrites it if its last
    /// writer was interrupted.
    pub(crate) fn prepare(&self) -> Result<MutexGuard<'s, Journal>, StoreError> {
        let journal = self.refreshed()?;
        require_writable(&journal)?;
        if journal.contents().health == Health::Absent {
            drop(journal);
            return self.replace(&Snapshot::empty(random_uuid()));
        }
        let marked = journal.load_mark()?.map(|mark| mark.sequence);
        let confirmed = marked.is_some_and(|marked| marked >= journal.contents().image.seq);
        if confirmed && journal.contents().health == Health::Whole {
            Ok(journal)
        } else {
            self.rewrite(journal)
        }
    }

    /// Writes everything again into a new file. A commit beyond the mark is complete but may not be on disk:
    /// its sync may have failed, and the kernel reports such a failure only once.
    fn rewrite(&self, journal: MutexGuard<'s, Journal>) -> Result<MutexGuard<'s, Journal>, StoreError> {
        if journal.contents().health == Health::Torn {
            let label = format!("torn-after-{}", journal.contents().image.seq);
            Quarantine::of(journal.path()).keep(&journal.load_torn_end()?, &label)?;
        }
        let snapshot = journal.snapshot()?;
        drop(journal);
        self.replace(&snapshot)
    }

    /// Replaces the whole journal with `snapshot`, atomically and durably. The view is not locked meanwhile,
    /// so readers of this handle do not wait for the disk.
    pub(crate) fn replace(&self, snapshot: &Snapshot) -> Result<MutexGuard<'s, Journal>, StoreError> {
        let (path, bytes) = (self.store.path(), snapshot.encode());
        // Leftovers of a killed writer are only a cleanup task; a failure here does not matter.
        let _ = remove_leftovers(path);
        if let Err(source) = replace_file(path, |file| file.write_all(&bytes)) {
            self.move_mark_back(snapshot);
            return Err(io_error("cannot write", path)(source));
        }
        self.acknowledge(&snapshot.store, snapshot.seq);
        self.reloaded()
    }

    /// Appends the lines of one commit durably and refreshes the view.
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
            // The content of the file is unknown now, so the cached state is invalid.
            journal.forget();
            return Err(error);
        }
        self.acknowledge(&store, seq);
        journal.refresh(Some(&self.lock))?;
        self.compact_if_grown(journal);
        Ok(Committed::at(seq))
    }

    /// Advances the mark. The commit is valid without it: if the mark is behind, the next writer rewrites
    /// everything.
    fn acknowledge(&self, store: &str, sequence: u64) {
        let _ = self.mark().store(&Mark { store: store.to_owned(), sequence, stamp: None });
    }

    /// Moves the mark back by one. The new journal may be in place while its directory is not synced, and
    /// this makes the next writer rewrite it.
    fn move_mark_back(&self, snapshot: &Snapshot) {
        if let Ok(Some(mark)) = self.mark().load() {
            self.acknowledge(&mark.store, mark.sequence.min(snapshot.seq.saturating_sub(1)));
        }
    }

    fn mark(&self) -> MarkFile {
        MarkFile::beside(self.store.path())
    }

    /// Compacts the journal if worthwhile. If this fails, the commit is still valid and the next one tries
    /// again.
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
        // No reader uses an incomplete commit, so it can be removed at once. If that fails too, it is a torn
        // end for the next writer.
        let _ = file.set_len(end);
        return Err(io_error("cannot write", path)(source));
    }
    match durability {
        Durability::Power => sync_data(&file).map_err(io_error("cannot sync", path)),
        Durability::Process => Ok(()),
    }
}

/// Returns an error for a journal that is damaged or of a newer format.
pub(crate) fn require_writable(journal: &Journal) -> Result<(), StoreError> {
    let contents = journal.contents();
    let path = journal.path().to_owned();
    match contents.health {
        Health::Absent | Health::Whole | Health::Torn => Ok(()),
        Health::Damaged => Err(StoreError::Damaged { path, damage: contents.damage.clone() }),
        Health::Newer => Err(newer_format(journal)),
    }
}

/// Returns the error for writing a journal of a newer format.
pub(crate) fn newer_format(journal: &Journal) -> StoreError {
    let image = &journal.contents().image;
    let entries = image.index.in_file_order().into_iter();
    let sessions: Vec<_> = entries.filter_map(|(id, entry)| journal.load_session(id, entry).ok()).collect();
    StoreError::newer_format(journal.path(), (image.header.format, format::newest()), &sessions)
}
