//! A batch of several files under way. The intent is written first, durably: from then on the batch counts,
//! though none of its files has changed yet. Readers look through it, and whoever opens the store for writing
//! next brings it to its end.
//!
//! What to do with an intent that is found is a pure function of the intent and of the files, so that a
//! reader and the writer that completes it always agree.

use serde::{Deserialize, Serialize};
use sexton_core::SessionId;

/// The version of an intent.
const FORMAT: u32 = 1;

/// What a batch is about to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    format: u32,
    /// The files in the order in which they change.
    pub(crate) files: Vec<Planned>,
}

/// One file of a batch, before and after; `None` where it is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Planned {
    /// Whose state it is.
    pub(crate) session: SessionId,
    /// What it held when the batch was checked.
    pub(crate) before: Option<String>,
    /// What it is to hold.
    pub(crate) after: Option<String>,
}

/// What is left to be done about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing: it is somebody else's by now, or it is as it should be.
    Nothing,
    /// It is to hold this; `None` where it is to be gone.
    Put(Option<String>),
}

/// Where a file stands on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    After,
    /// Somebody who knows nothing of the intent changed it.
    Elsewhere,
}

impl Intent {
    /// The intent to change `files`, in this order.
    pub(crate) fn new(files: Vec<Planned>) -> Intent {
        Intent { format: FORMAT, files }
    }

    /// The intent as it is written: a checksum, and the document.
    ///
    /// # Panics
    /// Never: an intent has a JSON form.
    pub(crate) fn encode(&self) -> String {
        let document = serde_json::to_string(self).expect("an intent has a JSON form");
        format!("{:08x} {document}\n", crc32fast::hash(document.as_bytes()))
    }

    /// Reads an intent; the error says what is wrong with it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Intent, String> {
        let line =
            str::from_utf8(bytes).ok().and_then(|text| text.strip_suffix('\n')).ok_or("it is cut off")?;
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

    /// What is left to be done, given what each file holds now.
    ///
    /// Both or neither: it is completed, wherever it stands. Only where somebody else has changed one of the
    /// files meanwhile, theirs stays: a batch of which nothing had happened by then is dropped, one that had
    /// not come to their file is taken back, and one that had already passed it is completed.
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

    /// What the two files hold once the intent was dealt with.
    fn settled(old: Option<&str>, new: Option<&str>) -> [Option<String>; 2] {
        let now = BTreeMap::from([(id("old"), old.map(str::to_owned)), (id("new"), new.map(str::to_owned))]);
        let due: BTreeMap<_, _> = transfer().due(|id| now[id].clone()).into_iter().collect();
        ["old", "new"].map(|name| match &due[&id(name)] {
            Due::Nothing => now[&id(name)].clone(),
            Due::Put(content) => content.clone(),
        })
    }

    #[test]
    fn a_batch_is_completed_wherever_it_stands() {
        let whole = [Some("over".to_owned()), Some("active".to_owned())];
        assert_eq!(settled(Some("active"), None), whole);
        assert_eq!(settled(Some("over"), None), whole);
        assert_eq!(settled(Some("over"), Some("active")), whole);
        assert_eq!(settled(Some("active"), Some("active")), whole);
    }

    #[test]
    fn what_somebody_else_changed_meanwhile_stays_and_the_rest_goes_with_it() {
        let some = |text: &str| Some(text.to_owned());
        // Nothing of it had happened: it never will.
        assert_eq!(settled(Some("theirs"), None), [some("theirs"), None]);
        assert_eq!(settled(Some("active"), Some("theirs")), [some("active"), some("theirs")]);
        // It had not come to their file: it is taken back.
        assert_eq!(settled(Some("over"), Some("theirs")), [some("active"), some("theirs")]);
        // It had passed it: the loop went on in its new place, or its old one was touched once more.
        assert_eq!(settled(Some("theirs"), Some("active")), [some("theirs"), some("active")]);
        assert_eq!(settled(Some("theirs"), Some("theirs")), [some("theirs"), some("theirs")]);
    }

    #[test]
    fn an_intent_reads_back_and_one_with_any_flipped_or_missing_byte_does_not() {
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
