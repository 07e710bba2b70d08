//! Reading of a damaged journal: every valid line counts, and everything else is reported.
//!
//! Lines are numbered within their commit and commits within the journal, so that missing lines are detected
//! too. Nothing here writes.

use std::collections::{BTreeSet, HashMap};

use sexton_core::SessionId;
use sexton_core::store::Damage;
use sexton_durable::Mark;

use crate::format::{ChangeLine, Header, Line, LineChange, OLDEST};
use crate::gaps::Walk;
use crate::health::{Contents, Health};
use crate::image::Image;
use crate::index::{Index, Span};
use crate::pieces::{Piece, cut};

/// Further findings would add no information.
const MAX_REPORTED: usize = 100;

/// Reads what it can of `bytes`, which is not an intact journal.
pub(crate) fn salvage(bytes: &[u8], mark: Option<&Mark>) -> Contents {
    let pieces = cut(bytes);
    let header = pieces.iter().find_map(|piece| match piece {
        Piece::Good { line: Line::Header(header), .. } => Some(header.clone()),
        _ => None,
    });
    let found = header.is_some();
    let header = header.unwrap_or_else(|| lost_header(bytes, mark));
    let claimed = mark.filter(|mark| mark.store == header.store).map_or(0, |mark| mark.sequence);
    let mut salvage = Salvage::new(found.then(|| header.clone()));
    for piece in pieces {
        salvage.take(piece);
    }
    salvage.finish(header, bytes.len() as u64, claimed)
}

/// Returns a header for a journal that lost its own. The mark names the store.
fn lost_header(bytes: &[u8], mark: Option<&Mark>) -> Header {
    let store = mark.map(|mark| mark.store.clone()).or_else(|| guess_store(bytes)).unwrap_or_default();
    Header { format: OLDEST, store, seq: 0, base: 0 }
}

/// Returns the identifier in the damaged first line, if it still looks like one.
fn guess_store(bytes: &[u8]) -> Option<String> {
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    let (_, rest) = str::from_utf8(line).ok()?.split_once("\"store\":\"")?;
    let (store, _) = rest.split_once('"')?;
    let plain = store.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (store.len() == 36 && plain).then(|| store.to_owned())
}

struct Salvage {
    walk: Walk,
    /// Valid lines, until it is known whether they belong to a torn end.
    lines: Vec<(ChangeLine, Span, u64)>,
    damage: Vec<Damage>,
    suspects: BTreeSet<SessionId>,
    has_header: bool,
    good: u64,
}

impl Salvage {
    fn new(header: Option<Header>) -> Salvage {
        let has_header = header.is_some();
        Salvage {
            walk: Walk::new(header),
            lines: Vec::new(),
            damage: Vec::new(),
            suspects: BTreeSet::new(),
            has_header,
            good: 0,
        }
    }

    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Good { line: Line::Header(_), .. } => self.good += 1,
            Piece::Good { line: Line::Change(line), span, number } => {
                self.good += 1;
                if let Some(gap) = self.walk.step(line.place) {
                    self.report(format!("line {number}"), gap);
                }
                self.lines.push((line, span, number));
            }
            Piece::Bad { number, error, .. } if number == 1 && !self.has_header => {
                self.report("line 1".to_owned(), format!("{error}; it is the header; no record is lost"));
            }
            Piece::Bad { number, error, loss } => {
                self.walk.skip();
                self.report(format!("line {number}"), format!("{error}; {}", loss.describe()));
                self.suspects.extend(loss.session);
            }
            Piece::LostBreak { number } => {
                let what = "its line break is damaged; its content is intact";
                self.report(format!("line {number}"), what.to_owned());
            }
        }
    }

    fn finish(mut self, header: Header, length: u64, claimed: u64) -> Contents {
        if !self.has_header && self.damage.iter().all(|damage| damage.place != "line 1") {
            let what = "the header is missing, and possibly lines after it".to_owned();
            self.damage.insert(0, Damage { place: "line 1".to_owned(), what, harmless: false });
        }
        self.set_torn_end_apart(claimed);
        if let Some(gap) = self.walk.end(claimed) {
            self.report("end".to_owned(), gap);
        }
        let seq = self.lines.iter().map(|(line, ..)| line.seq).fold(header.seq, u64::max);
        let index = build_index(self.lines);
        if self.damage.len() > MAX_REPORTED {
            let more = self.damage.len() - MAX_REPORTED;
            self.damage.truncate(MAX_REPORTED);
            let what = format!("{more} more findings of this kind");
            self.damage.push(Damage { place: "journal".to_owned(), what, harmless: false });
        }
        let image = Image { header, index, seq, end: length, lines: self.good };
        Contents { image, health: Health::Damaged, damage: self.damage, suspects: self.suspects }
    }

    /// Discards an unacknowledged incomplete commit, also in a damaged journal.
    fn set_torn_end_apart(&mut self, claimed: u64) {
        let Some(torn) = self.walk.torn_end(claimed) else { return };
        let number = self.lines.iter().find(|(line, ..)| line.seq == torn).map_or(0, |(.., number)| *number);
        self.lines.retain(|(line, ..)| line.seq != torn);
        let what = format!("the commit {torn} was never acknowledged and is incomplete");
        self.damage.push(Damage { place: format!("line {number}"), what, harmless: true });
    }

    fn report(&mut self, place: String, what: String) {
        self.damage.push(Damage { place, what, harmless: false });
    }
}

/// Builds the index of `lines`. If lines are out of order, the later commit counts.
fn build_index(lines: Vec<(ChangeLine, Span, u64)>) -> Index {
    let mut index = Index::default();
    let mut newest: HashMap<SessionId, u64> = HashMap::new();
    for (line, span, _) in lines {
        let id = match &line.change {
            LineChange::Put(summary) => Some(summary.id.clone()),
            LineChange::Del(id) => Some(id.clone()),
            LineChange::Add(_) => None,
        };
        if let Some(id) = id {
            let newest = newest.entry(id).or_default();
            if line.seq < *newest {
                continue;
            }
            *newest = line.seq;
        }
        index.apply(line.seq, line.change, span);
    }
    index
}
