//! Containment: how membership of a session's processes is known, and which methods are tried.

use serde::{Deserialize, Serialize};

use crate::config::Containment;

/// The containment of a running session, as its record names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainedBy {
    /// A control group that Sexton created.
    Cgroup,
    /// A control group inside a transient scope of a service manager.
    Systemd,
    /// Inherited marks and ancestry of processes.
    Tree,
}

impl ContainedBy {
    /// Returns the word used in records, in settings and in output.
    pub fn as_str(self) -> &'static str {
        match self {
            ContainedBy::Cgroup => "cgroup",
            ContainedBy::Systemd => "systemd",
            ContainedBy::Tree => "tree",
        }
    }

    /// Returns what it proves about membership, in one clause.
    pub fn proves(self) -> &'static str {
        match self {
            ContainedBy::Cgroup => {
                "the kernel lists every process of a session, and ends all of them at once"
            }
            ContainedBy::Systemd => {
                "the kernel lists every process of a session, and ends all of them at once; \
                 the scope and its supervisor outlive the login session"
            }
            ContainedBy::Tree => {
                "a process belongs to a session by descent or by what it inherited from the command"
            }
        }
    }

    /// Returns what it does not prove, in one clause.
    pub fn misses(self) -> &'static str {
        match self {
            ContainedBy::Cgroup | ContainedBy::Systemd => {
                "a process that moved itself into another control group of this user is found as under `tree`"
            }
            ContainedBy::Tree => {
                "a process that detached and removed everything it inherited is not found \
                 once the supervisor was killed"
            }
        }
    }
}

/// Returns the containments that a session tries, in order. `auto` uses the service manager only if the user
/// lingers: otherwise everything that the manager holds ends with the last login.
pub fn containments_to_try(wanted: Containment, lingers: impl FnOnce() -> bool) -> Vec<ContainedBy> {
    match wanted {
        Containment::Auto if lingers() => {
            vec![ContainedBy::Cgroup, ContainedBy::Systemd, ContainedBy::Tree]
        }
        Containment::Auto => vec![ContainedBy::Cgroup, ContainedBy::Tree],
        Containment::Cgroup => vec![ContainedBy::Cgroup],
        Containment::Systemd => vec![ContainedBy::Systemd],
        Containment::Tree => vec![ContainedBy::Tree],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_uses_service_manager_only_if_user_lingers() {
        use ContainedBy::{Cgroup, Systemd, Tree};
        assert_eq!(containments_to_try(Containment::Auto, || true), [Cgroup, Systemd, Tree]);
        assert_eq!(containments_to_try(Containment::Auto, || false), [Cgroup, Tree]);
    }

    #[test]
    fn named_containment_has_no_fallback() {
        let named = [
            (Containment::Cgroup, ContainedBy::Cgroup),
            (Containment::Systemd, ContainedBy::Systemd),
            (Containment::Tree, ContainedBy::Tree),
        ];
        for (wanted, by) in named {
            assert_eq!(containments_to_try(wanted, || true), [by]);
        }
    }
}
