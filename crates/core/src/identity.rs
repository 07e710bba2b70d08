//! Who a process is. A pid is a number that the next process may get; an identity is evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::OsText;

/// Evidence of which process was meant, taken at one moment by one probe.
///
/// What a probe cannot know is `None`. `exe` is for people and is never compared: at the gate it is
/// still Sexton's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: u32,
    /// The boot it belongs to.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The inode of its pidfd: unique for a boot, where the kernel has pidfs (Linux 6.9).
    #[serde(default)]
    pub pidfd_inode: Option<u64>,
    /// When it started, in clock ticks since boot, as the reader's time namespace counts.
    #[serde(default)]
    pub start_ticks: Option<u64>,
    /// When it started, in microseconds since 1970, on platforms that have nothing better.
    #[serde(default)]
    pub start_time_us: Option<u64>,
    /// The pid namespace of whoever took this identity.
    #[serde(default)]
    pub pid_namespace: Option<u64>,
    /// The time namespace of whoever took this identity.
    #[serde(default)]
    pub time_namespace: Option<u64>,
    /// The program it executed then.
    #[serde(default)]
    pub exe: Option<OsText>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What a probe can say of a recorded process now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It runs, and it is the one that was recorded.
    Alive,
    /// It is gone. A zombie is gone: it will never act again.
    Gone,
    /// Its pid now belongs to another process.
    Reused,
    /// Nobody can tell, and why. Never a reason to kill, nor to clean up.
    Unknown(String),
}

/// How a recorded identity compares with one taken now of the same pid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// The same process.
    Same,
    /// Another process.
    Different,
    /// The evidence does not say.
    CannotTell(String),
}

impl ProcessIdentity {
    /// An identity that knows nothing but the number. A probe adds what it can see.
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

    /// Whether `self` was taken from where `here` was: only then do their numbers mean the same things.
    pub fn same_vantage(&self, here: &ProcessIdentity) -> Result<(), String> {
        if sexton_mutant::is("no_namespace_check") {
            return Ok(());
        }
        let other = |recorded: Option<u64>, current: Option<u64>| match (recorded, current) {
            (Some(recorded), Some(current)) => recorded != current,
            (None, None) => false,
            // Ours can be read and theirs was not, or the other way round: the places are not comparable.
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
    /// The inode decides where both have one: in a fast reuse pid and start ticks are both the same.
    /// Start ticks decide where there is none. A start time in microseconds is weak: only an exact match
    /// counts, and a difference says nothing, because such clocks are corrected while they run.
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
            _ => return Match::CannotTell("only one side knows its boot".to_owned()),
        }
        if let Err(why) = self.same_vantage(current) {
            return Match::CannotTell(why);
        }
        let same = |equal| if equal { Match::Same } else { Match::Different };
        match (self.pidfd_inode, current.pidfd_inode) {
            (Some(recorded), Some(now)) => return same(recorded == now),
            (None, None) => {}
            _ if self.start_ticks.is_some() && current.start_ticks.is_some() => {
                // Different ticks still prove another process; equal ones do not prove the same.
                if self.start_ticks != current.start_ticks {
                    return Match::Different;
                }
                return Match::CannotTell("only one side knows the inode of its pidfd".to_owned());
            }
            _ => return Match::CannotTell("only one side knows the inode of its pidfd".to_owned()),
        }
        match (self.start_ticks, current.start_ticks) {
            (Some(recorded), Some(now)) => return same(recorded == now),
            (None, None) => {}
            _ => return Match::CannotTell("only one side knows its start ticks".to_owned()),
        }
        match (self.start_time_us, current.start_time_us) {
            (Some(recorded), Some(now)) if recorded == now => Match::Same,
            (Some(_), Some(_)) => Match::CannotTell("its start time does not match exactly".to_owned()),
            _ => Match::CannotTell("nothing but the pid was recorded".to_owned()),
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
    fn the_same_evidence_is_the_same_process_whatever_it_executes_now() {
        let now = ProcessIdentity { exe: Some("/bin/other".into()), ..linux() };
        assert_eq!(linux().compare(&now), Match::Same);
    }

    #[test]
    fn i2_a_reuse_within_one_tick_is_seen_by_the_inode() {
        let now = ProcessIdentity { pidfd_inode: Some(901), ..linux() };
        assert_eq!(linux().compare(&now), Match::Different);
    }

    #[test]
    fn ticks_decide_where_no_kernel_gave_an_inode() {
        let recorded = ProcessIdentity { pidfd_inode: None, ..linux() };
        assert_eq!(recorded.compare(&recorded.clone()), Match::Same);
        let now = ProcessIdentity { start_ticks: Some(71), ..recorded.clone() };
        assert_eq!(recorded.compare(&now), Match::Different);
    }

    #[test]
    fn i2_equal_ticks_do_not_stand_in_for_an_inode_that_only_one_side_has() {
        let now = ProcessIdentity { pidfd_inode: None, ..linux() };
        assert!(matches!(linux().compare(&now), Match::CannotTell(_)));
        let now = ProcessIdentity { pidfd_inode: None, start_ticks: Some(71), ..linux() };
        assert_eq!(linux().compare(&now), Match::Different);
    }

    #[test]
    fn another_boot_is_another_process() {
        let now = ProcessIdentity { boot_id: Some("later".into()), ..linux() };
        assert_eq!(linux().compare(&now), Match::Different);
    }

    #[test]
    fn i2_another_namespace_is_never_judged() {
        for now in [
            ProcessIdentity { pid_namespace: Some(9), ..linux() },
            ProcessIdentity { time_namespace: Some(9), ..linux() },
            ProcessIdentity { pid_namespace: None, ..linux() },
        ] {
            assert!(matches!(linux().compare(&now), Match::CannotTell(_)), "{now:?}");
        }
    }

    #[test]
    fn weak_evidence_counts_only_where_it_matches_exactly() {
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
