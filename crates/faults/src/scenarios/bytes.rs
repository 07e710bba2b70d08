//! A store of fifty records, cut off at every byte and with every byte changed: what is read is true, what is
//! missing is said, what was not touched stays readable, and nothing is overwritten.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::store::Access;
use sexton_core::{Batch, Query, Session, SessionId};
use sexton_field::Yard;
use sexton_field::records::{insert_records, open as open_yard};

use super::deeds::finished;
use super::ledger::open;
use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "bytes",
    promises: "I6",
    what: "stores of 50 records, and SQLite's log, cut off at every byte and with every byte flipped",
    mutants: &["no_checksum", "no_mark", "reset_damaged"],
    tools: &[],
    minutes: 14,
    run,
};

/// What happens to a file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    CutOff(usize),
    Flipped(usize),
}

/// The records that every store of this scenario has, besides that of the bystander.
const RECORDS: usize = 50;

fn run(trials: &mut Trials) {
    for (store, in_log) in [("sqlite", false), ("sqlite", true), ("json", false)] {
        if trials.is_hopeless() {
            return;
        }
        let target = Target::make(store, in_log);
        let places: Vec<usize> = (0..target.whole.len()).collect();
        let chosen = trials.some_of(&places, 250).into_iter();
        let chosen = chosen.flat_map(|at| [Harm::CutOff(at), Harm::Flipped(at)]);
        let often = trials.either(50, 2000);
        let mut readable = Readable::default();
        for (number, harm) in chosen.enumerate() {
            let name = format!("{store}{}, {harm:?}", if in_log { " (log)" } else { "" });
            trials.trial(&name, || {
                let harmed = harm.apply(&target.whole);
                std::fs::write(&target.path, &harmed).unwrap();
                let found = require_honest(&target.yard, &target.records);
                if let Harm::Flipped(_) = harm {
                    readable.note(found, target.records.len());
                }
                if number % often == 0 {
                    require_untouched(&target, &harmed);
                    require_repaired(&target.yard, &target.records);
                }
                target.files.put_back(&target.yard);
                1
            });
        }
        trials.trial(&format!("{store}, what one changed byte leaves readable"), || {
            readable.require_most();
            0
        });
        target.bystanders.require_untouched(&target.yard);
    }
}

/// How much could be read of stores in which one byte had changed.
#[derive(Default)]
struct Readable {
    stores: usize,
    records: usize,
    wanted: usize,
}

impl Readable {
    fn note(&mut self, found: usize, wanted: usize) {
        self.stores += 1;
        self.records += found;
        self.wanted += wanted;
    }

    /// One byte is in one record; where it is in what holds them together, more may go, but not so often.
    fn require_most(&self) {
        let Readable { stores, records, wanted } = self;
        assert!(
            *stores > 0 && records * 10 >= wanted * 8,
            "{records} of {wanted} records in {stores} stores"
        );
    }
}

/// A store, and the file of it that is harmed.
struct Target {
    yard: Yard,
    bystanders: Bystanders,
    records: Records,
    files: Files,
    path: PathBuf,
    whole: Vec<u8>,
}

impl Target {
    /// With `in_log`, half of the records are only in SQLite's log: whoever wrote them was killed.
    fn make(store: &'static str, in_log: bool) -> Target {
        let memory = Path::new("/dev/shm");
        let yard = if memory.is_dir() { Yard::inside(memory, store) } else { Yard::on(store) };
        let bystanders = Bystanders::plant(&yard);
        let early = if in_log { RECORDS / 2 } else { RECORDS };
        insert_records(&yard, (0..early).map(finished).collect());
        let writer = open_yard(&yard);
        // In two commits, so that one can be whole and the other not.
        for half in [early..(early + RECORDS) / 2, (early + RECORDS) / 2..RECORDS] {
            let batch = half.map(finished).fold(Batch::new(), Batch::insert);
            block_on(writer.commit(batch)).unwrap();
        }
        let files = Files::of(&yard);
        drop(writer);
        files.put_back(&yard);
        let path = if in_log { yard.state_dir().join("sessions.db-wal") } else { yard.store_path() };
        let whole = std::fs::read(&path).unwrap();
        assert!(!whole.is_empty(), "there is nothing in {}", path.display());
        let records = load(&yard);
        assert_eq!(records.len(), RECORDS + 1);
        files.put_back(&yard);
        Target { yard, bystanders, records, files, path, whole }
    }
}

impl Harm {
    fn apply(self, whole: &[u8]) -> Vec<u8> {
        match self {
            Harm::CutOff(at) => whole[..at].to_vec(),
            Harm::Flipped(at) => {
                let mut bytes = whole.to_vec();
                bytes[at] ^= 0x20;
                bytes
            }
        }
    }
}

type Records = BTreeMap<SessionId, Session>;

fn load(yard: &Yard) -> Records {
    let listing = block_on(open(&yard.store_url(), Access::Read).unwrap().list(&Query::all())).unwrap();
    listing.sessions.into_iter().map(|session| (session.id.clone(), session)).collect()
}

/// Whatever is read is as it was written; where something is missing, that was said. Says how much was read.
fn require_honest(yard: &Yard, whole: &Records) -> usize {
    // One that cannot be opened or listed at all says why: that is a way to be honest.
    let Ok(store) = open(&yard.store_url(), Access::Read) else { return 0 };
    let Ok(listing) = block_on(store.list(&Query::all())) else { return 0 };
    require_true(&listing.sessions, whole);
    let said = !listing.damage.is_empty() || !store.damage().is_empty();
    let missing = whole.len() - listing.sessions.len();
    assert!(missing == 0 || said, "{missing} records are missing, and nothing says so");
    listing.sessions.len()
}

fn require_true(sessions: &[Session], whole: &Records) {
    for session in sessions {
        assert_eq!(whole.get(&session.id), Some(session), "a record was read that was never written");
    }
}

/// Commands that would write refuse, and the damaged file stays as it is.
fn require_untouched(target: &Target, harmed: &[u8]) {
    let ran = target.yard.sexton(&["ps", "-a", "--json"]);
    assert!([0, 5].contains(&ran.code), "ps exits {}: {}", ran.code, ran.stderr);
    if ran.code == 5 {
        let written = target.yard.sexton(&["prune", "--ttl", "1d"]);
        assert_eq!(written.code, 5, "{}", written.stderr);
        assert!(std::fs::read(&target.path).unwrap() == harmed, "a damaged store was overwritten");
    }
}

/// A repair keeps what can be read and makes the store writable.
fn require_repaired(yard: &Yard, whole: &Records) {
    let readable = yard.sexton(&["ps", "-a", "--json"]).stdout;
    let before = serde_json::from_str::<Vec<serde_json::Value>>(&readable).map_or(0, |records| records.len());
    let ran = yard.sexton(&["doctor", "--repair"]);
    assert!(ran.code == 0 || ran.stderr.contains("newer"), "doctor exits {}: {}", ran.code, ran.stderr);
    if ran.code == 0 {
        assert_eq!(yard.sexton(&["ps", "-a"]).code, 0);
        let kept = load(yard).into_values().collect::<Vec<_>>();
        require_true(&kept, whole);
        assert!(kept.len() >= before, "{before} records could be read, and a repair kept {}", kept.len());
    }
}

/// The files of a state directory, as they were.
struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    fn of(yard: &Yard) -> Files {
        // SQLite's shared memory is made anew by whoever comes first.
        let kept = paths(yard).into_iter().filter(|path| !path.to_string_lossy().ends_with("-shm"));
        Files(kept.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect())
    }

    /// Puts them back, and removes what came since.
    fn put_back(&self, yard: &Yard) {
        for path in paths(yard).into_iter().filter(|path| !self.0.contains_key(path)) {
            std::fs::remove_file(path).unwrap();
        }
        for (path, bytes) in &self.0 {
            std::fs::write(path, bytes).unwrap();
        }
    }
}

fn paths(yard: &Yard) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(yard.state_dir()).unwrap().map(Result::unwrap);
    entries.filter(|entry| entry.file_type().unwrap().is_file()).map(|entry| entry.path()).collect()
}
