//! Supervises a session from the open gate to the recorded end.

use std::fs::File;
use std::io;
use std::slice;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait, waitpid};
use sexton_core::probe::{EndPolicy, Group};
use sexton_core::session::{Cgroup, EndingReason, Exit, ExitReason, OnOwnerDeath};
use sexton_core::{ProcessIdentity, ProcessProbe, Session};

use super::event_sources::{Event, EventSources, OwnerWatch};
use super::gate::{NotExecuted, Step};
use super::recorder::{Recorder, Removal};
use super::trim::Trim;
use crate::control::Ready;
use crate::plan::Plan;
use crate::platform::InheritedLimits;
use crate::session_dir::SessionDir;
use crate::wait::{ProcessWatch, Watched, wait_for_all, watch_process};

/// How long to wait, after SIGKILL, until the kernel has removed a process.
pub(crate) const KILL_WAIT: Duration = Duration::from_secs(5);

/// Pause after the processes could not be inspected, and the number of retries.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
/// How often exited orphans are reaped while survivors are waited for.
const REAP_PAUSE: Duration = Duration::from_secs(1);

/// How often to try to read the record before it counts as unchanged.
const RECORD_ATTEMPTS: usize = 5;
const PROBE_RETRIES: usize = 60;

/// One session and what its shim needs to supervise it.
pub(crate) struct Supervised {
    plan: Plan,
    probe: Box<dyn ProcessProbe>,
    event_sources: EventSources,
    recorder: Recorder,
    log: File,
    process: ProcessIdentity,
    supervisor: ProcessIdentity,
    cgroup: Option<Cgroup>,
    limit_mark: Option<u64>,
    /// When it times out.
    deadline: Option<Instant>,
    /// When an orphan that was not adopted is stopped.
    orphaned_until: Option<Instant>,
    trim: Option<Trim>,
    /// Whether a note says that the log exceeds its limit.
    is_unbounded: bool,
    /// The limits before this process raised them, for the programs that it executes.
    limits: InheritedLimits,
    /// Whether the command is our child, so that orphans of the session become our children too.
    is_parent: bool,
    /// Why it is being stopped, once that is decided.
    ending: Option<EndingReason>,
}

impl Supervised {
    pub(crate) fn new(
        plan: Plan,
        probe: Box<dyn ProcessProbe>,
        event_sources: EventSources,
        log: File,
        ready: &Ready,
        limits: InheritedLimits,
    ) -> Supervised {
        // Split output is for a program that reads it in time; only the combined log is bounded.
        let trim = plan.log_max_bytes.filter(|_| plan.stderr_path.is_none()).map(Trim::to);
        Supervised {
            recorder: Recorder::of(&plan),
            deadline: plan.timeout.map(|timeout| Instant::now() + timeout),
            orphaned_until: None,
            is_parent: true,
            ending: None,
            process: ready.process.clone(),
            supervisor: ready.supervisor.clone(),
            cgroup: ready.cgroup.clone(),
            limit_mark: ready.limit_mark,
            plan,
            probe,
            event_sources,
            log,
            trim,
            is_unbounded: false,
            limits,
        }
    }

    /// Handles a failed start: makes sure that no record says that the session runs.
    pub(crate) fn give_up(&mut self) -> io::Result<()> {
        self.reap_command();
        self.release_cgroup();
        self.recorder.record_never_started()?;
        self.clear_unused_worktree();
        Ok(())
    }

    /// Handles a start that was cancelled before anything was recorded: removes everything.
    pub(crate) fn call_off(&mut self) -> io::Result<()> {
        self.reap_command();
        self.release_cgroup();
        self.recorder.remove_files()
    }

    /// Records that the command could not be executed.
    pub(crate) fn record_exec_failure(&mut self, failure: &NotExecuted) -> io::Result<()> {
        self.reap_command();
        self.release_cgroup();
        let missing = failure.step == Step::Execute && failure.errno == libc::ENOENT;
        let exit = Exit { reason: ExitReason::ExecFailed, ..Exit::exited(if missing { 127 } else { 126 }) };
        self.recorder.record_end(&exit, None, Timestamp::now().into())?;
        self.recorder.notify(self.plan.notify.as_ref(), &exit, self.limits);
        Ok(())
    }

    /// Waits for the command, and records its end.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.begin_watching();
        // The command's end is recorded even if waiting for other events fails.
        let status = self.wait_for_command().or_else(|_| self.wait_for_command_alone())?;
        self.conclude(&exit_of(status))
    }

    /// Waits for a command that is not our child, and records that it ended. Only its parent could know its
    /// exit status.
    pub(crate) fn watch(&mut self) -> io::Result<()> {
        self.begin_watching();
        self.is_parent = false;
        if self.watch_command()? {
            while !self.wait_for_events()?.contains(&Event::CommandGone) {}
        }
        self.conclude(&Exit { reason: ExitReason::Unknown, code: None, ..Exit::exited(0) })
    }

    /// Watches the command, and returns whether it is alive. One whose state stays unknown must not be stopped or
    /// reported as ended: the next recovery starts another supervisor.
    fn watch_command(&mut self) -> io::Result<bool> {
        for _ in 1..RECORD_ATTEMPTS {
            if let Ok(is_alive) = self.event_sources.watch_command(self.probe.as_ref(), &self.process) {
                return Ok(is_alive);
            }
            std::thread::sleep(PROBE_PAUSE);
        }
        self.event_sources.watch_command(self.probe.as_ref(), &self.process)
    }

    fn begin_watching(&mut self) {
        if let Some(owner) = self.plan.owner.clone() {
            self.watch_owner(&owner);
        }
        if sexton_mutant::is("drop_log_bound") {
            self.trim = None;
        }
        self.watch_log();
    }

    /// Requests a notification when the log grows. If the kernel refuses, the log is polled.
    fn watch_log(&mut self) {
        let (Some(trim), now) = (&mut self.trim, Instant::now()) else { return };
        let watched = self.event_sources.watch_log(self.plan.log_path.as_path());
        if watched.and_then(|()| trim.catch_up(&self.log, now)).is_err() {
            trim.plan_unwatched(now);
        }
    }

    fn conclude(&mut self, exit: &Exit) -> io::Result<()> {
        let finished_at = Timestamp::now().into();
        self.stop_leftovers();
        self.release_cgroup();
        self.recorder.record_end(exit, self.ending, finished_at)?;
        self.recorder.notify(self.plan.notify.as_ref(), exit, self.limits);
        // After a success, a worktree without work is removed. Otherwise it is kept for the user, or for
        // recovery.
        if self.plan.worktree && self.ending.is_none() && exit.code == Some(0) {
            self.recorder.become_cleaner(Removal::IfClean);
        }
        Ok(())
    }

    /// Removes the worktree of a session that never ran: its content existed before, and is rescued.
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

    /// Waits for events and handles them.
    fn wait_for_events(&mut self) -> io::Result<Vec<Event>> {
        let events = self.event_sources.wait(self.next_deadline())?;
        for event in &events {
            match event {
                Event::ChildEnded | Event::CommandGone => {}
                Event::ReadAgain => self.read_again(),
                Event::OwnerGone => self.start_owner_grace(),
                Event::LogGrew => self.trim.iter_mut().for_each(|trim| trim.plan(Instant::now())),
            }
        }
        self.handle_deadlines();
        Ok(events)
    }

    /// Waits only for the command.
    fn wait_for_command_alone(&self) -> io::Result<WaitStatus> {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if is(pid, self.process.pid) => return Ok(status),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let trim = self.trim.as_ref().and_then(Trim::due);
        [self.deadline, self.orphaned_until, trim].into_iter().flatten().min()
    }

    fn handle_deadlines(&mut self) {
        let now = Instant::now();
        if self.trim.as_ref().is_some_and(|trim| trim.is_due(now)) {
            self.trim_log();
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            // A probe that failed has stopped no process; it is tried again.
            let is_ended = self.end(EndingReason::Timeout);
            self.deadline = (!is_ended).then(|| Instant::now() + PROBE_PAUSE);
        }
        if self.orphaned_until.is_some_and(|until| until <= now) {
            self.orphaned_until = None;
            self.end_unless_adopted();
        }
    }

    /// Frees what exceeds the log's limit. If that fails, for example on a file system without holes, writes
    /// a note to the session's directory for `show` and `doctor`, and tries again later.
    fn trim_log(&mut self) {
        let Some(trim) = &mut self.trim else { return };
        let files = SessionDir::of(&self.plan.state_dir, &self.plan.session);
        match trim.apply(&self.log) {
            Ok(()) if self.is_unbounded => {
                files.forget_unbounded();
                self.is_unbounded = false;
            }
            Ok(()) => {}
            // If the note cannot be written, the next attempt writes it.
            Err(error) => self.is_unbounded |= files.note_unbounded(&error.to_string()).is_ok(),
        }
        self.watch_log();
    }

    fn watch_owner(&mut self, owner: &ProcessIdentity) {
        self.orphaned_until = None;
        match self.event_sources.watch_owner(self.probe.as_ref(), owner) {
            OwnerWatch::Watched | OwnerWatch::Unknowable => {}
            OwnerWatch::Gone => self.start_owner_grace(),
        }
    }

    fn start_owner_grace(&mut self) {
        self.event_sources.forget_owner();
        if self.plan.on_owner_death == OnOwnerDeath::End {
            self.orphaned_until = Some(Instant::now() + self.plan.owner_grace);
        }
    }

    /// Replaces a supervisor that is gone. Returns whether the session still needed one.
    pub(crate) fn take_over(&self, from: Option<&ProcessIdentity>) -> io::Result<bool> {
        self.recorder.replace_supervisor(from, &self.supervisor)
    }

    /// Handles a notification that the record changed: it may have another owner now.
    fn read_again(&mut self) {
        if let Some(session) = self.load_with_retries() {
            self.follow_record(&session);
        }
    }

    /// Reads the record, with retries: a store that is briefly unreadable must not cause an adopted session
    /// to be stopped.
    fn load_with_retries(&self) -> Option<Session> {
        for _ in 1..RECORD_ATTEMPTS {
            if let Ok(found) = self.recorder.load() {
                return found;
            }
            std::thread::sleep(PROBE_PAUSE);
        }
        self.recorder.load().ok().flatten()
    }

    fn end_unless_adopted(&mut self) {
        let before = self.plan.owner.clone();
        if let Some(session) = self.load_with_retries() {
            self.follow_record(&session);
        }
        let adopted = self.plan.owner != before || self.plan.on_owner_death == OnOwnerDeath::Keep;
        if !adopted {
            let is_ended = self.end(EndingReason::OwnerDead);
            self.orphaned_until = (!is_ended).then(|| Instant::now() + PROBE_PAUSE);
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
            None => self.event_sources.forget_owner(),
        }
    }

    /// Stops the session. If an ending is already recorded, its reason is kept. Returns whether the probe could
    /// search for its processes; those that remain are stopped again when the command is gone.
    fn end(&mut self, reason: EndingReason) -> bool {
        let decided = self.recorder.claim_ending(reason);
        self.ending = Some(decided);
        self.terminate_members().is_some()
    }

    /// Stops the members. Returns those that could not be stopped; `None` if the probe failed every time.
    fn terminate_members(&self) -> Option<Remaining> {
        let group = Group {
            session: self.plan.session.clone(),
            process: Some(self.process.clone()),
            supervisor: Some(self.supervisor.clone()),
            cgroup: self.cgroup.clone(),
            limit_mark: self.limit_mark,
        };
        let policy = EndPolicy {
            grace: self.plan.stop_grace,
            first_signal: libc::SIGINT,
            kill_wait: KILL_WAIT,
            spare: Vec::new(),
            others: self.recorder.load_others(),
        };
        for _ in 0..PROBE_RETRIES {
            if let Ok(ended) = pollster::block_on(self.probe.terminate(slice::from_ref(&group), &policy)) {
                let survivors = ended.into_iter().flat_map(|ended| ended.survivors);
                let survivors = survivors.map(|survivor| survivor.identity).collect();
                return Some(Remaining { survivors, others_known: policy.others.is_complete() });
            }
            // A probe that failed has stopped no process: the machine is short of a resource.
            std::thread::sleep(PROBE_PAUSE);
        }
        None
    }

    /// Stops what the command left behind. Orphans of the session become our children, so having no child
    /// proves that no process is left, without inspecting any.
    fn stop_leftovers(&mut self) {
        let mut failed_attempts = 0;
        while failed_attempts < PROBE_RETRIES && self.has_children_or_cannot_tell() {
            let progress = match self.terminate_members() {
                // Children that are not members are supervisors of sessions that were started inside this
                // one.
                Some(left) if left.survivors.is_empty() => break,
                // A session that was started inside may be among them: it is not waited for.
                Some(left) if !left.others_known => {
                    std::thread::sleep(PROBE_PAUSE);
                    false
                }
                // The session has not ended before they have, however long that takes.
                Some(left) => self.wait_until_gone(&left.survivors),
                None => false,
            };
            failed_attempts = if progress { 0 } else { failed_attempts + 1 };
        }
        self.has_children();
    }

    /// Waits for the survivors that can be watched. Returns whether at least one process is known to be gone;
    /// otherwise a pause has passed, after which the check is worth repeating.
    fn wait_until_gone(&self, survivors: &[ProcessIdentity]) -> bool {
        let (mut watches, mut all_known) = (Vec::new(), true);
        for survivor in survivors {
            match watch_process(self.probe.as_ref(), survivor) {
                Watched::Alive(watch) => watches.push(watch),
                Watched::Gone => {}
                Watched::Unknown(_) => all_known = false,
            }
        }
        let waited = self.wait_and_reap(&watches).is_ok();
        if watches.is_empty() || !waited {
            std::thread::sleep(PROBE_PAUSE);
        }
        waited && (all_known || !watches.is_empty())
    }

    /// Waits until every process is gone. Meanwhile orphans of the session that exit are reaped.
    fn wait_and_reap(&self, watches: &[ProcessWatch]) -> io::Result<()> {
        while !wait_for_all(watches, Some(Instant::now() + REAP_PAUSE))? {
            self.has_children();
        }
        Ok(())
    }

    /// Returns whether a process may be left. Without subreapers, or for a command that is not our child,
    /// having no child proves nothing.
    fn has_children_or_cannot_tell(&self) -> bool {
        self.has_children() || !self.is_parent || !cfg!(target_os = "linux")
    }

    /// Reaps exited children, and returns whether any child is left.
    fn has_children(&self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Reaps exited children; returns the command's status if it was among them.
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

    /// Waits for the process at the gate, which is exiting.
    fn reap_command(&self) {
        let pid = i32::try_from(self.process.pid).ok().and_then(Pid::from_raw);
        while let Err(Errno::INTR) = waitpid(pid, WaitOptions::empty()) {}
    }

    fn release_cgroup(&self) {
        if let Some(cgroup) = &self.cgroup {
            self.probe.release(cgroup);
        }
    }
}

/// Result of an attempt to stop the members.
struct Remaining {
    /// Processes that could not be stopped.
    survivors: Vec<ProcessIdentity>,
    /// Whether the other sessions were known, so that none of the survivors belongs to them.
    others_known: bool,
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
