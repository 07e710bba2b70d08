//! The program to execute, prepared before the fork: after the fork nothing may be allocated.

use std::ffi::{CString, NulError, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use crate::plan::Plan;

/// Where to search if PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The program, its arguments and its environment, in the form that `execve` takes.
pub(crate) struct Program {
    candidates: Vec<Candidate>,
    environment: Pointers,
}

/// One path where the program may be.
struct Candidate {
    path: CString,
    arguments: Pointers,
    /// How to run it if it is a script without a `#!` line, as a shell would.
    through_shell: Pointers,
}

/// Strings, and a null-terminated array of pointers to them.
struct Pointers {
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Pointers {
    fn of(strings: Vec<CString>) -> Pointers {
        let ends = [ptr::null()];
        let pointers = strings.iter().map(|string| string.as_ptr()).chain(ends).collect();
        Pointers { _strings: strings, pointers }
    }
}

impl Program {
    /// Prepares the plan's command. Fails if an argument or variable contains NUL.
    pub(crate) fn prepare(plan: &Plan) -> Result<Program, NulError> {
        let environment = environment(plan);
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let words: Result<Vec<_>, _> =
            plan.command.iter().map(|word| CString::new(word.as_os_str().as_bytes())).collect();
        let words = words?;
        let name = plan.command.first().map(|word| word.as_os_str().to_owned()).unwrap_or_default();
        let candidates: Result<Vec<_>, NulError> = places(&name, path.as_deref())
            .into_iter()
            .map(|place| {
                let path = CString::new(place.as_bytes())?;
                let mut through_shell = vec![c"/bin/sh".to_owned(), path.clone()];
                through_shell.extend(words.iter().skip(1).cloned());
                let (arguments, through_shell) = (Pointers::of(words.clone()), Pointers::of(through_shell));
                Ok(Candidate { path, arguments, through_shell })
            })
            .collect();
        let variables: Result<Vec<_>, _> = environment.iter().map(assignment).collect();
        Ok(Program { candidates: candidates?, environment: Pointers::of(variables?) })
    }

    /// Executes it. Returns only on failure, with the most informative error number: a file that may not be
    /// executed is more informative than a missing one.
    #[allow(unsafe_code, reason = "execve has no safe interface for a prepared environment")]
    pub(crate) fn execute(&self) -> i32 {
        let mut worst = libc::ENOENT;
        let searched = self.candidates.len() > 1;
        let environment = self.environment.pointers.as_ptr();
        for candidate in &self.candidates {
            // SAFETY: every array ends with a null pointer, and every string lives in `self`.
            let errno = unsafe {
                libc::execve(candidate.path.as_ptr(), candidate.arguments.pointers.as_ptr(), environment);
                let mut errno = last_errno();
                if errno == libc::ENOEXEC {
                    libc::execve(c"/bin/sh".as_ptr(), candidate.through_shell.pointers.as_ptr(), environment);
                    errno = last_errno();
                }
                errno
            };
            match errno {
                libc::ENOENT | libc::ENOTDIR => {}
                // A directory of PATH that may not be searched says nothing about the program.
                libc::EACCES if searched && !exists(&candidate.path) => {}
                libc::EACCES => worst = errno,
                other => return other,
            }
        }
        worst
    }
}

#[allow(unsafe_code, reason = "between fork and exec nothing may allocate")]
fn exists(path: &CString) -> bool {
    // SAFETY: the string ends with a NUL.
    unsafe { libc::access(path.as_ptr(), libc::F_OK) == 0 }
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Returns the environment of the command: the shim's own, which contains the cookie, and the plan's
/// additions.
fn environment(plan: &Plan) -> Vec<(OsString, OsString)> {
    let asked =
        plan.env.iter().map(|(name, value)| (name.as_os_str().to_owned(), value.as_os_str().to_owned()));
    let more: Vec<_> = plan.store_variables().into_iter().chain(asked).collect();
    let inherited = std::env::vars_os().filter(|(name, _)| !more.iter().any(|(added, _)| added == name));
    inherited.collect::<Vec<_>>().into_iter().chain(more).collect()
}

fn assignment((name, value): &(OsString, OsString)) -> Result<CString, NulError> {
    let mut text = name.as_bytes().to_vec();
    text.push(b'=');
    text.extend(value.as_bytes());
    CString::new(text)
}

/// Returns the paths where a program called `name` may be: itself if it contains a slash, otherwise in each
/// directory of PATH.
fn places(name: &OsStr, path: Option<&OsStr>) -> Vec<OsString> {
    if name.as_bytes().contains(&b'/') || name.is_empty() {
        return vec![name.to_owned()];
    }
    let path = path.filter(|path| !path.is_empty()).unwrap_or(OsStr::new(DEFAULT_PATH));
    let in_directory = |directory: &[u8]| {
        // An empty entry of PATH means the working directory.
        let directory = if directory.is_empty() { b"." } else { directory };
        let mut place = OsStr::from_bytes(directory).to_owned();
        place.push("/");
        place.push(name);
        place
    };
    path.as_bytes().split(|byte| *byte == b':').map(in_directory).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_a_slash_is_used_unchanged() {
        assert_eq!(places(OsStr::new("./agent"), Some(OsStr::new("/bin"))), ["./agent"]);
    }

    #[test]
    fn plain_name_is_searched_in_path() {
        assert_eq!(places(OsStr::new("ls"), Some(OsStr::new("/a::/b"))), ["/a/ls", "./ls", "/b/ls"]);
        assert_eq!(places(OsStr::new("ls"), None).len(), 3);
    }
}
