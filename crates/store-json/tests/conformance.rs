//! The store conformance suite for the JSON journal.

use std::path::Path;
use std::process::ExitCode;

use sexton_core::SessionId;
use sexton_core::store::Capabilities;
use sexton_testkit::store_suite::{Subject, run};

fn main() -> ExitCode {
    run(&Subject {
        name: "json",
        open: sexton_store_json::open,
        file_name: "sessions.jsonl",
        make_newer,
        damage_one_record,
        capabilities: Capabilities::EVERYTHING,
        dress: |session| session,
        stranger: b"{\"sessions\": [], \"version\": 1}\n",
        contended_commits: 500,
    })
}

/// Sets a newer format in the header, with a matching checksum.
fn make_newer(path: &Path) {
    let text = std::fs::read_to_string(path).expect("the journal can be read");
    let (header, rest) = text.split_once('\n').expect("the journal has a header");
    let (_, content) = header.split_once(',').expect("the checksum comes first");
    let content = content.replace("\"format\":1,", "\"format\":2,");
    let crc = crc32fast::hash(content.as_bytes());
    std::fs::write(path, format!("{{\"crc\":\"{crc:08x}\",{content}\n{rest}"))
        .expect("the journal can be written");
}

/// Flips a byte in every line that puts the record of `id`.
fn damage_one_record(path: &Path, id: &SessionId) {
    let text = std::fs::read_to_string(path).expect("the journal can be read");
    let about = format!("\"put\":{{\"schema\":1,\"id\":\"{id}\",");
    let spoiled: Vec<String> =
        text.split_inclusive('\n')
            .map(|line| {
                if line.contains(&about) {
                    line.replace("\"status\":", "\"statvs\":")
                } else {
                    line.to_owned()
                }
            })
            .collect();
    assert_ne!(spoiled.concat(), text, "the record of {id} is in the journal");
    std::fs::write(path, spoiled.concat()).expect("the journal can be written");
}
