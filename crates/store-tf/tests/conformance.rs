//! The store conformance suite for a dispatch-sessions.json.

use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use sexton_core::{Host, ProcessIdentity, Session, SessionId, Status};
use sexton_store_tf::CAPABILITIES;
use sexton_testkit::store_suite::{Subject, run};

fn main() -> ExitCode {
    run(&Subject {
        name: "tf",
        open: sexton_store_tf::open,
        file_name: "dispatch-sessions.json",
        make_newer,
        damage_one_record,
        capabilities: CAPABILITIES,
        dress,
        stranger: b"{\"version\": 1, \"sessions\": {\"a\": {\"status\": \"running\"}}}\n",
        contended_commits: 30,
    })
}

/// Gives a running session a process and no host: the file belongs to the machine it is on.
fn dress(session: Session) -> Session {
    let status = match session.status {
        Status::Starting => Status::Running,
        Status::Transferred => Status::Completed,
        other => other,
    };
    let finished_at = session.finished_at.filter(|_| status.is_finished());
    let process = session.process.or_else(|| Some(ProcessIdentity::of_pid(4711)));
    Session { status, finished_at, process, host: Host::unnamed(), ..session }
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let text = std::fs::read_to_string(path).expect("the file can be read");
    let mut document = serde_json::from_str(&text).expect("the file is JSON");
    change(&mut document);
    std::fs::write(path, document.to_string()).expect("the file can be written");
}

/// Sets a newer version.
fn make_newer(path: &Path) {
    edit(path, |document| document["version"] = json!(2));
}

/// Gives the record's entry an unknown status.
fn damage_one_record(path: &Path, id: &SessionId) {
    edit(path, |document| {
        let entries = document["sessions"].as_array_mut().expect("there are sessions");
        let entry = entries.iter_mut().find(|entry| entry["session_id"] == id.as_str());
        entry.expect("the record is in the file")["status"] = json!("runing");
    });
}
