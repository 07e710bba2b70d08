//! Objects that no trial may change, created in every test environment and checked afterwards: a process, its
//! record, a directory beside the state directory, and one in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pollster::block_on;
use serde_json::Value;
use sexton_core::store::Access;
use sexton_core::{Batch, Session, SessionId};
use sexton_test_harness::{Bystander, TestEnv, is_running};

use crate::scenarios::ledger::{blank, open};

/// Objects that a trial must leave unchanged.
pub(crate) struct Bystanders {
    process: Bystander,
    /// The session that records the process.
    pub(crate) session: String,
    directories: Vec<PathBuf>,
}

const NOTE: &str = "do not touch\n";

/// Starts a process that outlives the longest campaign.
fn start_process() -> Bystander {
    let child = Command::new("sleep").arg("14400").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    Bystander(child.unwrap())
}

/// Writes a note into each directory, and syncs it so that it survives a power cut.
fn leave_notes(directories: &[PathBuf]) {
    for directory in directories {
        std::fs::create_dir_all(directory).unwrap();
        let note = directory.join("note");
        std::fs::write(&note, NOTE).unwrap();
        for path in [&note, directory, directory.parent().unwrap()] {
            std::fs::File::open(path).unwrap().sync_all().unwrap();
        }
    }
}

fn require_notes(directories: &[PathBuf]) {
    for directory in directories {
        let note = std::fs::read_to_string(directory.join("note")).unwrap_or_default();
        assert_eq!(note, NOTE, "{} was changed", directory.display());
    }
}

impl Bystanders {
    /// Creates them in a test environment.
    pub(crate) fn plant(test_env: &TestEnv) -> Bystanders {
        let process = start_process();
        let session = test_env.ok(&["register", "--pid", &process.pid(), "--name", "bystander"]);
        let directories =
            vec![test_env.path().join("bystander"), test_env.state_dir().join("a-folder-of-its-user")];
        leave_notes(&directories);
        Bystanders { process, session, directories }
    }

    /// Requires that none of them was changed.
    pub(crate) fn require_untouched(&self, test_env: &TestEnv) {
        self.require_untouched_as(&test_env.record(&self.session));
    }

    /// Like `require_untouched`, with the record of the process as another program read it.
    pub(crate) fn require_untouched_as(&self, record: &Value) {
        assert!(is_running(self.process.0.id().into()), "a bystander was ended");
        assert_eq!(record["status"], "running", "the record of a bystander was changed");
        require_notes(&self.directories);
    }
}

/// The bystanders of a store without a test environment.
pub(crate) struct Neighbours {
    process: Bystander,
    record: Session,
    directories: Vec<PathBuf>,
}

/// The id of the neighbours' record, which no writer changes.
pub(crate) const NEIGHBOUR: &str = "neighbour";

impl Neighbours {
    /// Creates them beside the store at `url`, which is in `directory`.
    pub(crate) fn plant(directory: &Path, url: &str) -> Neighbours {
        let process = start_process();
        let id: SessionId = NEIGHBOUR.parse().unwrap();
        let mut record = blank(&id);
        record.ticket = Some(process.pid());
        let store = open(url, Access::Write).unwrap();
        block_on(store.commit(Batch::new().insert(record))).unwrap();
        let record = block_on(store.load(&id)).unwrap().unwrap();
        let directories = vec![directory.join("a-folder-of-its-user")];
        leave_notes(&directories);
        Neighbours { process, record, directories }
    }

    /// Requires that none of them was changed.
    pub(crate) fn require_untouched(&self, url: &str) {
        assert!(is_running(self.process.0.id().into()), "a bystander was ended");
        let found = block_on(open(url, Access::Read).unwrap().load(&self.record.id)).unwrap();
        assert_eq!(found.as_ref(), Some(&self.record), "the record of a bystander was changed");
        require_notes(&self.directories);
    }
}
