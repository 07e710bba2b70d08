//! Process identity. A pid can be reused by a later process; an identity is evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::OsText;

/// Evidence that identifies a process, taken at one moment by one probe.
///
/// What a probe cannot determine is `None`. `exe` is for display and is never compared: at the gate it is still
/// Sexton's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessIdentity {
    /// The pid.
    pub pid: u32,
    /// The id of the boot it belongs to.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The inode of its pidfd: unique within a boot if the kernel has pidfs (Linux 6.9).
    #[serde(default)]
    pub pidfd_inode: Option<u64>,
    /// When it started, in clock ticks since boot, in the time namespace of the reader.
    #[serde(default)]
    pub start_ticks: Option<u64>,
    /// When it started, in microseconds since 1970, on platforms without a better source.
    #[serde(default)]
    pub start_time_us: Option<u64>,
    /// The pid namespace of the process that took this identity.
    #[serde(default)]
    pub pid_namespace: Option<u64>,
    /// The time namespace of the process that took this identity.
    #[serde(default)]
    pub time_namespace: Option<u64>,
    /// The program that it executed at that time.
    #[serde(default)]
    pub exe: Option<OsText>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The present state of a recorded process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It runs, and it is the recorded process.
    Alive,
    /// It is gone. A zombie counts as gone: it will never act again.
    Gone,
    /// Its pid now belongs to another process.
    Reused,
    /// The state is unknown, for this reason. Never a reason to kill or to clean up.
    Unknown(String),
}

/// The result of comparing a recorded identity with one taken now of the same pid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// The same process.
    Same,
    /// Another process.
    Different,
    /// The evidence is not sufficient, for this reason.
    CannotTell(String),
}

impl ProcessIdentity {
    /// Creates an identity with only a pid. A probe adds what it can determine.
    pub fn of_pid(pid: u32) -> ProcessIdentity {
        ProcessIdentity {
            pid,
            boot_id: None,
            pidfd_inode: None,
            start_ticks: None,
            start_time_us: None,
            pid_namespace: None,
            time_namespace: None,
            exe: None,
            extra: Map::new(),
        }
    }

    /// Checks that both identities were taken in the same namespaces: only then are their numbers comparable.
    pub fn same_identity_scope(&self, here: &ProcessIdentity) -> Result<(), String> {
        if sexton_mutant::is("no_namespace_check") {
            return Ok(());
        }
        let other = |recorded: Option<u64>, current: Option<u64>| match (recorded, current) {
            (Some(recorded), Some(current)) => recorded != current,
            (None, None) => false,
            // Only one of the two namespaces could be read, so they are not comparable.
            _ => true,
        };
        if other(self.pid_namespace, here.pid_namespace) {
            return Err("it was recorded in another pid namespace".to_owned());
        }
        if other(self.time_namespace, here.time_namespace) {
            return Err("it was recorded in another time namespace".to_owned());
        }
        Ok(())
    }

    /// Compares a recorded identity with `current`, taken now of the process that has its pid.
    ///
    /// The inode decides if both have one: after a fast reuse, pid and start ticks can both be equal. Start
    /// ticks decide if neither has an inode. A start time in microseconds is weak: only an exact match counts,
    /// and a difference proves nothing, because such clocks are corrected while they run.
    pub fn compare(&self, current: &ProcessIdentity) -> Match {
        if self.pid != current.pid {
            return Match::Different;
        }
        if sexton_mutant::is("no_identity_check") {
            return Match::Same;
        }
        match (&self.boot_id, &current.boot_id) {
            (Some(recorded), Some(now)) if recorded != now && !sexton_mutant::is("no_boot_check") => {
                return Match::Different;
            }
            (Some(_), Some(_)) | (None, None) => {}
            _ => return Match::CannotTell("only one of the two identities has a boot id".to_owned()),
        }
        if let Err(why) = self.same_identity_scope(current) {
            return Match::CannotTell(why);
        }
        let same = |equal| if equal { Match::Same } else { Match::Different };
        match (self.pidfd_inode, current.pidfd_inode) {
            (Some(recorded), Some(now)) => return same(recorded == now),
            (None, None) => {}
            _ if self.start_ticks.is_some() && current.start_ticks.is_some() => {
                // Different ticks still prove another process; equal ones do not prove the same one.
                if self.start_ticks != current.start_ticks {
                    return Match::Different;
                }
                return Match::CannotTell("only one of the two identities has a pidfd inode".to_owned());
            }
            _ => return Match::CannotTell("only one of the two identities has a pidfd inode".to_owned()),
        }
        match (self.start_ticks, current.start_ticks) {
            (Some(recorded), Some(now)) => return same(recorded == now),
            (None, None) => {}
            _ => return Match::CannotTell("only one of the two identities has start ticks".to_owned()),
        }
        match (self.start_time_us, current.start_time_us) {
            (Some(recorded), Some(now)) if recorded == now => Match::Same,
            (Some(_), Some(_)) => Match::CannotTell("its start time does not match exactly".to_owned()),
            _ => Match::CannotTell("only the pid was recorded".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linux() -> ProcessIdentity {
        ProcessIdentity {
            boot_id: Some("boot".into()),
            pidfd_inode: Some(900),
            start_ticks: Some(70),
            pid_namespace: Some(1),
            time_namespace: Some(2),
            ..ProcessIdentity::of_pid(42)
        }
    }

    #[test]
    fn same_evidence_matches_whatever_program_runs_now() {
        let now = ProcessIdentity { exe: Some("/bin/other".into()), ..linux() };
        assert_eq!(linux().compare(&now), Match::Same);
    }

    #[test]
    fn i2_inode_detects_pid_reuse_within_one_tick() {
        let now = ProcessIdentity { pidfd_inode: Some(901), ..linux() };
        assert_eq!(linux().compare(&now), Match::Different);
    }

    #[test]
    fn ticks_decide_without_inodes() {
        let recorded = ProcessIdentity { pidfd_inode: None, ..linux() };
        assert_eq!(recorded.compare(&recorded.clone()), Match::Same);
        let now = ProcessIdentity { start_ticks: Some(71), ..recorded.clone() };
        assert_eq!(recorded.compare(&now), Match::Different);
    }

    #[test]
    fn i2_equal_ticks_do_not_replace_a_missing_inode() {
        let now = ProcessIdentity { pidfd_inode: None, ..linux() };
        assert!(matches!(linux().compare(&now), Match::CannotTell(_)));
        let now = ProcessIdentity { pidfd_inode: None, start_ticks: Some(71), ..linux() };
        assert_eq!(linux().compare(&now), Match::Different);
    }

    #[test]
    fn different_boot_means_different_process() {
        let now = ProcessIdentity { boot_id: Some("later".into()), ..linux() };
        assert_eq!(linux().compare(&now), Match::Different);
    }

    #[test]
    fn i2_identity_from_another_namespace_is_unknown() {
        for now in [
            ProcessIdentity { pid_namespace: Some(9), ..linux() },
            ProcessIdentity { time_namespace: Some(9), ..linux() },
            ProcessIdentity { pid_namespace: None, ..linux() },
        ] {
            assert!(matches!(linux().compare(&now), Match::CannotTell(_)), "{now:?}");
        }
    }

    #[test]
    fn weak_evidence_counts_only_on_exact_match() {
        let recorded = ProcessIdentity { start_time_us: Some(5_000_000), ..ProcessIdentity::of_pid(42) };
        assert_eq!(recorded.compare(&recorded.clone()), Match::Same);
        let now = ProcessIdentity { start_time_us: Some(6_000_000), ..recorded.clone() };
        assert!(matches!(recorded.compare(&now), Match::CannotTell(_)));
        assert!(matches!(
            ProcessIdentity::of_pid(42).compare(&ProcessIdentity::of_pid(42)),
            Match::CannotTell(_)
        ));
    }
}
