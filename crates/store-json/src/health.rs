//! What the bytes of a journal mean together with its mark: healthy, torn, damaged, of a newer format, or
//! no journal at all. Pure: it reads no file, so that every broken journal can be tried in memory.

use std::collections::BTreeSet;

use sexton_core::SessionId;
use sexton_core::store::Damage;
use sexton_durable::Mark;

use crate::format::{FORMAT, Header, OPENING};
use crate::image::{Image, NoImage, Rest};
use crate::salvage;

/// Everything that is known of a journal.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    /// What can be read.
    pub(crate) image: Image,
    /// Whether it can be written.
    pub(crate) health: Health,
    /// What is wrong with it.
    pub(crate) damage: Vec<Damage>,
    /// Sessions that the damaged lines seem to be about.
    pub(crate) suspects: BTreeSet<SessionId>,
}

/// In which state a journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Nothing was ever written.
    Absent,
    /// All is well.
    Whole,
    /// It ends in a commit that was never acknowledged.
    Torn,
    /// Something acknowledged is missing or unreadable.
    Damaged,
    /// A newer version wrote it.
    Newer,
}

/// A file that is something else than a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAJournal;

impl Contents {
    /// A journal that does not exist, or is empty, which `replace_file` never leaves behind.
    pub(crate) fn missing(mark: Option<&Mark>) -> Contents {
        let Some(mark) = mark else {
            return Contents::of(Image::empty(String::new()), Health::Absent, Vec::new());
        };
        let what = format!(
            "it is gone or empty, though commit {} was acknowledged: every record is lost with it; restore a \
             backup, or repair to begin again without them",
            mark.sequence
        );
        let damage = Damage { place: "journal".to_owned(), what, harmless: false };
        Contents::of(Image::empty(mark.store.clone()), Health::Damaged, vec![damage])
    }

    /// What `bytes` mean, given the mark that was loaded before they were read.
    pub(crate) fn interpret(bytes: &[u8], mark: Option<&Mark>) -> Result<Contents, NotAJournal> {
        if bytes.is_empty() {
            return Ok(Contents::missing(mark));
        }
        let (image, rest) = match Image::read(bytes) {
            Ok(read) => read,
            Err(NoImage::Newer(header)) => return Ok(Contents::newer(header)),
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

    /// Contents with nothing known of particular sessions.
    pub(crate) fn of(image: Image, health: Health, damage: Vec<Damage>) -> Contents {
        Contents { image, health, damage, suspects: BTreeSet::new() }
    }

    fn newer(header: Header) -> Contents {
        let what = format!(
            "it has format {}, newer than the supported {FORMAT}; a newer version of Sexton can read it",
            header.format
        );
        let damage = Damage { place: "journal".to_owned(), what, harmless: false };
        let image = Image { header, ..Image::empty(String::new()) };
        Contents::of(image, Health::Newer, vec![damage])
    }

    /// Everything that is wrong, records of a newer schema included.
    pub(crate) fn findings(&self) -> Vec<Damage> {
        self.damage.iter().cloned().chain(self.image.index.newer_findings()).collect()
    }

    /// The identifier of the store, where there is one.
    pub(crate) fn uuid(&self) -> Option<&str> {
        Some(self.image.header.store.as_str()).filter(|store| !store.is_empty())
    }
}

fn torn(image: &Image) -> Damage {
    let what = "cut off: the beginning of a commit that was never acknowledged; the next write sets it aside";
    Damage { place: format!("line {}", image.lines + 1), what: what.to_owned(), harmless: true }
}

fn exchanged(found: &str, mark: &Mark) -> Damage {
    let what = format!(
        "it belongs to the store {}, and the journal beside it to {found}: another journal was put in its \
         place; restore a backup, or repair to accept the journal as it is",
        mark.store
    );
    Damage { place: "mark".to_owned(), what, harmless: false }
}
