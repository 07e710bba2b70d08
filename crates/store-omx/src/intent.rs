//! A batch of several files in progress. The intent is written first, durably: from then on the batch counts,
//! although none of its files has changed yet. Readers apply it, and the next process that opens the store
//! for writing completes it.
//!
//! What remains to be done for an intent is a pure function of the intent and the files, so that a reader and
//! the writer that completes it always agree.

use serde::{Deserialize, Serialize};
use sexton_core::SessionId;

/// The version of an intent.
const FORMAT: u32 = 1;

/// The changes of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    format: u32,
    /// The files in the order in which they change.
    pub(crate) files: Vec<Planned>,
}

/// One file of a batch, before and after; `None` if it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Planned {
    /// The session of the state file.
    pub(crate) session: SessionId,
    /// The content when the batch was checked.
    pub(crate) before: Option<String>,
    /// The new content.
    pub(crate) after: Option<String>,
}

/// What remains to be done for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing: another program changed it, or it is already complete.
    Nothing,
    /// Write this content; `None` to delete the file.
    Put(Option<String>),
}

/// The state of a file in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    After,
    /// Another program changed it without knowing the intent.
    Elsewhere,
}

impl Intent {
    /// Returns the intent to change `files`, in this order.
    pub(crate) fn new(files: Vec<Planned>) -> Intent {
        Intent { format: FORMAT, files }
    }

    /// Encodes the intent: a checksum, and the document.
    ///
    /// # Panics
    /// Never: an intent can be serialized.
    pub(crate) fn encode(&self) -> String {
        let document = serde_json::to_string(self).expect("an intent can be serialized");
        format!("{:08x} {document}\n", crc32fast::hash(document.as_bytes()))
    }

    /// Decodes an intent; the error describes what is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Intent, String> {
        let line =
            str::from_utf8(bytes).ok().and_then(|text| text.strip_suffix('\n')).ok_or("it is incomplete")?;
        let (sum, document) = line.split_once(' ').ok_or("it has no checksum")?;
        if u32::from_str_radix(sum, 16).ok() != Some(crc32fast::hash(document.as_bytes())) {
            return Err("its checksum does not match".to_owned());
        }
        serde_json::from_str::<Intent>(document).map_err(|error| error.to_string()).and_then(|intent| {
            match intent.format {
                FORMAT => Ok(intent),
                other => Err(format!("it has format {other}, and {FORMAT} is supported")),
            }
        })
    }

    /// Returns what remains to be done, given the present content of each file.
    ///
    /// All or nothing: the batch is completed from any state. Only if another program changed one of the
    /// files meanwhile, its version stays: a batch that had changed nothing is dropped, one that had not yet
    /// reached that file is undone, and one that had already passed it is completed.
    pub(crate) fn due(&self, mut holds: impl FnMut(&SessionId) -> Option<String>) -> Vec<(SessionId, Due)> {
        let places: Vec<Place> = self
            .files
            .iter()
            .map(|file| match holds(&file.session) {
                now if now == file.after => Place::After,
                now if now == file.before => Place::Before,
                _ => Place::Elsewhere,
            })
            .collect();
        let come_to = places.iter().rposition(|place| *place == Place::After);
        let changed = places.iter().rposition(|place| *place == Place::Elsewhere);
        let due = |file: &Planned, place: Place| match (place, changed, come_to) {
            (Place::Elsewhere, ..) | (_, Some(_), None) => Due::Nothing,
            (Place::Before, Some(changed), Some(come_to)) if changed > come_to => Due::Nothing,
            (Place::After, Some(changed), Some(come_to)) if changed > come_to => {
                Due::Put(file.before.clone())
            }
            _ => Due::Put(file.after.clone()),
        };
        let each = self.files.iter().zip(places);
        each.map(|(file, place)| (file.session.clone(), due(file, place))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn id(text: &str) -> SessionId {
        text.parse().unwrap()
    }

    fn planned(session: &str, before: Option<&str>, after: Option<&str>) -> Planned {
        Planned { session: id(session), before: before.map(str::to_owned), after: after.map(str::to_owned) }
    }

    fn transfer() -> Intent {
        Intent::new(vec![planned("old", Some("active"), Some("over")), planned("new", None, Some("active"))])
    }

    /// Returns the content of the two files after the intent was processed.
    fn completed(old: Option<&str>, new: Option<&str>) -> [Option<String>; 2] {
        let now = BTreeMap::from([(id("old"), old.map(str::to_owned)), (id("new"), new.map(str::to_owned))]);
        let due: BTreeMap<_, _> = transfer().due(|id| now[id].clone()).into_iter().collect();
        ["old", "new"].map(|name| match &due[&id(name)] {
            Due::Nothing => now[&id(name)].clone(),
            Due::Put(content) => content.clone(),
        })
    }

    #[test]
    fn a_batch_is_completed_from_any_state() {
        let whole = [Some("over".to_owned()), Some("active".to_owned())];
        assert_eq!(completed(Some("active"), None), whole);
        assert_eq!(completed(Some("over"), None), whole);
        assert_eq!(completed(Some("over"), Some("active")), whole);
        assert_eq!(completed(Some("active"), Some("active")), whole);
    }

    #[test]
    fn changes_by_another_program_are_kept_and_decide_the_batch() {
        let some = |text: &str| Some(text.to_owned());
        // The batch had changed nothing: it is dropped.
        assert_eq!(completed(Some("theirs"), None), [some("theirs"), None]);
        assert_eq!(completed(Some("active"), Some("theirs")), [some("active"), some("theirs")]);
        // The batch had not reached their file: it is undone.
        assert_eq!(completed(Some("over"), Some("theirs")), [some("active"), some("theirs")]);
        // The batch had passed it: the loop continued in its new session, or its old file was changed once
        // more.
        assert_eq!(completed(Some("theirs"), Some("active")), [some("theirs"), some("active")]);
        assert_eq!(completed(Some("theirs"), Some("theirs")), [some("theirs"), some("theirs")]);
    }

    #[test]
    fn an_intent_round_trips_and_any_damage_is_detected() {
        let whole = transfer().encode().into_bytes();
        assert_eq!(Intent::decode(&whole).unwrap(), transfer());
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x15;
            assert!(Intent::decode(&flipped).is_err(), "byte {at}");
            assert!(Intent::decode(&whole[..at]).is_err(), "cut at {at}");
        }
    }
}
