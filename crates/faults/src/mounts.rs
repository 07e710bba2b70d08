//! File systems of a scenario's own: small ones, ones that can lose power, ones that can be frozen.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock};

/// Held for reading by whoever has a mount namespace, and for writing where something is unmounted. A namespace has its
/// own copy of all that is mounted when it is made: what is unmounted meanwhile would go on living there, and be found
/// again, with all that it had in memory, by whoever mounts it next.
pub(crate) static NAMESPACES: RwLock<()> = RwLock::new(());

/// A file system that is mounted until it is dropped.
pub(crate) struct Mounted {
    path: PathBuf,
    /// What is mounted, to mount it again.
    arguments: Vec<String>,
}

/// Runs a program that must succeed.
pub(crate) fn must(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
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

    /// A file system in memory, of so many bytes and files.
    pub(crate) fn tmpfs(path: &Path, bytes: &str, files: &str) -> Mounted {
        let options = format!("size={bytes},nr_inodes={files},mode=0700");
        Mounted::mount(path, &["-t", "tmpfs", "-o", &options, "tmpfs"])
    }

    /// An ext4 file system in the file `image`, which is made with so many bytes and no content.
    pub(crate) fn ext4(path: &Path, image: &Path, bytes: u64) -> Mounted {
        std::fs::File::create(image).unwrap().set_len(bytes).unwrap();
        let image = image.to_str().unwrap();
        must("mkfs.ext4", &["-q", "-F", "-E", "nodiscard,lazy_itable_init=1", image]);
        Mounted::mount(path, &["-t", "ext4", "-o", "loop", image])
    }

    /// Where it is.
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

    /// Unmounts it, whoever still uses it. What is mounted again afterwards is read from the disk.
    pub(crate) fn unmount(&self) {
        let _nobody_has_a_copy = NAMESPACES.write().unwrap_or_else(PoisonError::into_inner);
        must("umount", &["-l", self.path.to_str().unwrap()]);
    }

    /// Cuts the power: what was not synced is gone, and nothing can be written any more. Perl is a part of
    /// every Debian system, and can ask the kernel for this without any unsafe code of ours.
    pub(crate) fn cut_power(&self) {
        // EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
        let script =
            r#"open(F, "<", $ARGV[0]) or die $!; $how = pack("L", 2); ioctl(F, 0x8004587d, $how) or die $!;"#;
        must("perl", &["-e", script, self.path.to_str().unwrap()]);
    }

    /// Freezes it: whoever writes there sleeps, and cannot be killed, until it is thawed.
    pub(crate) fn freeze(&self) {
        must("fsfreeze", &["-f", self.path.to_str().unwrap()]);
    }

    /// Lets everybody go on.
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

/// Mounting needs rights that most users do not have.
pub(crate) fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this scenario mounts file systems: run it as root");
}

/// Unmounts whatever is mounted somewhere below `directory`.
pub(crate) fn unmount_below(directory: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for point in points.filter(|point| Path::new(point).starts_with(directory)) {
        must("umount", &["-l", point]);
    }
}
