//! The user of a process, and its rights.

use std::io;

use crate::procfs_dir::ProcDir;

/// The rights of a process according to `/proc/PID/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) real_uid: u32,
    pub(crate) effective_uid: u32,
    effective_gid: u32,
    groups: Vec<u32>,
    /// Capabilities that it may use.
    permitted: u64,
}

impl Credentials {
    /// Reads the credentials of a process; returns `None` if it is gone.
    pub(crate) fn load(proc: &ProcDir, place: &str) -> io::Result<Option<Credentials>> {
        let Some(status) = proc.load(&format!("{place}/status"))? else { return Ok(None) };
        let credentials = Credentials::parse(&String::from_utf8_lossy(&status));
        let misread = || io::Error::other(format!("cannot parse /proc/{place}/status"));
        credentials.map(Some).ok_or_else(misread)
    }

    pub(crate) fn parse(status: &str) -> Option<Credentials> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let numbers = |name: &str| -> Option<Vec<u32>> {
            field(name)?.split_whitespace().map(|number| number.parse().ok()).collect()
        };
        let (uids, gids) = (numbers("Uid:")?, numbers("Gid:")?);
        Some(Credentials {
            real_uid: *uids.first()?,
            effective_uid: *uids.get(1)?,
            effective_gid: *gids.get(1)?,
            groups: numbers("Groups:")?,
            permitted: u64::from_str_radix(field("CapPrm:")?, 16).ok()?,
        })
    }

    /// Returns whether a process with these credentials runs as the user `uid`.
    pub(crate) fn is_of_user(&self, uid: u32) -> bool {
        [self.real_uid, self.effective_uid].contains(&uid)
    }

    /// Returns whether `other` belongs to this user and has no rights that this process lacks. A process with
    /// more rights (an init, a program with its own group or capabilities) counts as another user's despite
    /// its uid.
    pub(crate) fn own(&self, other: &Credentials) -> bool {
        let same_user = other.is_of_user(self.effective_uid);
        let our_group =
            self.effective_gid == other.effective_gid || self.groups.contains(&other.effective_gid);
        same_user && our_group && other.permitted & !self.permitted == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(uid: u32, gid: u32, permitted: &str) -> Credentials {
        let status = format!(
            "Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t5\t{gid}\t5\t5\nGroups:\t5 7 \nCapPrm:\t{permitted}\n"
        );
        Credentials::parse(&status).unwrap()
    }

    #[test]
    fn process_of_our_user_is_ours_unless_it_has_more_rights() {
        let we = credentials(1000, 5, "0000000000000002");
        assert!(we.own(&we));
        assert!(we.own(&credentials(1000, 7, "0000000000000000")));
        assert!(!we.own(&credentials(1001, 5, "0000000000000002")));
        assert!(!we.own(&credentials(1000, 6, "0000000000000002")));
        assert!(!we.own(&credentials(1000, 5, "0000000000000003")));
    }

    #[test]
    fn own_status_can_be_read() {
        let we = Credentials::load(&ProcDir::open().unwrap(), "self").unwrap().unwrap();
        assert_eq!(we.effective_uid, rustix::process::geteuid().as_raw());
        assert!(we.own(&we));
    }
}
