//! Quarantine of unreadable files. Nothing else changes such a file, and this happens only on the user's
//! request.

use std::fs;
use std::path::PathBuf;

use sexton_core::store::{Damage, RepairReport};
use sexton_core::{SessionId, StoreError, Time};
use sexton_durable::set_aside;

use crate::claim::Held;
use crate::commit::interpret;
use crate::dir::{Content, SESSIONS, STATE_FILE, io_error};
use crate::sidecar::{QUARANTINE, path_of};
use crate::store::{OmxStore, unreadable};
use crate::view::{View, Wanted};

/// Moves every unreadable state file into the quarantine. A link stays: its target is elsewhere.
pub(crate) fn repair(store: &OmxStore, now: Time) -> Result<RepairReport, StoreError> {
    let claim = store.claim()?;
    let mut held = claim.enter()?;
    held.complete_intent()?;
    let view = View::load(store.path(), Wanted::All)?;
    let quarantined = quarantine_damage(&mut held, &view, now)?;
    drop(held);
    store.refresh_damage()?;
    let quarantine = (!quarantined.is_empty()).then(|| quarantine(store));
    Ok(RepairReport { kept: store.scan()?.sessions.len() as u64, quarantined, quarantine })
}

fn quarantine(store: &OmxStore) -> PathBuf {
    path_of(store.path(), QUARANTINE)
}

/// Moves every file of `view` that was read but could not be parsed into the quarantine.
pub(crate) fn quarantine_damage(
    held: &mut Held<'_>,
    view: &View,
    now: Time,
) -> Result<Vec<Damage>, StoreError> {
    let mut quarantined = Vec::new();
    for (id, reading) in &view.records {
        let (Content::Text(_), Err(error)) = (&reading.content, interpret(id, reading)) else { continue };
        let damage = unreadable(id, error)?;
        quarantine_file(held, id, now)?;
        quarantined.push(damage);
    }
    Ok(quarantined)
}

fn quarantine_file(held: &mut Held<'_>, id: &SessionId, now: Time) -> Result<(), StoreError> {
    let path = held.root.path.join(SESSIONS).join(id.as_str()).join(STATE_FILE);
    let directory = path_of(&held.root.path, QUARANTINE);
    let label = format!("{id}-{}", compact(now));
    set_aside(&path, &directory, &label).map_err(io_error("cannot quarantine", &path))?;
    // If the session's directory is empty, it is removed too.
    let _ = path.parent().map(fs::remove_dir);
    Ok(())
}

/// Formats a time for file names, so that names sort by time.
pub(crate) fn compact(now: Time) -> String {
    now.timestamp().strftime("%Y%m%dT%H%M%S%.3fZ").to_string()
}
