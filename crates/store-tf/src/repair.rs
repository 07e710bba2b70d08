//! Repair. The original file is kept in the quarantine beside it.

use sexton_core::store::RepairReport;
use sexton_core::{StoreError, Time};
use sexton_durable::keep_aside;

use crate::document::{Content, Document};
use crate::entry::{Entry, Meaning};
use crate::snapshot::{Snapshot, State};
use crate::store::TfStore;

/// Keeps every readable entry, and the original file in `<file>.quarantine/`.
pub(crate) fn repair(store: &TfStore, now: Time) -> Result<RepairReport, StoreError> {
    let writer = store.writer()?;
    let snapshot = writer.take_snapshot(None)?;
    snapshot.require_known_version()?;
    let sessions = |document: &Document| document.sessions().count() as u64;
    if snapshot.require_sound().is_ok() {
        let kept = snapshot.document().map_or(0, sessions);
        return Ok(RepairReport { kept, quarantined: Vec::new(), quarantine: None });
    }
    if let State::TooLarge(_) = snapshot.state {
        // A file that was never read cannot be repaired.
        return Err(StoreError::Damaged { path: store.path().to_owned(), damage: snapshot.damage() });
    }
    let quarantine = keep_original(store, now)?;
    let repaired = without_damage(&snapshot);
    let kept = sessions(&repaired);
    _ = writer.replace(repaired)?;
    let quarantined = snapshot.damage().into_iter().filter(|damage| !damage.harmless).collect();
    Ok(RepairReport { kept, quarantined, quarantine: Some(quarantine) })
}

/// Links the present file into the quarantine.
pub(crate) fn keep_original(store: &TfStore, now: Time) -> Result<std::path::PathBuf, StoreError> {
    let mut directory = store.path().as_os_str().to_owned();
    directory.push(".quarantine");
    let label = now.timestamp().strftime("%Y%m%dT%H%M%S%.3fZ").to_string();
    keep_aside(store.path(), directory.as_ref(), &label)
        .map_err(|error| store.io_error("cannot quarantine", error))
}

/// Returns the document without damaged entries.
pub(crate) fn without_damage(snapshot: &Snapshot) -> Document {
    let document = match &snapshot.state {
        State::Present(Content::Document(document) | Content::Torn(_, document)) => document.clone(),
        _ => Document::empty(),
    };
    let whole = |entry: &Entry| !matches!(entry.meaning, Meaning::Damaged(..));
    let entries = document.entries.iter().filter(|entry| whole(entry)).cloned().collect();
    document.with_entries(entries)
}
