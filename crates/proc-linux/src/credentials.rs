//! Whose a process is, and what it may do.

use std::io;

use crate::procfs_dir::ProcDir;

/// What `/proc/PID/status` says of a process's rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) real_uid: u32,
    pub(crate) effective_uid: u32,
    effective_gid: u32,
    groups: Vec<u32>,
    /// The capabilities that it may use.
    permitted: u64,
}

impl Credentials {
    /// Those of a process; `None` where it is gone.
    pub(crate) fn load(proc: &ProcDir, place: &str) -> io::Result<Option<Credentials>> {
        let Some(status) = proc.load(&format!("{place}/status"))? else { return Ok(None) };
        let credentials = Credentials::parse(&String::from_utf8_lossy(&status));
        let misread = || io::Error::other(format!("/proc/{place}/status cannot be understood"));
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

    /// Whether `other` is this user's, with no rights that this process lacks. One that has more (an init,
    /// a program with a group or capabilities of its own) is another user's in all but its number.
    pub(crate) fn own(&self, other: &Credentials) -> bool {
        let same_user = [other.real_uid, other.effective_uid].contains(&self.effective_uid);
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
    fn a_process_of_our_user_is_ours_unless_it_has_rights_that_we_lack() {
        let we = credentials(1000, 5, "0000000000000002");
        assert!(we.own(&we));
        assert!(we.own(&credentials(1000, 7, "0000000000000000")));
        assert!(!we.own(&credentials(1001, 5, "0000000000000002")));
        assert!(!we.own(&credentials(1000, 6, "0000000000000002")));
        assert!(!we.own(&credentials(1000, 5, "0000000000000003")));
    }

    #[test]
    fn our_own_status_can_be_read() {
        let we = Credentials::load(&ProcDir::open().unwrap(), "self").unwrap().unwrap();
        assert_eq!(we.effective_uid, rustix::process::geteuid().as_raw());
        assert!(we.own(&we));
    }
}
