//! Where sessions' control groups can be made. Looks only; what it says is tried by whoever makes one.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use procfs::FromRead;
use procfs::process::MountInfos;
use rustix::fs::{Access, AtFlags, CWD};

/// How the name of a session's group begins.
pub(super) const PREFIX: &str = "sexton-";

/// What says in a line of `/proc/self/mountinfo` that a control group hierarchy is mounted there.
const CGROUP2: &[u8] = b" - cgroup2 ";

/// Room for `/proc/self/mountinfo`, in bytes, so that it is read at once as a rule.
const USUAL_MOUNTS: usize = 16 * 1024;

/// The group below which sessions' groups are made: the uppermost one, from the root of the hierarchy
/// down to our own, in which we may make groups and move processes about.
///
/// The uppermost, because ours may end with the terminal or the service that we were started from, and a
/// detached session must not. One of a session is never chosen.
pub fn find_base() -> io::Result<PathBuf> {
    let mut mounts = Vec::with_capacity(USUAL_MOUNTS);
    File::open("/proc/self/mountinfo")?.read_to_end(&mut mounts)?;
    let (mount, inside) = parse_place(&mounts, &std::fs::read_to_string("/proc/self/cgroup")?)?;
    candidates(&mount, &inside)
        .into_iter()
        .find(|candidate| is_ours(candidate))
        .ok_or_else(|| unsupported("no control group has been handed to this user"))
}

/// Where the hierarchy is mounted, and where in it we are, as `/proc/self/mountinfo` and `/proc/self/cgroup` say.
pub(crate) fn parse_place(mounts: &[u8], own: &str) -> io::Result<(PathBuf, PathBuf)> {
    // Every start of a session asks this, and a machine has many mounts of which one is of interest.
    let names_it = |line: &[u8]| line.windows(CGROUP2.len()).any(|word| word == CGROUP2);
    let mounts: Vec<&[u8]> =
        mounts.split_inclusive(|byte| *byte == b'\n').filter(|line| names_it(line)).collect();
    let mounts = MountInfos::from_read(mounts.concat().as_slice());
    let mounts = mounts.map_err(|error| io::Error::other(format!("the mounts cannot be read: {error}")))?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).map(Path::new);
    let own = own.ok_or_else(|| unsupported("this kernel has no cgroup v2"))?;
    let mut mounts = mounts.into_iter().filter(|mount| mount.fs_type == "cgroup2");
    mounts
        .find_map(|mount| Some((mount.mount_point, own.strip_prefix(&mount.root).ok()?.to_owned())))
        .ok_or_else(|| unsupported("no cgroup v2 hierarchy is mounted that we are in"))
}

fn unsupported(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// The groups from the root of the hierarchy down to our own, but none of a session.
fn candidates(mount: &Path, inside: &Path) -> Vec<PathBuf> {
    let mut path = mount.to_owned();
    let mut found = vec![path.clone()];
    for component in inside.components() {
        match component {
            Component::Normal(name) if !name.to_string_lossy().starts_with(PREFIX) => path.push(name),
            // A session's own; or we are outside of what the mount shows.
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
    fn a_session_is_never_nested_in_another() {
        let mount = Path::new("/sys/fs/cgroup");
        let groups = |inside| candidates(mount, Path::new(inside));
        assert_eq!(groups(""), [mount]);
        assert_eq!(groups("user/app"), [mount, &mount.join("user"), &mount.join("user/app")]);
        assert_eq!(groups("user/sexton-abc/inner"), [mount, &mount.join("user")]);
        assert_eq!(groups("../elsewhere"), [mount]);
    }
}
