//! Entry points of the fuzz target `records`. Compiled only with `--cfg fuzzing`.

use std::collections::BTreeMap;

use sexton_core::{SessionId, Time};

use crate::document::Document;
use crate::intent::{Due, Intent};
use crate::record::{change, decode, insert};
use crate::words::{ITERATION, STATUSES, status_of, write_status};

/// Parses a state file and asserts that unchanged members keep their bytes and that every written status is
/// read back.
pub fn state(bytes: &[u8], now: Time) {
    let Ok(document) = Document::parse(bytes) else { return };
    let again = Document::parse(document.render().as_bytes()).expect("a written file can be read");
    assert!(again.members().eq(document.members()), "every member keeps its bytes");
    let id: SessionId = "omx-1".parse().expect("an id");
    let before = decode(&id, &document, now);
    for status in STATUSES {
        let mut written = document.clone();
        write_status(&mut written, status);
        assert_eq!(status_of(&written), status, "{}", written.render());
    }
    let mut after = before.clone();
    let state = after.loop_state.as_mut().expect("a state file is a loop");
    let next = state.iteration.map_or(1, |iteration| iteration.wrapping_add(1));
    state.iteration = Some(next);
    let mut changed = document.clone();
    change(&mut changed, &before, &after);
    let read_back = decode(&id, &changed, now);
    assert_eq!(read_back, after, "{}", changed.render());
    let others = |document: &Document| -> Vec<(String, String)> {
        let all = document.members().filter(|(key, _)| *key != ITERATION);
        all.map(|(key, raw)| (key.to_owned(), raw.to_owned())).collect()
    };
    assert_eq!(others(&changed), others(&document), "nothing else is changed");
    // The same record in an empty file has the same status.
    assert_eq!(decode(&id, &insert(&before), now).status, before.status);
}

/// Adds the correct checksum to an intent.
pub fn seal(document: &str) -> String {
    format!("{:08x} {document}\n", crc32fast::hash(document.as_bytes()))
}

/// Decodes an intent and asserts that it reads back and that completing it again changes nothing.
pub fn intent(bytes: &[u8]) {
    let Ok(intent) = Intent::decode(bytes) else { return };
    assert_eq!(Intent::decode(intent.encode().as_bytes()).as_ref(), Ok(&intent));
    let ids: BTreeMap<&SessionId, usize> =
        intent.files.iter().enumerate().map(|(n, f)| (&f.session, n)).collect();
    if ids.len() < intent.files.len() {
        return;
    }
    // Each file is in its state before, after, or changed by another program.
    for stand in 0..3_usize.pow(u32::try_from(intent.files.len().min(4)).expect("four at most")) {
        let mut now: BTreeMap<SessionId, Option<String>> = BTreeMap::new();
        for (number, file) in intent.files.iter().enumerate() {
            let held = match stand / 3_usize.pow(u32::try_from(number.min(4)).expect("four at most")) % 3 {
                0 => file.before.clone(),
                1 => file.after.clone(),
                _ => Some("changed by another program".to_owned()),
            };
            now.insert(file.session.clone(), held);
        }
        complete(&intent, &mut now);
        let once = now.clone();
        complete(&intent, &mut now);
        assert_eq!(now, once, "completing it again changes something: {intent:?}");
    }
}

fn complete(intent: &Intent, now: &mut BTreeMap<SessionId, Option<String>>) {
    for (id, due) in intent.due(|id| now[id].clone()) {
        if let Due::Put(content) = due {
            now.insert(id, content);
        }
    }
}
