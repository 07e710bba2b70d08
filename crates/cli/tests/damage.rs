//! A damaged store, a newer store, a file that is no store: a clear message, the right exit code, and not one byte
//! changed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use support::{Bystander, TestEnv};

/// Returns every file below `dir` with its content, except SQLite's shared memory, which holds no data.
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

fn test_env_with_three(store: &'static str) -> TestEnv {
    let test_env = TestEnv::on(store);
    for name in ["one", "two", "three"] {
        let mut agent = Bystander::start();
        test_env.ok(&["register", "--pid", &agent.pid(), "--name", name]);
        agent.end();
        test_env.ok(&["finish", name, "--code", "0"]);
    }
    test_env
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
fn i6_a_damaged_journal_stays_readable_is_not_written_and_can_be_repaired() {
    let test_env = test_env_with_three("json");
    flip_in_last_line(&test_env.store_path());
    let before = bytes_below(&test_env.state_dir());
    let listed = test_env.sexton(&["ps", "-a"]);
    assert_eq!(listed.code, 5);
    assert!(listed.stdout.contains("one") && listed.stdout.contains("two"), "{}", listed.stdout);
    assert!(listed.stderr.contains("warning:") && listed.stderr.contains("hint:"), "{}", listed.stderr);
    let agent = Bystander::start();
    let refused = test_env.sexton(&["register", "--pid", &agent.pid()]);
    assert_eq!(refused.code, 5);
    assert!(refused.stderr.contains("doctor --repair"), "{}", refused.stderr);
    assert_eq!(test_env.sexton(&["doctor"]).code, 5);
    assert_eq!(bytes_below(&test_env.state_dir()), before, "something was written");
    let repaired = test_env.sexton(&["doctor", "--repair"]);
    assert_eq!(repaired.code, 0, "{}{}", repaired.stdout, repaired.stderr);
    test_env.ok(&["register", "--pid", &agent.pid()]);
    assert!(test_env.ok(&["ps", "-a"]).contains("two"));
}

#[test]
fn i6_an_emptied_store_is_reported_as_damaged_and_can_be_restored() {
    for store in ["sqlite", "json"] {
        if store == "sqlite" && !cfg!(feature = "store-sqlite")
            || store == "json" && !cfg!(feature = "store-json")
        {
            continue;
        }
        let test_env = test_env_with_three(store);
        let backup = test_env.ok(&["backup"]);
        for entry in std::fs::read_dir(test_env.state_dir()).unwrap().flatten() {
            if entry.file_name().to_string_lossy().ends_with("-wal") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        std::fs::write(test_env.store_path(), "").unwrap();
        let before = bytes_below(&test_env.state_dir());
        assert_eq!(test_env.sexton(&["ps"]).code, 5, "{store}");
        let agent = Bystander::start();
        assert_eq!(test_env.sexton(&["register", "--pid", &agent.pid()]).code, 5, "{store}");
        assert_eq!(bytes_below(&test_env.state_dir()), before, "{store}: something was written");
        test_env.ok(&["restore", &backup]);
        assert_eq!(test_env.json(&["ps", "-a"]).as_array().unwrap().len(), 3, "{store}");
    }
}

/// Rewrites the journal's header as a newer version would write it.
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
fn i6_a_store_of_a_newer_format_is_not_changed() {
    let test_env = test_env_with_three("json");
    make_newer(&test_env.store_path());
    let before = bytes_below(&test_env.state_dir());
    let agent = Bystander::start();
    let refused = test_env.sexton(&["register", "--pid", &agent.pid()]);
    assert_eq!(refused.code, 5);
    assert!(
        refused.stderr.contains("the store has format 99, newer than the supported 1"),
        "{}",
        refused.stderr
    );
    assert_eq!(test_env.sexton(&["ps"]).code, 5);
    assert_eq!(test_env.sexton(&["doctor", "--repair"]).code, 5);
    assert_eq!(bytes_below(&test_env.state_dir()), before, "something was written");
}

#[test]
fn a_file_that_is_not_a_store_is_not_overwritten() {
    let test_env = TestEnv::new();
    std::fs::create_dir(test_env.state_dir()).unwrap();
    std::os::unix::fs::symlink(test_env.state_dir(), test_env.path().join("link")).unwrap();
    std::fs::write(test_env.store_path(), "my shopping list\n").unwrap();
    let agent = Bystander::start();
    let ran = test_env.sexton(&["register", "--pid", &agent.pid()]);
    assert!(matches!(ran.code, 1 | 5), "{}: {}", ran.code, ran.stderr);
    assert_eq!(std::fs::read_to_string(test_env.store_path()).unwrap(), "my shopping list\n");
}

#[test]
fn an_unknown_store_scheme_lists_the_known_ones() {
    let test_env = TestEnv::new();
    let ran = test_env.sexton(&["ps", "--store", "cloud:x"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("there is no store backend `cloud` (linked in: "), "{}", ran.stderr);
}
