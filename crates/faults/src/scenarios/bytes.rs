//! A store of fifty records, truncated at every byte and with every byte changed: records that are read are
//! correct, missing ones are reported, unaffected ones stay readable, and nothing is overwritten.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::store::Access;
use sexton_core::{Batch, Query, Session, SessionId};
use sexton_test_harness::TestEnv;
use sexton_test_harness::records::{insert_records, open as open_store};

use super::ledger::open;
use super::operations::finished;
use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "bytes",
    promises: "I6",
    what: "stores of 50 records, and SQLite's log, truncated at every byte and with every byte flipped",
    mutants: &["no_checksum", "no_mark", "reset_damaged"],
    tools: &[],
    minutes: 14,
    runs_alone: false,
    run,
};

/// A change of a file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    CutOff(usize),
    Flipped(usize),
}

/// The number of records in every store of this scenario, besides the bystander's.
const RECORDS: usize = 50;

fn run(trials: &mut Trials) {
    for (store, in_log) in [("sqlite", false), ("sqlite", true), ("json", false)] {
        if trials.has_enough_violations() {
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
                let found = require_honest(&target.test_env, &target.records);
                if let Harm::Flipped(_) = harm {
                    readable.note(found, target.records.len());
                }
                if number % often == 0 {
                    require_untouched(&target, &harmed);
                    require_repaired(&target.test_env, &target.records);
                }
                target.files.put_back(&target.test_env);
                1
            });
        }
        trials.trial(&format!("{store}, what one changed byte leaves readable"), || {
            readable.require_most();
            0
        });
        target.bystanders.require_untouched(&target.test_env);
    }
}

/// How many records could be read from stores in which one byte was changed.
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

    /// One byte is usually in one record. A byte in the structure that connects the records may cost more of
    /// them, but that is rare.
    fn require_most(&self) {
        let Readable { stores, records, wanted } = self;
        assert!(
            *stores > 0 && records * 10 >= wanted * 8,
            "{records} of {wanted} records in {stores} stores"
        );
    }
}

/// A store, and the file of it that is damaged.
struct Target {
    test_env: TestEnv,
    bystanders: Bystanders,
    records: Records,
    files: Files,
    path: PathBuf,
    whole: Vec<u8>,
}

impl Target {
    /// With `in_log`, half of the records are only in SQLite's log, as after a writer was killed.
    fn make(store: &'static str, in_log: bool) -> Target {
        let memory = Path::new("/dev/shm");
        let test_env = if memory.is_dir() { TestEnv::inside(memory, store) } else { TestEnv::on(store) };
        let bystanders = Bystanders::plant(&test_env);
        let early = if in_log { RECORDS / 2 } else { RECORDS };
        insert_records(&test_env, (0..early).map(finished).collect());
        let writer = open_store(&test_env);
        // In two commits, so that one can be intact and the other not.
        for half in [early..(early + RECORDS) / 2, (early + RECORDS) / 2..RECORDS] {
            let batch = half.map(finished).fold(Batch::new(), Batch::insert);
            block_on(writer.commit(batch)).unwrap();
        }
        let files = Files::of(&test_env);
        drop(writer);
        files.put_back(&test_env);
        let path = if in_log { test_env.state_dir().join("sessions.db-wal") } else { test_env.store_path() };
        let whole = std::fs::read(&path).unwrap();
        assert!(!whole.is_empty(), "there is nothing in {}", path.display());
        let records = load(&test_env);
        assert_eq!(records.len(), RECORDS + 1);
        files.put_back(&test_env);
        Target { test_env, bystanders, records, files, path, whole }
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

fn load(test_env: &TestEnv) -> Records {
    let listing = block_on(open(&test_env.store_url(), Access::Read).unwrap().list(&Query::all())).unwrap();
    listing.sessions.into_iter().map(|session| (session.id.clone(), session)).collect()
}

/// Requires that every record that is read is as it was written, and that missing ones are reported. Returns
/// how many were read.
fn require_honest(test_env: &TestEnv, whole: &Records) -> usize {
    // A store that cannot be opened or listed at all returns an error, which counts as a report.
    let Ok(store) = open(&test_env.store_url(), Access::Read) else { return 0 };
    let Ok(listing) = block_on(store.list(&Query::all())) else { return 0 };
    require_true(&listing.sessions, whole);
    let reported = !listing.damage.is_empty() || !store.damage().is_empty();
    let missing = whole.len() - listing.sessions.len();
    assert!(missing == 0 || reported, "{missing} records are missing and not reported");
    listing.sessions.len()
}

fn require_true(sessions: &[Session], whole: &Records) {
    for session in sessions {
        assert_eq!(whole.get(&session.id), Some(session), "a record was read that was never written");
    }
}

/// Requires that commands that would write fail, and that the damaged file does not change.
fn require_untouched(target: &Target, harmed: &[u8]) {
    let ran = target.test_env.sexton(&["ps", "-a", "--json"]);
    assert!([0, 5].contains(&ran.code), "ps exits {}: {}", ran.code, ran.stderr);
    if ran.code == 5 {
        let written = target.test_env.sexton(&["prune", "--ttl", "1d"]);
        assert_eq!(written.code, 5, "{}", written.stderr);
        assert!(std::fs::read(&target.path).unwrap() == harmed, "a damaged store was overwritten");
    }
}

/// Requires that a repair keeps what can be read and makes the store writable.
fn require_repaired(test_env: &TestEnv, whole: &Records) {
    let readable = test_env.sexton(&["ps", "-a", "--json"]).stdout;
    let before = serde_json::from_str::<Vec<serde_json::Value>>(&readable).map_or(0, |records| records.len());
    let ran = test_env.sexton(&["doctor", "--repair"]);
    assert!(ran.code == 0 || ran.stderr.contains("newer"), "doctor exits {}: {}", ran.code, ran.stderr);
    if ran.code == 0 {
        assert_eq!(test_env.sexton(&["ps", "-a"]).code, 0);
        let kept = load(test_env).into_values().collect::<Vec<_>>();
        require_true(&kept, whole);
        assert!(kept.len() >= before, "{before} records could be read, and a repair kept {}", kept.len());
    }
}

/// The files of a state directory, as they were.
struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    fn of(test_env: &TestEnv) -> Files {
        // SQLite's shared memory is created again by the first process that opens the store.
        let kept = paths(test_env).into_iter().filter(|path| !path.to_string_lossy().ends_with("-shm"));
        Files(kept.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect())
    }

    /// Restores them, and removes files that were created since.
    fn put_back(&self, test_env: &TestEnv) {
        for path in paths(test_env).into_iter().filter(|path| !self.0.contains_key(path)) {
            std::fs::remove_file(path).unwrap();
        }
        for (path, bytes) in &self.0 {
            std::fs::write(path, bytes).unwrap();
        }
    }
}

fn paths(test_env: &TestEnv) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(test_env.state_dir()).unwrap().map(Result::unwrap);
    entries.filter(|entry| entry.file_type().unwrap().is_file()).map(|entry| entry.path()).collect()
}
