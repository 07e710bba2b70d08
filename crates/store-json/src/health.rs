//! Interprets the bytes of a journal together with its mark: intact, torn, damaged, of a newer format, or not
//! a journal. Reads no file, so that every kind of damage can be tested in memory.

use std::collections::BTreeSet;

use sexton_core::SessionId;
use sexton_core::store::Damage;
use sexton_durable::Mark;

use crate::format::OPENING;
use crate::image::{Image, NoImage, Rest};
use crate::salvage;

/// Everything known about a journal.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    /// The readable content.
    pub(crate) image: Image,
    /// The state, which decides whether it can be written.
    pub(crate) health: Health,
    /// The damage found.
    pub(crate) damage: Vec<Damage>,
    /// Sessions that the damaged lines seem to be about.
    pub(crate) suspects: BTreeSet<SessionId>,
}

/// The state of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Nothing was ever written.
    Absent,
    /// Intact.
    Whole,
    /// It ends with a commit that was never acknowledged.
    Torn,
    /// Acknowledged data is missing or unreadable.
    Damaged,
    /// A newer version wrote it.
    Newer,
}

/// The file is not a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAJournal;

impl Contents {
    /// Returns the contents of a journal that does not exist or is empty. `replace_file` never leaves an
    /// empty one.
    pub(crate) fn missing(mark: Option<&Mark>) -> Contents {
        let Some(mark) = mark else {
            return Contents::of(Image::empty(String::new()), Health::Absent, Vec::new());
        };
        let what = format!(
            "the file is missing or empty, but commit {} was acknowledged: all records are lost; restore a \
             backup, or repair to start with an empty journal",
            mark.sequence
        );
        let damage = Damage { place: "journal".to_owned(), what, harmless: false };
        Contents::of(Image::empty(mark.store.clone()), Health::Damaged, vec![damage])
    }

    /// Interprets `bytes`, given the mark that was loaded before they were read.
    pub(crate) fn interpret(bytes: &[u8], mark: Option<&Mark>) -> Result<Contents, NotAJournal> {
        if bytes.is_empty() {
            return Ok(Contents::missing(mark));
        }
        let (image, rest) = match Image::read(bytes) {
            Ok(read) => read,
            Err(NoImage::Newer) => return Ok(Contents::newer(bytes, mark)),
            Err(NoImage::Broken) => {
                let contents = salvage::salvage(bytes, mark);
                let ours = mark.is_some() || contents.image.lines > 0 || bytes.starts_with(OPENING);
                return if ours { Ok(contents) } else { Err(NotAJournal) };
            }
        };
        let claimed = mark.filter(|mark| mark.store == image.header.store).map_or(0, |mark| mark.sequence);
        let mut contents = match rest {
            Rest::Irregular if sexton_mutant::is("reset_damaged") => return Ok(Contents::missing(None)),
            _ if claimed > image.seq => salvage::salvage(bytes, mark),
            Rest::Irregular => salvage::salvage(bytes, mark),
            Rest::Nothing => Contents::of(image, Health::Whole, Vec::new()),
            Rest::Torn => {
                let damage = torn(&image);
                Contents::of(image, Health::Torn, vec![damage])
            }
        };
        if let Some(mark) = mark.filter(|mark| mark.store != contents.image.header.store) {
            contents.damage.push(exchanged(&contents.image.header.store, mark));
            contents.health = Health::Damaged;
        }
        Ok(contents)
    }

    /// Returns contents without suspected sessions.
    pub(crate) fn of(image: Image, health: Health, damage: Vec<Damage>) -> Contents {
        Contents { image, health, damage, suspects: BTreeSet::new() }
    }

    /// Reads the lines of a newer format that this version understands, and reports the others.
    fn newer(bytes: &[u8], mark: Option<&Mark>) -> Contents {
        Contents { health: Health::Newer, ..salvage::salvage(bytes, mark) }
    }

    /// Returns whether every line is readable, so that a session that was not found is not in the journal.
    pub(crate) fn is_complete(&self) -> bool {
        match self.health {
            // The first finding is that the format is newer.
            Health::Newer => self.damage.len() <= 1,
            Health::Damaged => false,
            Health::Absent | Health::Whole | Health::Torn => true,
        }
    }

    /// Returns all damage, including records of a newer schema.
    pub(crate) fn findings(&self) -> Vec<Damage> {
        self.damage.iter().cloned().chain(self.image.index.newer_findings()).collect()
    }

    /// Returns the store's identifier, if known.
    pub(crate) fn uuid(&self) -> Option<&str> {
        Some(self.image.header.store.as_str()).filter(|store| !store.is_empty())
    }
}

fn torn(image: &Image) -> Damage {
    let what = "incomplete: a commit that was never acknowledged; the next write moves it to the quarantine";
    Damage { place: format!("line {}", image.lines + 1), what: what.to_owned(), harmless: true }
}

fn exchanged(found: &str, mark: &Mark) -> Damage {
    let what = format!(
        "it belongs to store {}, but the journal beside it belongs to {found}: the journal was replaced by \
         another; restore a backup, or repair to accept the journal as it is",
        mark.store
    );
    Damage { place: "mark".to_owned(), what, harmless: false }
}
