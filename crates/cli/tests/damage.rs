//! A damaged store, a newer one, a full disk, a read-only directory: clear words, the right exit code, and
//! not one byte changed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use support::{Bystander, Yard};

/// Every file below `dir`, but SQLite's shared memory, which holds nothing.
fn bytes_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(bytes_below(&path));
        } else if !path.to_string_lossy().ends_with("-shm") {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    files
}

fn yard_with_three(store: &'static str) -> Yard {
    let yard = Yard::on(store);
    for name in ["one", "two", "three"] {
        let mut agent = Bystander::start();
        yard.ok(&["register", "--pid", &agent.pid(), "--name", name]);
        agent.end();
        yard.ok(&["finish", name, "--code", "0"]);
    }
    yard
}

#[cfg(feature = "store-json")]
fn flip_in_last_line(journal: &Path) {
    let mut bytes = std::fs::read(journal).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    std::fs::write(journal, bytes).unwrap();
}

#[test]
#[cfg(feature = "store-json")]
fn i6_a_damaged_journal_is_read_around_never_written_and_mended_on_request() {
    let yard = yard_with_three("json");
    flip_in_last_line(&yard.store_path());
    let before = bytes_below(&yard.state_dir());
    let listed = yard.sexton(&["ps", "-a"]);
    assert_eq!(listed.code, 5);
    assert!(listed.stdout.contains("one") && listed.stdout.contains("two"), "{}", listed.stdout);
    assert!(listed.stderr.contains("warning:") && listed.stderr.contains("hint:"), "{}", listed.stderr);
    let agent = Bystander::start();
    let refused = yard.sexton(&["register", "--pid", &agent.pid()]);
    assert_eq!(refused.code, 5);
    assert!(refused.stderr.contains("doctor --repair"), "{}", refused.stderr);
    assert_eq!(yard.sexton(&["doctor"]).code, 5);
    assert_eq!(bytes_below(&yard.state_dir()), before, "something was written");
    let repaired = yard.sexton(&["doctor", "--repair"]);
    assert_eq!(repaired.code, 0, "{}{}", repaired.stdout, repaired.stderr);
    yard.ok(&["register", "--pid", &agent.pid()]);
    assert!(yard.ok(&["ps", "-a"]).contains("two"));
}

#[test]
fn i6_an_emptied_store_is_not_taken_for_a_new_one_and_a_backup_brings_it_back() {
    for store in ["sqlite", "json"] {
        if store == "sqlite" && !cfg!(feature = "store-sqlite")
            || store == "json" && !cfg!(feature = "store-json")
        {
            continue;
        }
        let yard = yard_with_three(store);
        let backup = yard.ok(&["backup"]);
        for entry in std::fs::read_dir(yard.state_dir()).unwrap().flatten() {
            if entry.file_name().to_string_lossy().ends_with("-wal") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        std::fs::write(yard.store_path(), "").unwrap();
        let before = bytes_below(&yard.state_dir());
        assert_eq!(yard.sexton(&["ps"]).code, 5, "{store}");
        let agent = Bystander::start();
        assert_eq!(yard.sexton(&["register", "--pid", &agent.pid()]).code, 5, "{store}");
        assert_eq!(bytes_below(&yard.state_dir()), before, "{store}: something was written");
        yard.ok(&["restore", &backup]);
        assert_eq!(yard.json(&["ps", "-a"]).as_array().unwrap().len(), 3, "{store}");
    }
}

/// Rewrites the journal's header as a newer version would have written it.
#[cfg(feature = "store-json")]
fn make_newer(journal: &Path) {
    let text = std::fs::read_to_string(journal).unwrap();
    let (header, records) = text.split_once('\n').unwrap();
    let (_, sealed) = header.split_once(',').unwrap();
    let newer = sealed.replace("\"format\":1", "\"format\":99");
    assert_ne!(sealed, newer, "the header has no format: {header}");
    let checksum = crc32fast::hash(newer.as_bytes());
    std::fs::write(journal, format!("{{\"crc\":\"{checksum:08x}\",{newer}\n{records}")).unwrap();
}

#[test]
#[cfg(feature = "store-json")]
fn i6_a_store_of_a_newer_format_is_left_as_it_is() {
    let yard = yard_with_three("json");
    make_newer(&yard.store_path());
    let before = bytes_below(&yard.state_dir());
    let agent = Bystander::start();
    let refused = yard.sexton(&["register", "--pid", &agent.pid()]);
    assert_eq!(refused.code, 5);
    assert!(
        refused.stderr.contains("the store has format 99, newer than the supported 1"),
        "{}",
        refused.stderr
    );
    assert_eq!(yard.sexton(&["ps"]).code, 5);
    assert_eq!(yard.sexton(&["doctor", "--repair"]).code, 5);
    assert_eq!(bytes_below(&yard.state_dir()), before, "something was written");
}

#[test]
fn a_file_that_is_no_store_is_not_overwritten() {
    let yard = Yard::new();
    std::fs::create_dir(yard.state_dir()).unwrap();
    std::os::unix::fs::symlink(yard.state_dir(), yard.path().join("link")).unwrap();
    std::fs::write(yard.store_path(), "my shopping list\n").unwrap();
    let agent = Bystander::start();
    let ran = yard.sexton(&["register", "--pid", &agent.pid()]);
    assert!(matches!(ran.code, 1 | 5), "{}: {}", ran.code, ran.stderr);
    assert_eq!(std::fs::read_to_string(yard.store_path()).unwrap(), "my shopping list\n");
}

#[test]
fn an_unknown_store_scheme_lists_the_known_ones() {
    let yard = Yard::new();
    let ran = yard.sexton(&["ps", "--store", "cloud:x"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("there is no store backend `cloud` (linked in: "), "{}", ran.stderr);
}
