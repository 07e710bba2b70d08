//! Whether the service manager of this user keeps running after the user's last logout.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::geteuid;

/// Where logind keeps one file per lingering user, named after the user.
const LINGERING: &str = "/var/lib/systemd/linger";

/// More than any entry of a user database needs.
const ENTRY: usize = 16 * 1024;

/// Returns whether this user lingers. Root's manager is the system's, which runs until shutdown.
pub(crate) fn lingers() -> bool {
    let user = geteuid();
    if user.is_root() {
        return true;
    }
    let name = user_name(user.as_raw());
    name.is_some_and(|name| Path::new(LINGERING).join(OsStr::from_bytes(name.to_bytes())).exists())
}

/// Returns the name of a user from the user database.
#[allow(unsafe_code, reason = "only the C library reads the user database")]
fn user_name(uid: u32) -> Option<CString> {
    let mut buffer = vec![0; ENTRY];
    let mut found = std::ptr::null_mut();
    // SAFETY: plain numbers and pointers, for which zero is valid.
    let mut entry = unsafe { std::mem::zeroed::<libc::passwd>() };
    // SAFETY: the entry and the buffer live until the name is copied, and the buffer has the given size.
    unsafe {
        let failed = libc::getpwuid_r(uid, &raw mut entry, buffer.as_mut_ptr(), buffer.len(), &raw mut found);
        if failed != 0 || found.is_null() || entry.pw_name.is_null() {
            return None;
        }
        Some(CStr::from_ptr(entry.pw_name).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_are_found_by_uid() {
        assert_eq!(user_name(0).unwrap().to_bytes(), b"root");
        assert_eq!(user_name(4_000_000_000), None);
    }
}
