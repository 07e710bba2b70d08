//! File systems for scenarios: small ones, ones that can lose power, ones that can be frozen.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock};

/// Held for reading while a mount namespace exists, and for writing while something is unmounted. A namespace
/// gets a copy of every mount that exists when it is created: a file system unmounted meanwhile stays alive
/// there, and the next mount would find it again, with everything that it had in memory.
pub(crate) static NAMESPACES: RwLock<()> = RwLock::new(());

/// A file system that is mounted until it is dropped.
pub(crate) struct Mounted {
    path: PathBuf,
    /// The arguments of `mount`, to mount it again.
    arguments: Vec<String>,
}

/// Runs a program and panics if it fails.
pub(crate) fn must(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
}

impl Mounted {
    fn mount(path: &Path, arguments: &[&str]) -> Mounted {
        std::fs::create_dir_all(path).unwrap();
        let mut words: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        words.push(path.to_str().unwrap().to_owned());
        let mounted = Mounted { path: path.to_owned(), arguments: words };
        mounted.again();
        mounted
    }

    /// Mounts a file system in memory with this many bytes and files.
    pub(crate) fn tmpfs(path: &Path, bytes: &str, files: &str) -> Mounted {
        let options = format!("size={bytes},nr_inodes={files},mode=0700");
        Mounted::mount(path, &["-t", "tmpfs", "-o", &options, "tmpfs"])
    }

    /// Mounts an ext4 file system in the file `image`, which is created with this many bytes.
    pub(crate) fn ext4(path: &Path, image: &Path, bytes: u64) -> Mounted {
        std::fs::File::create(image).unwrap().set_len(bytes).unwrap();
        let image = image.to_str().unwrap();
        must("mkfs.ext4", &["-q", "-F", "-E", "nodiscard,lazy_itable_init=1", image]);
        Mounted::mount(path, &["-t", "ext4", "-o", "loop", image])
    }

    /// Returns the mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Mounts it again.
    pub(crate) fn again(&self) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        must("mount", &arguments);
    }

    /// Changes its options while it is mounted.
    pub(crate) fn remount(&self, options: &str) {
        must("mount", &["-o", &format!("remount,{options}"), self.path.to_str().unwrap()]);
    }

    /// Unmounts it, even if it is in use. A later mount reads it from the disk.
    pub(crate) fn unmount(&self) {
        let _no_namespace_has_a_copy = NAMESPACES.write().unwrap_or_else(PoisonError::into_inner);
        must("umount", &["-l", self.path.to_str().unwrap()]);
    }

    /// Cuts the power: data that was not synced is lost, and nothing more can be written. Perl is part of
    /// every Debian system, and can issue this ioctl without unsafe code here.
    pub(crate) fn cut_power(&self) {
        // EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
        let script =
            r#"open(F, "<", $ARGV[0]) or die $!; $how = pack("L", 2); ioctl(F, 0x8004587d, $how) or die $!;"#;
        must("perl", &["-e", script, self.path.to_str().unwrap()]);
    }

    /// Freezes it: a process that writes there sleeps, and cannot be killed, until it is thawed.
    pub(crate) fn freeze(&self) {
        must("fsfreeze", &["-f", self.path.to_str().unwrap()]);
    }

    /// Thaws it.
    pub(crate) fn thaw(&self) {
        must("fsfreeze", &["-u", self.path.to_str().unwrap()]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let path = self.path.to_str().unwrap();
        let _ = Command::new("fsfreeze").args(["-u", path]).output();
        let _ = Command::new("umount").args(["-l", path]).output();
    }
}

/// Fails unless this program runs as root, because only root can mount file systems.
pub(crate) fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this scenario mounts file systems: run it as root");
}

/// Unmounts everything that is mounted below `directory`.
pub(crate) fn unmount_below(directory: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for point in points.filter(|point| Path::new(point).starts_with(directory)) {
        must("umount", &["-l", point]);
    }
}
