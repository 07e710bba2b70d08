//! Finds where control groups for sessions can be created. It only checks permissions; creating a group can
//! still fail.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use procfs::FromRead;
use procfs::process::MountInfos;
use rustix::fs::{Access, AtFlags, CWD};

/// Name prefix of a session's group.
pub(crate) const PREFIX: &str = "sexton-";

/// Marks a cgroup v2 mount in a line of `/proc/self/mountinfo`.
const CGROUP2: &[u8] = b" - cgroup2 ";

/// Initial buffer for `/proc/self/mountinfo`, in bytes: usually enough for a single read.
const USUAL_MOUNTS: usize = 16 * 1024;

/// Returns the group below which sessions' groups are created: the highest group between the root of the
/// hierarchy and our own in which we may create groups and move processes.
///
/// The highest, because our own group may end with the terminal or the service that started us, and a
/// detached session must survive that. A session's group is never chosen.
pub fn find_base() -> io::Result<PathBuf> {
    let (mount, inside) = find_mount(&std::fs::read_to_string("/proc/self/cgroup")?)?;
    candidates(&mount, &inside)
        .into_iter()
        .find(|candidate| is_ours(candidate))
        .ok_or_else(|| unsupported("no control group is delegated to this user"))
}

/// Returns where the hierarchy is mounted, and the path inside it of a process whose `/proc/PID/cgroup` is
/// `own`.
pub(crate) fn find_mount(own: &str) -> io::Result<(PathBuf, PathBuf)> {
    let mut mounts = Vec::with_capacity(USUAL_MOUNTS);
    File::open("/proc/self/mountinfo")?.read_to_end(&mut mounts)?;
    parse_place(&mounts, own)
}

/// Parses `/proc/self/mountinfo` and `/proc/self/cgroup`: where the hierarchy is mounted, and our path inside
/// it.
pub(crate) fn parse_place(mounts: &[u8], own: &str) -> io::Result<(PathBuf, PathBuf)> {
    // This runs at every start of a session, and only one of a machine's many mounts matters.
    let is_cgroup2 = |line: &[u8]| line.windows(CGROUP2.len()).any(|word| word == CGROUP2);
    let mounts: Vec<&[u8]> =
        mounts.split_inclusive(|byte| *byte == b'\n').filter(|line| is_cgroup2(line)).collect();
    let mounts = MountInfos::from_read(mounts.concat().as_slice());
    let mounts = mounts.map_err(|error| io::Error::other(format!("cannot read the mounts: {error}")))?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).map(Path::new);
    let own = own.ok_or_else(|| unsupported("this kernel has no cgroup v2"))?;
    let mut mounts = mounts.into_iter().filter(|mount| mount.fs_type == "cgroup2");
    mounts
        .find_map(|mount| Some((mount.mount_point, own.strip_prefix(&mount.root).ok()?.to_owned())))
        .ok_or_else(|| unsupported("no mounted cgroup v2 hierarchy contains this process"))
}

fn unsupported(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Returns the groups from the root of the hierarchy down to our own, without sessions' groups.
fn candidates(mount: &Path, inside: &Path) -> Vec<PathBuf> {
    let mut path = mount.to_owned();
    let mut found = vec![path.clone()];
    for component in inside.components() {
        match component {
            Component::Normal(name) if !name.to_string_lossy().starts_with(PREFIX) => path.push(name),
            // A session's own group, or we are outside what the mount shows.
            _ => break,
        }
        found.push(path.clone());
    }
    found
}

fn is_ours(group: &Path) -> bool {
    let may = |path: &Path, access| rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
    may(group, Access::WRITE_OK | Access::EXEC_OK) && may(&group.join("cgroup.procs"), Access::WRITE_OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_group_is_never_nested_in_another() {
        let mount = Path::new("/sys/fs/cgroup");
        let groups = |inside| candidates(mount, Path::new(inside));
        assert_eq!(groups(""), [mount]);
        assert_eq!(groups("user/app"), [mount, &mount.join("user"), &mount.join("user/app")]);
        assert_eq!(groups("user/sexton-abc/inner"), [mount, &mount.join("user")]);
        assert_eq!(groups("../elsewhere"), [mount]);
    }
}
