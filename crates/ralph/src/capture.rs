//! Captures the output and exit status of a program. `Command::output` panics if a pipe cannot be read, and the loop
//! must not panic.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Runs `command` and returns its output.
pub(crate) fn capture(command: &mut Command) -> io::Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    // On failure the pipes are closed, so that the program does not wait for a reader.
    let captured = drain(pipes.map(|pipe| pipe.map(File::from)));
    let status = child.wait()?;
    let [stdout, stderr] = captured?;
    Ok(Output { status, stdout, stderr })
}

/// Reads both pipes as data arrives. Reading one after the other would block a program that fills the second.
fn drain(mut pipes: [Option<File>; 2]) -> io::Result<[Vec<u8>; 2]> {
    let mut captured = [Vec::new(), Vec::new()];
    while let Some(index) = find_ready(&pipes)? {
        let Some(pipe) = &mut pipes[index] else { continue };
        let mut piece = [0; 8192];
        match pipe.read(&mut piece) {
            Ok(0) => pipes[index] = None,
            Ok(length) => captured[index].extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(captured)
}

/// Waits until a pipe is readable and returns its index. Returns `None` when all have ended.
fn find_ready(pipes: &[Option<File>; 2]) -> io::Result<Option<usize>> {
    let open = || pipes.iter().enumerate().filter_map(|(index, pipe)| Some((index, pipe.as_ref()?)));
    let mut polled: Vec<_> = open().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)).collect();
    while !polled.is_empty() {
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = open().zip(&polled).find(|(_, polled)| !polled.revents().is_empty());
        if let Some(((index, _), _)) = ready {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_output_on_both_streams_is_captured() {
        let script = "head -c 300000 /dev/zero >&2 & head -c 200000 /dev/zero; wait; exit 3";
        let output = capture(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.len(), output.stderr.len()),
            (Some(3), 200_000, 300_000)
        );
    }

    #[test]
    fn unreadable_pipe_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let error = drain([Some(File::open(directory.path()).unwrap()), None]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ISDIR.raw_os_error()));
    }
}
