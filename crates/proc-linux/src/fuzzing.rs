//! Entry points for the fuzz target `words`. Compiled only with `--cfg fuzzing`.

use sexton_core::SessionId;

use crate::cgroup::parse_place;
use crate::cookie::find_session;
use crate::credentials::Credentials;
use crate::stat::Stat;

/// Parses `/proc/PID/stat`, and the same line of a process with these bytes as its name.
pub fn stat(bytes: &[u8]) {
    if let Some(stat) = Stat::parse(bytes) {
        let _ = (stat.cpu_time(), stat.resident_bytes(), stat.environment_length(), stat.is_zombie());
    }
    let line = |name: &[u8]| {
        let numbers =
            b") S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 2 0 812345 1000 77 9 1 2 3 4 5 0 0 0 0 0 0 0 17 0\n";
        Stat::parse(&[b"4711 (", name, numbers].concat()).expect("a valid line")
    };
    assert_eq!(line(bytes), line(b"plain"), "the name must not change the result");
}

/// Parses `/proc/PID/status`.
pub fn status(bytes: &[u8]) {
    let _ = sexton_core::probe::is_own_status(bytes, 1);
    let _ = sexton_core::membership::parse_limits(bytes);
    if let Some(credentials) = Credentials::parse(&String::from_utf8_lossy(bytes)) {
        let we = Credentials::parse("Uid: 1 1\nGid: 1 1\nGroups: 1\nCapPrm: 0\n").expect("a status");
        assert!(!we.own(&credentials) || [credentials.real_uid, credentials.effective_uid].contains(&1));
    }
}

/// Parses `/proc/PID/environ`: a cookie that is found is a valid id and occurs in the bytes.
pub fn environment(bytes: &[u8]) {
    let Some(found) = find_session(bytes) else { return };
    assert!(found.parse::<SessionId>().is_ok(), "{found:?} is not an id");
    let variable = format!("SEXTON_SESSION_ID={found}");
    assert!(bytes.split(|byte| *byte == 0).any(|one| one == variable.as_bytes()), "{found} does not occur");
}

/// Parses `/proc/self/mountinfo` and `/proc/self/cgroup`.
pub fn place(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (mounts, own) = text.split_once("\n\n").unwrap_or((&text, "0::/"));
    let _ = parse_place(mounts.as_bytes(), own);
}
