//! The identity of this machine in records: its names, and the random identifier of its state directory.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sexton_core::Host;
use sexton_durable::{FileLock, find_regular, random_uuid, replace_file};

/// Where Linux systems keep the machine id.
const MACHINE_ID_FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// An identifier has 36 characters and a newline.
const MAX_SIZE: u64 = 64;

/// Returns this machine with the identifier of `state_dir`, if there is one. An unreadable identifier is an
/// error.
pub fn find_host(state_dir: &Path) -> io::Result<Host> {
    Ok(without_id().with_id(find_id(&host_id_path(state_dir))?))
}

/// Like [`find_host`], but ignores an unreadable identifier. Sessions of this boot are recognised even then,
/// and no decision is made about others.
pub fn find_host_leniently(state_dir: &Path) -> Host {
    find_host(state_dir).unwrap_or_else(|_| without_id())
}

/// Returns this machine with the identifier of `state_dir`, which is created if there is none. If several
/// processes create one at the same time, all of them return the same.
pub fn require_host(state_dir: &Path) -> io::Result<Host> {
    let path = host_id_path(state_dir);
    if let Some(id) = find_id(&path)? {
        return Ok(without_id().with_id(Some(id)));
    }
    let _lock = FileLock::acquire(&state_dir.join("host-id.lock"))?;
    let id = match find_id(&path)? {
        Some(id) => id,
        None => {
            let id = random_uuid();
            replace_file(&path, |file| writeln!(file, "{id}"))?;
            id
        }
    };
    Ok(without_id().with_id(Some(id)))
}

/// Returns the path of the identifier of a state directory.
pub fn host_id_path(state_dir: &Path) -> PathBuf {
    state_dir.join("host-id")
}

/// Returns this machine without the identifier of a state directory. Without a readable machine id, as in
/// many containers, only the host name counts.
fn without_id() -> Host {
    let machine_id = MACHINE_ID_FILES
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .map(|text| text.trim().to_owned())
        .find(|id| !id.is_empty());
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Host::new(machine_id.unwrap_or_else(|| "none".to_owned()), hostname)
}

fn find_id(path: &Path) -> io::Result<Option<String>> {
    let explain = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot read the host id {}: {error}", path.display()))
    };
    let Some(content) = find_regular(path, MAX_SIZE).map_err(explain)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&content);
    let id = text.trim_end_matches('\n');
    let is_usual = |character: char| character.is_ascii_hexdigit() || character == '-';
    if id.len() < 32 || !id.chars().all(is_usual) {
        return Err(explain(io::Error::new(io::ErrorKind::InvalidData, "it is not a valid identifier")));
    }
    Ok(Some(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn i12_concurrent_creators_get_the_same_host_id() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find_host(dir.path()).unwrap().id, None, "reading must not create one");
        let barrier = Barrier::new(8);
        let ids: Vec<_> = std::thread::scope(|scope| {
            let make = || {
                barrier.wait();
                require_host(dir.path()).unwrap().id.unwrap()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(find_host(dir.path()).unwrap().id.as_ref(), Some(&ids[0]));
        let mode = fs::metadata(host_id_path(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(require_host(other.path()).unwrap().id.as_ref(), Some(&ids[0]));
    }

    #[test]
    fn damaged_host_id_is_an_error_and_is_not_replaced() {
        for content in ["", "short\n", "zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz\n"] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(host_id_path(dir.path()), content).unwrap();
            assert!(require_host(dir.path()).unwrap_err().to_string().contains("host-id"), "{content:?}");
            assert_eq!(fs::read_to_string(host_id_path(dir.path())).unwrap(), content);
            assert_eq!(find_host_leniently(dir.path()).id, None);
        }
    }
}
