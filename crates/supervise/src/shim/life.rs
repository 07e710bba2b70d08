//! The shim's life from the open gate to the recorded end.

use std::fs::File;
use std::io;
use std::slice;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait, waitpid};
use sexton_core::probe::{EndPolicy, Group};
use sexton_core::session::{Cgroup, EndingReason, Exit, ExitReason, OnOwnerDeath};
use sexton_core::{Liveness, ProcessIdentity, ProcessProbe, Session};

use super::gate::{NotExecuted, Step};
use super::outlook::{Event, Outlook, OwnerWatch};
use super::recorder::{Recorder, Removal};
use super::trim::Trim;
use crate::control::Ready;
use crate::plan::Plan;
use crate::wait::{Watched, wait_for_all, watch_process};

/// How long to wait, after SIGKILL, for the kernel to let go of a process.
pub(crate) const KILL_WAIT: Duration = Duration::from_secs(5);

/// How long to pause when processes could not be looked at, and how often that is tried again.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// How often the record is looked at before it counts as unchanged.
const RECORD_LOOKS: usize = 5;
const PROBE_RETRIES: usize = 60;

/// One session, seen by its shim.
pub(crate) struct Life {
    plan: Plan,
    probe: Box<dyn ProcessProbe>,
    outlook: Outlook,
    recorder: Recorder,
    log: File,
    process: ProcessIdentity,
    supervisor: ProcessIdentity,
    cgroup: Option<Cgroup>,
    /// When its time is up.
    deadline: Option<Instant>,
    /// When an orphan that nobody adopted is ended.
    orphaned_until: Option<Instant>,
    trim: Option<Trim>,
    /// Whether the command is our child, so that whoever loses its parent becomes ours too.
    is_parent: bool,
    /// Why it is being ended, once that is decided.
    ending: Option<EndingReason>,
}

impl Life {
    pub(crate) fn new(
        plan: Plan,
        probe: Box<dyn ProcessProbe>,
        outlook: Outlook,
        log: File,
        ready: &Ready,
    ) -> Life {
        // Split output is meant to be read by a program that keeps up; only the one log is bounded.
        let trim = plan.log_max_bytes.filter(|_| plan.stderr_path.is_none()).map(Trim::to);
        Life {
            recorder: Recorder::of(&plan),
            deadline: plan.timeout.map(|timeout| Instant::now() + timeout),
            orphaned_until: None,
            is_parent: true,
            ending: None,
            process: ready.process.clone(),
            supervisor: ready.supervisor.clone(),
            cgroup: ready.cgroup.clone(),
            plan,
            probe,
            outlook,
            log,
            trim,
        }
    }

    /// The start came to nothing: makes sure that no record says otherwise.
    pub(crate) fn give_up(&mut self) -> io::Result<()> {
        self.reap_command_for_good();
        self.release_cgroup();
        self.recorder.record_never_started()?;
        self.clear_unused_worktree();
        Ok(())
    }

    /// The start was called off before anything was recorded: nothing is left of it.
    pub(crate) fn call_off(&mut self) -> io::Result<()> {
        self.reap_command_for_good();
        self.release_cgroup();
        self.recorder.remove_files()
    }

    /// The command could not be executed: records that.
    pub(crate) fn record_exec_failure(&mut self, failure: &NotExecuted) -> io::Result<()> {
        self.reap_command_for_good();
        self.release_cgroup();
        let missing = failure.step == Step::Execute && failure.errno == libc::ENOENT;
        let exit = Exit { reason: ExitReason::ExecFailed, ..Exit::exited(if missing { 127 } else { 126 }) };
        self.recorder.record_end(&exit, None, Timestamp::now().into())?;
        self.recorder.notify(self.plan.notify.as_ref(), &exit);
        Ok(())
    }

    /// Waits for the command, and records its end.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.begin_watching();
        // Whatever fails while waiting, the command's end is still recorded.
        let status = self.wait_for_command().or_else(|_| self.wait_for_command_alone())?;
        self.conclude(&exit_of(status))
    }

    /// Waits for a command that is somebody else's child, and records that it ended: how, only its parent
    /// could tell.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        self.begin_watching();
        self.is_parent = false;
        if self.outlook.watch_command(self.probe.as_ref(), &self.process) {
            while !self.wait_for_events()?.contains(&Event::CommandGone) {}
        } else if let Liveness::Unknown(why) = pollster::block_on(self.probe.observe(&self.process)) {
            // What cannot be seen cannot be said to have ended.
            return Err(io::Error::other(why));
        }
        self.conclude(&Exit { reason: ExitReason::Unknown, code: None, ..Exit::exited(0) })
    }

    fn begin_watching(&mut self) {
        if let Some(owner) = self.plan.owner.clone() {
            self.watch_owner(&owner);
        }
        if self.trim.is_some() && self.watch_log().is_err() {
            // No watches are left on this machine: the log grows as it would without us.
            self.trim = None;
        }
    }

    fn watch_log(&mut self) -> io::Result<()> {
        self.outlook.watch_log(self.plan.log_path.as_path())?;
        let log = &self.log;
        self.trim.as_mut().map_or(Ok(()), |trim| trim.catch_up(log, Instant::now()))
    }

    fn conclude(&mut self, exit: &Exit) -> io::Result<()> {
        let finished_at = Timestamp::now().into();
        self.end_leftovers();
        self.release_cgroup();
        self.recorder.record_end(exit, self.ending, finished_at)?;
        self.recorder.notify(self.plan.notify.as_ref(), exit);
        // One that ended well loses a worktree in which nothing is worth keeping. Others keep it for their
        // user, or leave it to recovery.
        if self.plan.worktree && self.ending.is_none() && exit.code == Some(0) {
            self.recorder.become_cleaner(Removal::IfClean);
        }
        Ok(())
    }

    /// A session that never ran loses its worktree: what is in it was there before, and is rescued.
    pub(crate) fn clear_unused_worktree(&self) {
        if self.plan.worktree {
            self.recorder.become_cleaner(Removal::Whole);
        }
    }

    fn wait_for_command(&mut self) -> io::Result<WaitStatus> {
        loop {
            if let Some(status) = self.reap()? {
                return Ok(status);
            }
            self.wait_for_events()?;
        }
    }

    /// Waits until something happens, and does what that calls for.
    fn wait_for_events(&mut self) -> io::Result<Vec<Event>> {
        let events = self.outlook.wait(self.next_moment())?;
        for event in &events {
            match event {
                Event::ChildEnded | Event::CommandGone => {}
                Event::ReadAgain => self.read_again(),
                Event::OwnerGone => self.begin_orphanhood(),
                Event::LogGrew => self.trim.iter_mut().for_each(|trim| trim.plan(Instant::now())),
            }
        }
        self.do_what_is_due();
        Ok(events)
    }

    /// Waits for the command and for nothing else.
    fn wait_for_command_alone(&self) -> io::Result<WaitStatus> {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if is(pid, self.process.pid) => return Ok(status),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn next_moment(&self) -> Option<Instant> {
        let trim = self.trim.as_ref().and_then(Trim::due);
        [self.deadline, self.orphaned_until, trim].into_iter().flatten().min()
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        if self.trim.as_ref().is_some_and(|trim| trim.is_due(now)) {
            self.trim_log();
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.end(EndingReason::Timeout);
        }
        if self.orphaned_until.is_some_and(|until| until <= now) {
            self.orphaned_until = None;
            self.end_unless_adopted();
        }
    }

    fn trim_log(&mut self) {
        let trimmed = self.trim.as_mut().map_or(Ok(()), |trim| trim.apply(&self.log));
        let watched = self.watch_log();
        if trimmed.is_err() || watched.is_err() {
            // A file system without holes, or a log that was removed: it grows as it would without us.
            self.trim = None;
        }
    }

    fn watch_owner(&mut self, owner: &ProcessIdentity) {
        self.orphaned_until = None;
        match self.outlook.watch_owner(self.probe.as_ref(), owner) {
            OwnerWatch::Watched | OwnerWatch::Unknowable => {}
            OwnerWatch::Gone => self.begin_orphanhood(),
        }
    }

    fn begin_orphanhood(&mut self) {
        self.outlook.forget_owner();
        if self.plan.on_owner_death == OnOwnerDeath::End {
            self.orphaned_until = Some(Instant::now() + self.plan.owner_grace);
        }
    }

    /// Takes the place of a supervisor that is gone. Says whether the session still needed one.
    pub(crate) fn take_over(&self, from: Option<&ProcessIdentity>) -> io::Result<bool> {
        self.recorder.replace_supervisor(from, &self.supervisor)
    }

    /// Somebody says that the record changed: it may have another owner now.
    fn read_again(&mut self) {
        if let Some(session) = self.load_patiently() {
            self.follow_record(&session);
        }
    }

    /// The record. A store that cannot be read for a moment must not cost a session that was adopted its life.
    fn load_patiently(&self) -> Option<Session> {
        for _ in 1..RECORD_LOOKS {
            if let Ok(found) = self.recorder.load() {
                return found;
            }
            std::thread::sleep(PROBE_PAUSE);
        }
        self.recorder.load().ok().flatten()
    }

    fn end_unless_adopted(&mut self) {
        let before = self.plan.owner.clone();
        if let Some(session) = self.load_patiently() {
            self.follow_record(&session);
        }
        let adopted = self.plan.owner != before || self.plan.on_owner_death == OnOwnerDeath::Keep;
        if !adopted {
            self.orphaned_until = None;
            self.end(EndingReason::OwnerDead);
        }
    }

    fn follow_record(&mut self, session: &Session) {
        self.plan.on_owner_death = session.on_owner_death;
        if self.plan.owner == session.owner {
            return;
        }
        self.plan.owner.clone_from(&session.owner);
        self.orphaned_until = None;
        match &session.owner {
            Some(owner) => self.watch_owner(owner),
            None => self.outlook.forget_owner(),
        }
    }

    /// Ends the session, unless somebody else has decided to already: then theirs is the reason.
    fn end(&mut self, reason: EndingReason) {
        let decided = self.recorder.claim_ending(reason);
        self.ending = Some(decided);
        // Who is left is ended once more when the command is gone.
        let _ = self.terminate_members();
    }

    /// Ends the members. Gives back who could not be ended; nothing where nobody could look, however often.
    fn terminate_members(&self) -> Option<Vec<ProcessIdentity>> {
        let group = Group {
            session: self.plan.session.clone(),
            process: Some(self.process.clone()),
            supervisor: Some(self.supervisor.clone()),
            cgroup: self.cgroup.clone(),
        };
        let policy = EndPolicy {
            grace: self.plan.stop_grace,
            first_signal: libc::SIGINT,
            kill_wait: KILL_WAIT,
            spare: Vec::new(),
        };
        for _ in 0..PROBE_RETRIES {
            if let Ok(ended) = pollster::block_on(self.probe.terminate(slice::from_ref(&group), &policy)) {
                let survivors = ended.into_iter().flat_map(|ended| ended.survivors);
                return Some(survivors.map(|survivor| survivor.identity).collect());
            }
            // A probe that could not look has ended nobody: the machine is short of something.
            std::thread::sleep(PROBE_PAUSE);
        }
        None
    }

    /// Ends what the command left behind. Whoever loses its parent in here becomes our child, so having
    /// no child proves that nobody is left, without looking at a single process.
    fn end_leftovers(&mut self) {
        let mut blind_looks = 0;
        while blind_looks < PROBE_RETRIES && self.has_children_or_cannot_tell() {
            let progress = match self.terminate_members() {
                // Children that are nobody's members here are supervisors of sessions that were started inside.
                Some(survivors) if survivors.is_empty() => break,
                // The session has not ended before they have, however long that takes.
                Some(survivors) => self.wait_until_gone(&survivors),
                None => false,
            };
            blind_looks = if progress { 0 } else { blind_looks + 1 };
        }
        self.has_children();
    }

    /// Waits for those who can be watched. Says whether any of them, or anybody at all, is gone by that; where nobody
    /// can tell, a moment has passed, after which it is worth looking again.
    fn wait_until_gone(&self, survivors: &[ProcessIdentity]) -> bool {
        let (mut watches, mut all_known) = (Vec::new(), true);
        for survivor in survivors {
            match watch_process(self.probe.as_ref(), survivor) {
                Watched::Alive(watch) => watches.push(watch),
                Watched::Gone => {}
                Watched::Unknown(_) => all_known = false,
            }
        }
        let waited = wait_for_all(&watches, None).is_ok();
        if watches.is_empty() || !waited {
            std::thread::sleep(PROBE_PAUSE);
        }
        waited && (all_known || !watches.is_empty())
    }

    /// Elsewhere than on Linux, and for a command that is somebody else's child, having none proves nothing.
    fn has_children_or_cannot_tell(&self) -> bool {
        self.has_children() || !self.is_parent || !cfg!(target_os = "linux")
    }

    /// Reaps whoever has ended, and says whether anybody is left.
    fn has_children(&self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Reaps whoever has ended; the command's status, if it was among them.
    fn reap(&self) -> io::Result<Option<WaitStatus>> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if is(pid, self.process.pid) => return Ok(Some(status)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the process at the gate, which is leaving.
    fn reap_command_for_good(&self) {
        let pid = i32::try_from(self.process.pid).ok().and_then(Pid::from_raw);
        while let Err(Errno::INTR) = waitpid(pid, WaitOptions::empty()) {}
    }

    fn release_cgroup(&self) {
        if let Some(cgroup) = &self.cgroup {
            self.probe.release(cgroup);
        }
    }
}

fn is(pid: Pid, number: u32) -> bool {
    u32::try_from(pid.as_raw_nonzero().get()) == Ok(number)
}

fn exit_of(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::exited(code),
        (None, Some(signal)) => Exit::signalled(signal),
        (None, None) => Exit { reason: ExitReason::Unknown, code: None, ..Exit::exited(0) },
    }
}
