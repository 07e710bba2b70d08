//! What a program says, and how it ends. The standard library's own way of asking panics where a pipe cannot be
//! read; a loop must go on.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Runs `command` to its end.
pub(crate) fn capture(command: &mut Command) -> io::Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    // Where this fails the pipes are closed, so that no program waits for a reader.
    let said = drain(pipes.map(|pipe| pipe.map(File::from)));
    let status = child.wait()?;
    let [stdout, stderr] = said?;
    Ok(Output { status, stdout, stderr })
}

/// Reads both as they come: a program that fills one while the other is waited for would never end.
fn drain(mut pipes: [Option<File>; 2]) -> io::Result<[Vec<u8>; 2]> {
    let mut said = [Vec::new(), Vec::new()];
    while let Some(turn) = find_ready(&pipes)? {
        let Some(pipe) = &mut pipes[turn] else { continue };
        let mut piece = [0; 8192];
        match pipe.read(&mut piece) {
            Ok(0) => pipes[turn] = None,
            Ok(length) => said[turn].extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(said)
}

/// Waits until one of them can be read without waiting, and says which; `None` where all have ended.
fn find_ready(pipes: &[Option<File>; 2]) -> io::Result<Option<usize>> {
    let open = || pipes.iter().enumerate().filter_map(|(turn, pipe)| Some((turn, pipe.as_ref()?)));
    let mut polled: Vec<_> = open().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)).collect();
    while !polled.is_empty() {
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = open().zip(&polled).find(|(_, polled)| !polled.revents().is_empty());
        if let Some(((turn, _), _)) = ready {
            return Ok(Some(turn));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_says_much_in_both_ways_at_once_is_heard_to_its_end() {
        let script = "head -c 300000 /dev/zero >&2 & head -c 200000 /dev/zero; wait; exit 3";
        let output = capture(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.len(), output.stderr.len()),
            (Some(3), 200_000, 300_000)
        );
    }

    #[test]
    fn a_pipe_that_cannot_be_read_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let error = drain([Some(File::open(directory.path()).unwrap()), None]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ISDIR.raw_os_error()));
    }
}
