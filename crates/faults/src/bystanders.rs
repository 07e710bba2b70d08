//! What is nobody's business, planted in every trial's yard and counted afterwards: a process, a record of it,
//! a directory beside the state directory, and one in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pollster::block_on;
use sexton_core::store::Access;
use sexton_core::{Batch, Session, SessionId};
use sexton_field::{Bystander, Yard, is_running};

use crate::scenarios::ledger::{blank, open};

/// What must be there afterwards as it was before.
pub(crate) struct Bystanders {
    process: Bystander,
    /// The session that tells of the process.
    pub(crate) session: String,
    directories: Vec<PathBuf>,
}

const NOTE: &str = "nobody's business\n";

/// One that outlives the longest campaign, and not much more.
fn start_process() -> Bystander {
    let child = Command::new("sleep").arg("14400").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    Bystander(child.unwrap())
}

/// Leaves a note in each, which a power cut does not take.
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
    /// Plants them in a yard.
    pub(crate) fn plant(yard: &Yard) -> Bystanders {
        let process = start_process();
        let session = yard.ok(&["register", "--pid", &process.pid(), "--name", "bystander"]);
        let directories = vec![yard.path().join("bystander"), yard.state_dir().join("a-folder-of-its-user")];
        leave_notes(&directories);
        Bystanders { process, session, directories }
    }

    /// Requires that none of them was touched.
    pub(crate) fn require_untouched(&self, yard: &Yard) {
        assert!(is_running(self.process.0.id().into()), "a bystander was ended");
        assert_eq!(yard.record(&self.session)["status"], "running", "the record of a bystander was changed");
        require_notes(&self.directories);
    }
}

/// The same where there is a store and no yard around it.
pub(crate) struct Neighbours {
    process: Bystander,
    record: Session,
    directories: Vec<PathBuf>,
}

/// The record of the neighbours, which no writer writes.
pub(crate) const NEIGHBOUR: &str = "neighbour";

impl Neighbours {
    /// Plants them beside the store at `url`, which is in `directory`.
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

    /// Requires that none of them was touched.
    pub(crate) fn require_untouched(&self, url: &str) {
        assert!(is_running(self.process.0.id().into()), "a bystander was ended");
        let found = block_on(open(url, Access::Read).unwrap().load(&self.record.id)).unwrap();
        assert_eq!(found.as_ref(), Some(&self.record), "the record of a bystander was changed");
        require_notes(&self.directories);
    }
}
