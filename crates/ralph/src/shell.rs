//! Runs the user's shell commands: the ticket query and the completion check. They run unchanged; nothing is inserted.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use sexton_core::probe::COOKIE;
use sexton_core::{ProcessProbe, SessionId};
use sexton_supervise::{Watched, wait_for_all, watch_process};

/// Time limit of a command.
const LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of bytes of output that are read.
const MAX_OUTPUT: u64 = 1 << 20;

/// Maximum number of characters of standard error in a message.
const MAX_STDERR: usize = 300;

/// Runs shell commands.
pub(crate) struct Shell {
    /// Working directory.
    directory: PathBuf,
    /// The loop's session. Commands carry its cookie, so that recovery stops those of a killed loop.
    session: Option<SessionId>,
    /// Running process groups. A process is not reaped while it is in the list, so its pid cannot be reused.
    running: Mutex<Vec<Pid>>,
    cancelled: AtomicBool,
}

/// Result of a command.
#[derive(Debug)]
pub(crate) struct ShellResult {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
    stderr: String,
    in_time: bool,
}

impl Shell {
    pub(crate) fn new(directory: PathBuf, session: Option<SessionId>) -> Shell {
        Shell { directory, session, running: Mutex::new(Vec::new()), cancelled: AtomicBool::new(false) }
    }

    /// Runs `line` and kills it when it exceeds the time limit.
    pub(crate) fn run(&self, line: &str, probe: &dyn ProcessProbe) -> io::Result<ShellResult> {
        // Files and not pipes: a background process of the command would keep a pipe open.
        let (output, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).current_dir(&self.directory).stdin(Stdio::null()).process_group(0);
        command.stdout(output.try_clone()?).stderr(stderr.try_clone()?);
        if let Some(session) = &self.session {
            command.env(COOKIE, session.as_str());
        }
        let mut child = command.spawn()?;
        let ended = self.wait(&child, probe);
        if !matches!(ended, Ok(true)) {
            kill_group(group(&child));
        }
        // From here on its pid can be reused.
        self.forget(&child);
        let status = child.wait()?;
        Ok(ShellResult {
            status,
            output: load(output)?,
            stderr: load(stderr)?.trim().chars().take(MAX_STDERR).collect(),
            in_time: ended?,
        })
    }

    fn wait(&self, child: &Child, probe: &dyn ProcessProbe) -> io::Result<bool> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).extend(group(child));
        if self.cancelled.load(Ordering::SeqCst) {
            return Ok(false);
        }
        let process = pollster::block_on(probe.identify(child.id()));
        let Ok(process) = process else { return Ok(true) };
        match watch_process(probe, &process) {
            Watched::Alive(watch) => wait_for_all(&[watch], Some(Instant::now() + LIMIT)),
            Watched::Gone | Watched::Unknown(_) => Ok(true),
        }
    }

    fn forget(&self, child: &Child) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|pid| Some(*pid) != group(child));
    }

    /// Kills all running commands, because their results are no longer needed.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().for_each(|pid| kill_group(Some(*pid)));
    }
}

/// Returns the process group of a child, which is its leader.
fn group(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn kill_group(group: Option<Pid>) {
    if let Some(group) = group {
        // The group may have exited already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn load(mut file: File) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(MAX_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl ShellResult {
    /// Returns why the command failed, or `None` if it succeeded.
    pub(crate) fn failure(&self) -> Option<String> {
        let how = if !self.in_time {
            format!("it took longer than {} seconds", LIMIT.as_secs())
        } else if let Some(signal) = self.status.signal() {
            format!("ended by signal {signal}")
        } else {
            match self.status.code() {
                Some(0) => return None,
                code => format!("exit code {}", code.unwrap_or(-1)),
            }
        };
        let stderr = self.stderr.escape_debug().to_string();
        Some(if stderr.is_empty() { how } else { format!("{how}: {stderr}") })
    }

    /// Returns the lines of standard output that are not blank.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.output.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}
