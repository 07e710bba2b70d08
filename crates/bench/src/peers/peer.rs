//! What every tool is measured with, each through its own commands.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::processes::Process;
use super::sandbox::Sandbox;
use crate::Result;
use crate::measure::output_of;

/// How often a tool is polled.
const PAUSE: Duration = Duration::from_millis(10);

/// A tool that is installed.
pub(super) trait Peer {
    /// Its usual name.
    fn name(&self) -> &'static str;

    /// Its name and version.
    fn version(&self) -> &str;

    /// Starts it in `sandbox`, and waits until it answers.
    fn open(&self, sandbox: Sandbox) -> Result<Box<dyn RunningPeer>>;
}

/// What a tool reports about the commands that it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// How many it reports as running, or about to run.
    pub(super) running: usize,
    /// How many it reports as ended.
    pub(super) ended: usize,
}

impl Known {
    /// Counts states, by whether the command `has_ended`.
    pub(super) fn count<'a>(
        states: impl IntoIterator<Item = &'a str>,
        has_ended: impl Fn(&str) -> bool,
    ) -> Known {
        let mut known = Known::default();
        for state in states {
            *(if has_ended(state) { &mut known.ended } else { &mut known.running }) += 1;
        }
        known
    }
}

/// A running tool. It is stopped, with everything that it started, when it is dropped.
pub(super) trait RunningPeer {
    /// Returns where it runs.
    fn sandbox(&self) -> &Sandbox;

    /// Returns the client that starts a command in the background, ready to be executed. Words need no
    /// quoting.
    fn starter(&mut self, words: &[&str]) -> Result<Command>;

    /// Returns the name of the command that the last starter has started; `output` is what the starter
    /// printed.
    fn name_of(&self, output: &str) -> String;

    /// Starts one command.
    fn start(&mut self, words: &[&str]) -> Result<String> {
        let mut starter = self.starter(words)?;
        let output = output_of(starter.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        Ok(self.name_of(&output))
    }

    /// Starts as many as possible before `deadline`, in the quickest way that the tool has for many.
    fn start_many(&mut self, words: &[&str], count: usize, deadline: Instant) -> Result<Vec<String>> {
        let mut names = Vec::new();
        while names.len() < count && Instant::now() < deadline {
            names.push(self.start(words)?);
        }
        Ok(names)
    }

    /// Returns the listing for users, including everything that has ended.
    fn listing(&self) -> Command;

    /// Returns what it reports.
    fn known(&self) -> Result<Known>;

    /// Waits until it reports that `count` have ended and that none runs; returns whether that came before
    /// `deadline`.
    fn settle(&mut self, count: usize, deadline: Instant) -> Result<bool> {
        wait_until(deadline, || Ok(self.known()? == Known { running: 0, ended: count }))
    }

    /// Makes it hold `total` that have ended, or as many as possible before `deadline`; returns how many it
    /// lists.
    fn fill(&mut self, total: usize, deadline: Instant) -> Result<usize> {
        let has = self.known()?.ended;
        self.start_many(&["true"], total.saturating_sub(has), deadline)?;
        // Commands that were started in time may end a little later.
        wait_until(deadline + Duration::from_secs(10), || Ok(self.known()?.running == 0))?;
        Ok(self.known()?.ended)
    }

    /// Returns the command that stops one of them, with a grace of one second if that can be set.
    fn stop(&self, name: &str) -> Command;

    /// Returns the commands that stop all of them.
    fn stop_all(&self) -> Vec<Command>;

    /// Returns the processes that watch the commands.
    fn guardians(&self) -> Result<Vec<Process>>;

    /// Does what a user does before a crash, so that the tool can be restored as it was.
    fn prepare_return(&mut self) -> Result {
        Ok(())
    }

    /// Returns what its user runs after its processes were killed.
    fn return_words(&self) -> &'static str;

    /// Starts it again after its processes were killed; returns what it printed.
    fn come_back(&mut self) -> Result<String>;

    /// Repairs its state, if the tool can; returns what its user runs for that.
    fn repair(&mut self) -> Result<Option<&'static str>> {
        Ok(None)
    }

    /// Returns how a command exited, if the tool reports it.
    fn exit_code(&self, name: &str) -> Result<Option<i64>>;

    /// Stops it in its usual way, and returns its state files; none if it keeps nothing on disk.
    fn close(&mut self) -> Result<Vec<PathBuf>>;
}

/// Waits until `ready`; returns whether that came before `deadline`. Checks at least once.
pub(super) fn wait_until(deadline: Instant, ready: impl FnMut() -> Result<bool>) -> Result<bool> {
    wait_often(PAUSE, deadline, ready)
}

fn wait_often(pause: Duration, deadline: Instant, mut ready: impl FnMut() -> Result<bool>) -> Result<bool> {
    loop {
        if ready()? {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(pause);
    }
}

/// Runs `command` until it exits, or kills it at `deadline`; returns whether it succeeded.
pub(super) fn succeeds_before(deadline: Instant, command: &mut Command) -> Result<bool> {
    let mut child = command.spawn()?;
    let ended = wait_often(Duration::from_micros(100), deadline, || Ok(child.try_wait()?.is_some()));
    // It is our child and not reaped before this, so its pid is not reused; if it has exited, this does
    // nothing.
    let _ = child.kill();
    let status = child.wait()?;
    Ok(ended? && status.success())
}

/// Waits until a tool answers; fails if it does not.
pub(super) fn require_answer(tool: &str, answers: impl FnMut() -> Result<bool>) -> Result {
    if wait_until(Instant::now() + Duration::from_secs(30), answers)? {
        return Ok(());
    }
    Err(format!("{tool} does not answer").into())
}

/// Returns what a command prints on both channels, whether it succeeds or not.
pub(super) fn output_of_both(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(format!("{out}{err}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_counted_as_running_or_ended() {
        let known = Known::count(["running", "finished", "queued", "finished"], |state| state == "finished");
        assert_eq!(known, Known { running: 2, ended: 2 });
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let soon = Instant::now() + Duration::from_millis(50);
        assert!(!succeeds_before(soon, Command::new("sleep").arg("600")).unwrap());
        let late = Instant::now() + Duration::from_secs(60);
        assert!(succeeds_before(late, &mut Command::new("true")).unwrap());
        assert!(!succeeds_before(late, &mut Command::new("false")).unwrap());
    }

    #[test]
    fn a_condition_is_checked_once_after_the_deadline() {
        let mut checked = 0;
        let ready = || {
            checked += 1;
            Ok(false)
        };
        assert!(!wait_until(Instant::now(), ready).unwrap());
        assert!(checked >= 1);
    }
}
