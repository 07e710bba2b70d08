//! What every tool is asked for, in its own words.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::ground::Ground;
use super::processes::Process;
use crate::Result;
use crate::bench::measure::output_of;

/// How often a tool is asked whether something has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// A tool that is installed.
pub(super) trait Peer {
    /// What people call it.
    fn name(&self) -> &'static str;

    /// Its name and version.
    fn version(&self) -> &str;

    /// Starts it on `ground`, and waits until it answers.
    fn open(&self, ground: Ground) -> Result<Box<dyn Keeper>>;
}

/// What a tool says about the commands that it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// As many are said to run, or to be about to.
    pub(super) running: usize,
    /// As many are said to have ended.
    pub(super) ended: usize,
}

impl Known {
    /// Counts states, each of which is one of a command that `has_ended` or of one that has not.
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

/// A tool at work. It ends, with everything that it started, when it is dropped.
pub(super) trait Keeper {
    /// Where it works.
    fn ground(&self) -> &Ground;

    /// The client that starts a command in the background, ready to be executed. Words need no quoting.
    fn starter(&mut self, words: &[&str]) -> Result<Command>;

    /// The name of the command that the last starter has started, which said `said`.
    fn name_of(&self, said: &str) -> String;

    /// Starts one.
    fn start(&mut self, words: &[&str]) -> Result<String> {
        let mut starter = self.starter(words)?;
        let said = output_of(starter.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        Ok(self.name_of(&said))
    }

    /// Starts as many as can be until `deadline`, in the quickest way that the tool has for many.
    fn start_many(&mut self, words: &[&str], count: usize, deadline: Instant) -> Result<Vec<String>> {
        let mut names = Vec::new();
        while names.len() < count && Instant::now() < deadline {
            names.push(self.start(words)?);
        }
        Ok(names)
    }

    /// The listing that people read, with everything that has ended in it.
    fn listing(&self) -> Command;

    /// What it knows.
    fn known(&self) -> Result<Known>;

    /// Waits until it knows that `count` have ended and that none runs; whether that came before `deadline`.
    fn settle(&mut self, count: usize, deadline: Instant) -> Result<bool> {
        wait_until(deadline, || Ok(self.known()? == Known { running: 0, ended: count }))
    }

    /// Makes it hold `total` that have ended, or as many as can be until `deadline`; how many it lists.
    fn fill(&mut self, total: usize, deadline: Instant) -> Result<usize> {
        let has = self.known()?.ended;
        self.start_many(&["true"], total.saturating_sub(has), deadline)?;
        // What was started in time may end a little later.
        wait_until(deadline + Duration::from_secs(10), || Ok(self.known()?.running == 0))?;
        Ok(self.known()?.ended)
    }

    /// What ends one of them, with a grace of one second where that can be said.
    fn stop(&self, name: &str) -> Command;

    /// What ends them all.
    fn stop_all(&self) -> Vec<Command>;

    /// The processes that watch over the commands.
    fn guardians(&self) -> Result<Vec<Process>>;

    /// What its user does so that it would come back as it was, before it is gone.
    fn prepare_return(&mut self) -> Result {
        Ok(())
    }

    /// What its user types once its processes are gone.
    fn return_words(&self) -> &'static str;

    /// Starts it again after its processes are gone; what it said to that.
    fn come_back(&mut self) -> Result<String>;

    /// Lets it mend what it keeps, where it can; what its user types for that.
    fn repair(&mut self) -> Result<Option<&'static str>> {
        Ok(None)
    }

    /// How a command ended, where it can say so.
    fn exit_code(&self, name: &str) -> Result<Option<i64>>;

    /// Ends it in its own way, and gives the files in which it keeps what it knows; none where it keeps nothing.
    fn close(&mut self) -> Result<Vec<PathBuf>>;
}

/// Waits until `ready`; whether that came before `deadline`. It is asked once at least.
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

/// Runs `command` to its end, or ends it at `deadline`; whether it succeeded.
pub(super) fn succeeds_before(deadline: Instant, command: &mut Command) -> Result<bool> {
    let mut child = command.spawn()?;
    let ended = wait_often(Duration::from_micros(100), deadline, || Ok(child.try_wait()?.is_some()));
    // Ours and not reaped before, so its number is its own; where it has ended, this does nothing.
    let _ = child.kill();
    let status = child.wait()?;
    Ok(ended? && status.success())
}

/// Waits until a tool answers, which it must.
pub(super) fn require_answer(tool: &str, answers: impl FnMut() -> Result<bool>) -> Result {
    if wait_until(Instant::now() + Duration::from_secs(30), answers)? {
        return Ok(());
    }
    Err(format!("{tool} does not answer").into())
}

/// What a command says on both its channels, however it ends.
pub(super) fn said_by(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok(format!("{out}{err}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_counted_by_whether_they_are_ends() {
        let known = Known::count(["running", "finished", "queued", "finished"], |state| state == "finished");
        assert_eq!(known, Known { running: 2, ended: 2 });
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let soon = Instant::now() + Duration::from_millis(50);
        assert!(!succeeds_before(soon, Command::new("sleep").arg("600")).unwrap());
        let late = Instant::now() + Duration::from_secs(60);
        assert!(succeeds_before(late, &mut Command::new("true")).unwrap());
        assert!(!succeeds_before(late, &mut Command::new("false")).unwrap());
    }

    #[test]
    fn a_deadline_that_has_passed_asks_once() {
        let mut asked = 0;
        let ready = || {
            asked += 1;
            Ok(false)
        };
        assert!(!wait_until(Instant::now(), ready).unwrap());
        assert!(asked >= 1);
    }
}
