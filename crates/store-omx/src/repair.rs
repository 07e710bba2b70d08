//! Setting aside what cannot be read. Nothing else here ever touches such a file, and this only on its
//! user's word.

use std::fs;
use std::path::PathBuf;

use sexton_core::store::{Damage, RepairReport};
use sexton_core::{SessionId, StoreError, Time};
use sexton_durable::set_aside;

use crate::claim::Held;
use crate::commit::understand;
use crate::dir::{Content, SESSIONS, STATE_FILE, io_error};
use crate::sidecar::{QUARANTINE, path_of};
use crate::store::{OmxStore, unreadable};
use crate::view::{View, Wanted};

/// Moves every state file that cannot be read into the quarantine. A link stays: it leads to something that
/// is not here.
pub(crate) fn repair(store: &OmxStore, now: Time) -> Result<RepairReport, StoreError> {
    let claim = store.claim()?;
    let mut held = claim.enter()?;
    held.settle()?;
    let view = View::load(store.path(), Wanted::All)?;
    let quarantined = set_damage_aside(&mut held, &view, now)?;
    drop(held);
    store.look_for_damage()?;
    let quarantine = (!quarantined.is_empty()).then(|| quarantine(store));
    Ok(RepairReport { kept: store.scan()?.sessions.len() as u64, quarantined, quarantine })
}

fn quarantine(store: &OmxStore) -> PathBuf {
    path_of(store.path(), QUARANTINE)
}

/// Sets aside every file of `view` that was read and not understood.
pub(crate) fn set_damage_aside(
    held: &mut Held<'_>,
    view: &View,
    now: Time,
) -> Result<Vec<Damage>, StoreError> {
    let mut quarantined = Vec::new();
    for (id, reading) in &view.records {
        let (Content::Text(_), Err(error)) = (&reading.content, understand(id, reading)) else { continue };
        let damage = unreadable(id, error)?;
        set_file_aside(held, id, now)?;
        quarantined.push(damage);
    }
    Ok(quarantined)
}

fn set_file_aside(held: &mut Held<'_>, id: &SessionId, now: Time) -> Result<(), StoreError> {
    let path = held.root.path.join(SESSIONS).join(id.as_str()).join(STATE_FILE);
    let directory = path_of(&held.root.path, QUARANTINE);
    let label = format!("{id}-{}", compact(now));
    set_aside(&path, &directory, &label).map_err(io_error("cannot set aside", &path))?;
    // Where nothing else of the session is left, its directory goes too.
    let _ = path.parent().map(fs::remove_dir);
    Ok(())
}

/// A time that can be part of a file name, and that sorts.
pub(crate) fn compact(now: Time) -> String {
    now.timestamp().strftime("%Y%m%dT%H%M%S%.3fZ").to_string()
}
