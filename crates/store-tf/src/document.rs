//! The whole file: the fields around the entries, and its layout.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use sexton_core::store::Damage;
use sexton_core::{Session, SessionId, Time};

use crate::entry::{Entry, Meaning, write_time};
use crate::fields::{Fields, Layout, raw};
use crate::project::Project;
use crate::salvage;

/// The newest version of the file that this program understands.
pub(crate) const VERSION: u64 = 1;

/// The byte order mark that some editors write.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The content of a file.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    bom: bool,
    style: Style,
    /// Everything around the entries; the value of `sessions` is not used.
    around: Fields,
    /// The entries, in their order.
    pub(crate) entries: Vec<Entry>,
    /// The position of each session.
    index: BTreeMap<SessionId, usize>,
}

/// The layout of the other tool's file.
#[derive(Clone, Debug)]
pub(crate) enum Style {
    /// All on one line.
    Line,
    /// On several lines, with this indentation per level.
    Lines(String),
}

/// The result of reading the bytes of a file.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// A readable file, although single entries may be damaged.
    Document(Document),
    /// A file of a newer version.
    Newer(u64),
    /// A file that cannot be parsed as a whole: the damage, and the entries found in it.
    Torn(Damage, Document),
}

impl Document {
    /// Returns a file without entries.
    pub(crate) fn empty() -> Document {
        let around = Fields(vec![
            ("version".to_owned(), raw(VERSION)),
            ("sessions".to_owned(), raw(())),
            ("last_updated".to_owned(), raw(())),
        ]);
        let style = Style::Lines("  ".to_owned());
        Document { bom: false, style, around, entries: Vec::new(), index: BTreeMap::new() }
    }

    /// Reads a file.
    pub(crate) fn read(bytes: &[u8], project: &Project) -> Content {
        let text = bytes.strip_prefix(BOM).unwrap_or(bytes);
        let torn = |what: String| {
            let damage = Damage { place: "the file".to_owned(), what, harmless: false };
            let entries = salvage::entries(text).into_iter().map(|text| Entry::read(text, project)).collect();
            Content::Torn(damage, Document::empty().with_entries(entries))
        };
        if text.iter().all(u8::is_ascii_whitespace) {
            return torn("it is empty: a write was interrupted".to_owned());
        }
        let around: Fields = match serde_json::from_slice(text) {
            Ok(around) => around,
            Err(error) => return torn(format!("it cannot be parsed ({error})")),
        };
        if let Some(duplicate) = around.find_duplicate() {
            return torn(format!("it has two fields `{duplicate}`"));
        }
        match around.read::<u64>("version") {
            Ok(Some(newer)) if newer > VERSION => return Content::Newer(newer),
            Ok(_) => {}
            Err(what) => return torn(what),
        }
        let entries = match around.read::<Vec<Box<RawValue>>>("sessions") {
            Ok(Some(entries)) => entries.into_iter().map(|text| Entry::read(text, project)).collect(),
            Ok(None) => return torn("it has no `sessions`".to_owned()),
            Err(what) => return torn(what),
        };
        let bom = text.len() < bytes.len();
        let document = Document { bom, style: Style::of(text), around, ..Document::empty() };
        Content::Document(document.with_entries(entries))
    }

    /// Returns the same file with other entries.
    pub(crate) fn with_entries(mut self, entries: Vec<Entry>) -> Document {
        self.index.clear();
        for (at, entry) in entries.iter().enumerate() {
            if let Some(session) = entry.session() {
                self.index.insert(session.id.clone(), at);
            }
        }
        self.entries = entries;
        self.mark_duplicates();
        self
    }

    /// Marks entries of the same session as damaged: which one is right is unknown.
    fn mark_duplicates(&mut self) {
        let duplicates: Vec<usize> = (0..self.entries.len())
            .filter(|at| self.entries[*at].session().is_some_and(|one| self.index.get(&one.id) != Some(at)))
            .collect();
        for at in duplicates {
            let Some(id) = self.entries[at].session().map(|session| session.id.clone()) else { continue };
            let last = self.index.remove(&id);
            for at in [Some(at), last].into_iter().flatten() {
                let what = format!("session {id} occurs more than once");
                self.entries[at].meaning = Meaning::Damaged(Some(id.clone()), what);
            }
        }
    }

    /// Returns the position of a session's entry.
    pub(crate) fn find(&self, id: &SessionId) -> Option<usize> {
        self.index.get(id).copied()
    }

    /// Returns the readable sessions.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.entries.iter().filter_map(Entry::session)
    }

    /// Returns the findings about single entries.
    pub(crate) fn findings(&self) -> Vec<Damage> {
        let finding = |(number, entry): (usize, &Entry)| {
            let place = format!("entry {}", number + 1);
            match &entry.meaning {
                Meaning::Session(_) => None,
                Meaning::LeftAlone(why) => Some(Damage {
                    place,
                    what: format!("{why}; the entry is left unchanged"),
                    harmless: true,
                }),
                Meaning::Damaged(_, what) => Some(Damage { place, what: what.clone(), harmless: false }),
            }
        };
        self.entries.iter().enumerate().filter_map(finding).collect()
    }

    /// Returns the damage of the entry that claims the id `id`, if it is damaged.
    pub(crate) fn find_damage_of(&self, id: &SessionId) -> Option<&str> {
        self.entries.iter().find_map(|entry| match &entry.meaning {
            Meaning::Damaged(Some(damaged), what) if damaged == id => Some(what.as_str()),
            _ => None,
        })
    }

    /// Returns the same file with these sessions' entries replaced or removed; `None` if nothing changes.
    pub(crate) fn with_changes<'a>(
        &self,
        changes: impl Iterator<Item = (&'a SessionId, Option<Entry>)>,
    ) -> Option<Document> {
        let text = |entry: &Option<Entry>| entry.as_ref().map(|entry| entry.text.get().to_owned());
        let mut entries: Vec<Option<Entry>> = self.entries.iter().cloned().map(Some).collect();
        let mut changed = false;
        for (id, entry) in changes {
            match self.find(id) {
                Some(at) if text(&entries[at]) == text(&entry) => {}
                Some(at) => (entries[at], changed) = (entry, true),
                None => {
                    entries.push(entry);
                    changed = true;
                }
            }
        }
        changed.then(|| self.clone().with_entries(entries.into_iter().flatten().collect()))
    }

    /// Writes a new entry in the layout of the others.
    pub(crate) fn lay_out<T>(&self, write: impl FnOnce(Layout<'_>) -> T) -> T {
        match &self.style {
            Style::Line => write(Layout::Line),
            Style::Lines(unit) => write(Layout::Lines { indent: &unit.repeat(3), outer: &unit.repeat(2) }),
        }
    }

    /// Returns the bytes of the file, last changed at `now`.
    pub(crate) fn write(&self, now: Time) -> Vec<u8> {
        let mut around = self.around.clone();
        around.set("last_updated", raw(write_time(now)));
        let texts: Vec<&str> = self.entries.iter().map(|entry| entry.text.get()).collect();
        let (list, layout, end) = match &self.style {
            _ if texts.is_empty() => ("[]".to_owned(), self.style.outermost(), "\n"),
            Style::Line => (format!("[{}]", texts.join(", ")), Layout::Line, ""),
            Style::Lines(unit) => {
                let between = format!(",\n{unit}{unit}");
                let list = format!("[\n{unit}{unit}{}\n{unit}]", texts.join(&between));
                (list, self.style.outermost(), "\n")
            }
        };
        // The entries read from the file are unchanged, and new ones are JSON.
        if let Ok(list) = RawValue::from_string(list) {
            around.set("sessions", list);
        }
        let bom = if self.bom { BOM } else { &[] };
        [bom, around.write(layout).as_bytes(), end.as_bytes()].concat()
    }
}

impl Style {
    /// Determines the layout of a text from what follows its first line break.
    fn of(text: &[u8]) -> Style {
        const WIDEST: usize = 8;
        let text = text.trim_ascii_end();
        let Some(first) = text.iter().position(|byte| *byte == b'\n') else { return Style::Line };
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
        let unit: Vec<u8> = text[first + 1..].iter().take_while(blank).copied().take(WIDEST).collect();
        Style::Lines(String::from_utf8(unit).unwrap_or_default())
    }

    fn outermost(&self) -> Layout<'_> {
        match self {
            Style::Line => Layout::Line,
            Style::Lines(unit) => Layout::Lines { indent: unit, outer: "" },
        }
    }
}
