//! What is nobody's business, planted in every yard and counted after every trial: a process, a record of
//! it, a directory beside the state directory, and one in it.

use std::path::PathBuf;

use sexton_field::{Bystander, Yard, is_running};

/// What must be there afterwards as it was before.
pub(crate) struct Bystanders {
    process: Bystander,
    session: String,
    directories: [PathBuf; 2],
}

const NOTE: &str = "nobody's business\n";

impl Bystanders {
    /// Plants them.
    pub(crate) fn plant(yard: &Yard) -> Bystanders {
        let process = Bystander::start();
        let session = yard.ok(&["register", "--pid", &process.pid(), "--name", "bystander"]);
        let directories = [yard.path().join("bystander"), yard.state_dir().join("a-folder-of-its-user")];
        for directory in &directories {
            std::fs::create_dir_all(directory).unwrap();
            std::fs::write(directory.join("note"), NOTE).unwrap();
        }
        Bystanders { process, session, directories }
    }

    /// Requires that none of them was touched.
    pub(crate) fn require_untouched(&self, yard: &Yard) {
        assert!(is_running(self.process.0.id().into()), "a bystander was ended");
        assert_eq!(yard.record(&self.session)["status"], "running", "the record of a bystander was changed");
        for directory in &self.directories {
            let note = std::fs::read_to_string(directory.join("note")).unwrap_or_default();
            assert_eq!(note, NOTE, "{} was changed", directory.display());
        }
    }
}
