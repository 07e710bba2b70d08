//! A store of fifty records, cut off at every byte and with every byte changed: what is read is true, what is
//! missing is said, and nothing is overwritten.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pollster::block_on;
use sexton_core::store::Access;
use sexton_core::{Query, Session, SessionId};
use sexton_field::Yard;
use sexton_field::records::insert_records;

use super::deeds::finished;
use super::ledger::open;
use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "bytes",
    promises: "I6",
    what: "a store of 50 records truncated at every byte, and with every byte flipped",
    mutants: &["no_checksum", "no_mark"],
    tools: &[],
    run,
};

/// What happens to a file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    CutOff(usize),
    Flipped(usize),
}

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        let yard = Yard::on(store);
        let bystanders = Bystanders::plant(&yard);
        insert_records(&yard, (0..50).map(finished).collect());
        let whole = std::fs::read(yard.store_path()).unwrap();
        let records = load(&yard);
        assert_eq!(records.len(), 51);
        let files = Files::of(&yard);
        let harms: Vec<Harm> =
            (0..whole.len()).flat_map(|at| [Harm::CutOff(at), Harm::Flipped(at)]).collect();
        let chosen = trials.some_of(&harms, 1500);
        let often = trials.either(100, 500);
        for (number, harm) in chosen.into_iter().enumerate() {
            if trials.is_hopeless() {
                return;
            }
            trials.trial(&format!("{store}, {harm:?}"), || {
                let harmed = harm.apply(&whole);
                std::fs::write(yard.store_path(), &harmed).unwrap();
                require_honest(&yard, &records);
                if number % often == 0 {
                    require_untouched(&yard, &harmed);
                    require_repaired(&yard, &records);
                }
                files.put_back(&yard);
                1
            });
        }
        bystanders.require_untouched(&yard);
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

/// Whatever is read is as it was written; where something is missing, that was said.
fn require_honest(yard: &Yard, whole: &Records) {
    // One that cannot be opened or listed at all says why: that is a way to be honest.
    let Ok(store) = open(&yard.store_url(), Access::Read) else { return };
    let Ok(listing) = block_on(store.list(&Query::all())) else { return };
    require_true(&listing.sessions, whole);
    let said = !listing.damage.is_empty() || !store.damage().is_empty();
    let missing = whole.len() - listing.sessions.len();
    assert!(missing == 0 || said, "{missing} records are missing, and nothing says so");
}

fn require_true(sessions: &[Session], whole: &Records) {
    for session in sessions {
        assert_eq!(whole.get(&session.id), Some(session), "a record was read that was never written");
    }
}

/// Commands that would write refuse, and the damaged file stays as it is.
fn require_untouched(yard: &Yard, harmed: &[u8]) {
    let ran = yard.sexton(&["ps", "-a", "--json"]);
    assert!([0, 5].contains(&ran.code), "ps exits {}: {}", ran.code, ran.stderr);
    if ran.code == 5 {
        let written = yard.sexton(&["prune", "--ttl", "1d"]);
        assert_eq!(written.code, 5, "{}", written.stderr);
        assert!(std::fs::read(yard.store_path()).unwrap() == harmed, "a damaged store was overwritten");
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
        Files(paths(yard).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect())
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
