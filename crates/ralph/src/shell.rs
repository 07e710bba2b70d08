//! The user's own shell lines: the ticket query and the completion check. They run as they stand; nothing is
//! ever put into them.

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

/// How long a line may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How much of what it prints is read.
const MAX_OUTPUT: u64 = 1 << 20;

/// How much of what it complains is told.
const MAX_COMPLAINT: usize = 300;

/// What runs them.
pub(crate) struct Shell {
    /// Where.
    directory: PathBuf,
    /// The loop's own session: what is left of a line when the loop is killed is ended with that.
    session: Option<SessionId>,
    /// Those that run. None is reaped while it is in here, so that its number is still its own.
    running: Mutex<Vec<Pid>>,
    cancelled: AtomicBool,
}

/// What a line did.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
    complaint: String,
    in_time: bool,
}

impl Shell {
    pub(crate) fn new(directory: PathBuf, session: Option<SessionId>) -> Shell {
        Shell { directory, session, running: Mutex::new(Vec::new()), cancelled: AtomicBool::new(false) }
    }

    /// Runs `line`, and ends it where it takes too long.
    pub(crate) fn run(&self, line: &str, probe: &dyn ProcessProbe) -> io::Result<Answer> {
        // Files and not pipes: what a line leaves in the background would keep a pipe open.
        let (output, complaint) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).current_dir(&self.directory).stdin(Stdio::null()).process_group(0);
        command.stdout(output.try_clone()?).stderr(complaint.try_clone()?);
        if let Some(session) = &self.session {
            command.env(COOKIE, session.as_str());
        }
        let mut child = command.spawn()?;
        let ended = self.wait(&child, probe);
        if !matches!(ended, Ok(true)) {
            end_group(group(&child));
        }
        // Only now may its number be given out again.
        self.forget(&child);
        let status = child.wait()?;
        Ok(Answer {
            status,
            output: load(output)?,
            complaint: load(complaint)?.trim().chars().take(MAX_COMPLAINT).collect(),
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

    /// Ends whatever runs: nobody waits for its answer any more.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().for_each(|pid| end_group(Some(*pid)));
    }
}

/// The group of a child, which is its own.
fn group(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn end_group(group: Option<Pid>) {
    if let Some(group) = group {
        // One that is gone already is what was wanted.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn load(mut file: File) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(MAX_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Answer {
    /// Says how a line failed; `None` where it did not.
    pub(crate) fn failure(&self) -> Option<String> {
        let how = if !self.in_time {
            format!("it took longer than {} seconds", LIMIT.as_secs())
        } else if let Some(signal) = self.status.signal() {
            format!("signal {signal} ended it")
        } else {
            match self.status.code() {
                Some(0) => return None,
                code => format!("it ended with {}", code.unwrap_or(-1)),
            }
        };
        let complaint = self.complaint.escape_debug().to_string();
        Some(if complaint.is_empty() { how } else { format!("{how}: {complaint}") })
    }

    /// What it printed, line by line, without blank ones.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.output.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}
