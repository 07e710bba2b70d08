//! The events that a shim waits for, all at once and without waking up in between.

use std::io;
use std::path::Path;
use std::time::Instant;

use sexton_core::{ProcessIdentity, ProcessProbe};

use crate::platform::{DirectoryWatch, SignalPipe, wait_for};
use crate::wait::{ProcessWatch, Watched, watch_process};

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A child exited: the command, or a process that was re-parented to us.
    ChildEnded,
    /// Another process requests that we read our record again.
    ReadAgain,
    /// The owner is gone.
    OwnerGone,
    /// A command that is not our child is gone.
    CommandGone,
    /// The log was written to.
    LogGrew,
}

/// Everything that is watched.
pub(crate) struct EventSources {
    signals: SignalPipe,
    owner: Option<ProcessWatch>,
    command: Option<ProcessWatch>,
    log: Option<DirectoryWatch>,
}

/// Result of watching an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerWatch {
    /// It is watched.
    Watched,
    /// It is already gone.
    Gone,
    /// Its identity cannot be verified, so its death cannot be detected or acted on.
    Unknowable,
}

impl EventSources {
    /// Starts to watch for signals. From here on they are blocked in this process.
    pub(crate) fn open() -> io::Result<EventSources> {
        let signals = SignalPipe::open(&[libc::SIGCHLD, libc::SIGUSR1, DirectoryWatch::SIGNAL])?;
        Ok(EventSources { signals, owner: None, command: None, log: None })
    }

    /// Watches `owner` instead of the previous one.
    pub(crate) fn watch_owner(&mut self, probe: &dyn ProcessProbe, owner: &ProcessIdentity) -> OwnerWatch {
        self.owner = None;
        match watch_process(probe, owner) {
            Watched::Alive(watch) => {
                self.owner = Some(watch);
                OwnerWatch::Watched
            }
            Watched::Gone => OwnerWatch::Gone,
            Watched::Unknown(_) => OwnerWatch::Unknowable,
        }
    }

    /// Watches a command that is not our child. Returns whether it is alive; an error with the reason if that is
    /// unknown.
    pub(crate) fn watch_command(
        &mut self,
        probe: &dyn ProcessProbe,
        command: &ProcessIdentity,
    ) -> io::Result<bool> {
        match watch_process(probe, command) {
            Watched::Alive(watch) => {
                self.command = Some(watch);
                Ok(true)
            }
            Watched::Gone => Ok(false),
            Watched::Unknown(why) => Err(io::Error::other(why)),
        }
    }

    /// Stops watching the owner.
    pub(crate) fn forget_owner(&mut self) {
        self.owner = None;
    }

    /// Requests a notification for the next write to the log. If that fails, the log must be polled.
    pub(crate) fn watch_log(&mut self, path: &Path) -> io::Result<()> {
        if self.log.is_none() {
            self.log = Some(DirectoryWatch::beside(path)?);
        }
        self.log.as_ref().map_or(Ok(()), DirectoryWatch::arm)
    }

    /// Waits until an event happens or `until` is reached.
    pub(crate) fn wait(&self, until: Option<Instant>) -> io::Result<Vec<Event>> {
        let mut fds = vec![self.signals.as_fd()];
        fds.extend(self.owner.as_ref().map(|owner| owner.watch.as_fd()));
        fds.extend(self.command.as_ref().map(|command| command.watch.as_fd()));
        fds.extend(self.log.as_ref().and_then(DirectoryWatch::as_fd));
        let mut ready = wait_for(&fds, until)?.into_iter();
        let mut events = Vec::new();
        if ready.next() == Some(true) {
            while let Some(signal) = self.signals.take()? {
                events.push(match signal {
                    libc::SIGUSR1 => Event::ReadAgain,
                    DirectoryWatch::SIGNAL => Event::LogGrew,
                    _ => Event::ChildEnded,
                });
            }
        }
        if self.owner.is_some() && ready.next() == Some(true) {
            events.push(Event::OwnerGone);
        }
        if self.command.is_some() && ready.next() == Some(true) {
            events.push(Event::CommandGone);
        }
        if let Some(log) = &self.log
            && log.as_fd().is_some()
            && ready.next() == Some(true)
        {
            log.drain();
            events.push(Event::LogGrew);
        }
        Ok(events)
    }
}
