//! The machine that the figures were measured on.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;

/// Returns one paragraph: the machine, the filesystem below `directory`, the compiler, the date.
pub fn describe(directory: &Path) -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let processor =
        first_value(&fs::read_to_string("/proc/cpuinfo")?, "model name").unwrap_or("unknown").to_owned();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let filesystem = filesystem_of(&directory.canonicalize()?, &mounts).unwrap_or("an unknown filesystem");
    let load = fs::read_to_string("/proc/loadavg")?;
    Ok(format!(
        "{cores} cores ({processor}), Linux {}, {filesystem}; {}; {}; load average before: {}.",
        kernel.trim(),
        first_line("rustc", &["--version"])?,
        today()?,
        load.split(' ').next().unwrap_or_default(),
    ))
}

/// Returns the date, in UTC.
pub fn today() -> Result<String> {
    first_line("date", &["--utc", "+%Y-%m-%d"])
}

/// Returns the first line that a program prints.
pub fn first_line(program: impl AsRef<Path>, arguments: &[&str]) -> Result<String> {
    let program = program.as_ref();
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().next().filter(|_| output.status.success());
    Ok(line.ok_or_else(|| format!("{} printed nothing ({})", program.display(), output.status))?.to_owned())
}

fn first_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

/// Returns the type of the filesystem that holds `path`: that of the deepest mount point above it, and of the
/// latest if several are mounted at one point.
fn filesystem_of<'a>(path: &Path, mountinfo: &'a str) -> Option<&'a str> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        Some((Path::new(mount.split(' ').nth(4)?), source.split(' ').next()?))
    });
    let above = mounts.filter(|(point, _)| path.starts_with(point));
    above.max_by_key(|(point, _)| point.components().count()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_point_is_chosen() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/vda rw\n\
            2 1 0:1 / /tmp rw,nosuid shared:1 - tmpfs none rw\n\
            3 1 0:2 / /tmpfiles rw - xfs /dev/vdb rw\n\
            4 2 0:3 / /tmp rw - btrfs none rw\n";
        let kind = |path: &str| filesystem_of(Path::new(path), mounts);
        assert_eq!(kind("/home/me"), Some("ext4"));
        assert_eq!(kind("/tmp/a"), Some("btrfs"));
        assert_eq!(kind("/tmpfiles/a"), Some("xfs"));
    }

    #[test]
    fn this_machine_can_be_described() {
        let text = describe(Path::new("/")).unwrap();
        assert!(text.contains("Linux") && text.contains("rustc 1."), "{text}");
    }
}
