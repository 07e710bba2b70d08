//! What a shim waits for, all of it at once and without waking up in between.

use std::io;
use std::path::Path;
use std::time::Instant;

use sexton_core::{ProcessIdentity, ProcessProbe};

use crate::platform::{GrowthWatch, SignalPipe, wait_for};
use crate::wait::{ProcessWatch, Watched, watch_process};

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A child ended: the command, or somebody who was re-parented to us.
    ChildEnded,
    /// Somebody asks us to read our record again.
    ReadAgain,
    /// The owner is gone.
    OwnerGone,
    /// A command that is not our child is gone.
    CommandGone,
    /// The log was written to.
    LogGrew,
}

/// Everything that is watched.
pub(crate) struct Outlook {
    signals: SignalPipe,
    owner: Option<ProcessWatch>,
    command: Option<ProcessWatch>,
    log: Option<GrowthWatch>,
}

/// What became of the wish to watch an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerWatch {
    /// It is watched.
    Watched,
    /// It is gone already.
    Gone,
    /// Nobody can tell which process it is, so its death cannot be seen, nor acted upon.
    Unknowable,
}

impl Outlook {
    /// Begins to watch for signals. From here on the process has them blocked.
    pub(crate) fn open() -> io::Result<Outlook> {
        let signals = SignalPipe::open(&[libc::SIGCHLD, libc::SIGUSR1])?;
        Ok(Outlook { signals, owner: None, command: None, log: None })
    }

    /// Watches `owner` instead of whoever was watched before.
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

    /// Watches a command that is not our child. Says whether it is there to be watched.
    pub(crate) fn watch_command(&mut self, probe: &dyn ProcessProbe, command: &ProcessIdentity) -> bool {
        if let Watched::Alive(watch) = watch_process(probe, command) {
            self.command = Some(watch);
        }
        self.command.is_some()
    }

    /// Watches nobody any more.
    pub(crate) fn forget_owner(&mut self) {
        self.owner = None;
    }

    /// Asks to be told when the log is next written to.
    pub(crate) fn watch_log(&mut self, path: &Path) -> io::Result<()> {
        if self.log.is_none() {
            self.log = Some(GrowthWatch::open()?);
        }
        self.log.as_ref().map_or(Ok(()), |log| log.arm(path))
    }

    /// Waits until something happens or `until` has come.
    pub(crate) fn wait(&self, until: Option<Instant>) -> io::Result<Vec<Event>> {
        let mut fds = vec![self.signals.as_fd()];
        fds.extend(self.owner.as_ref().map(|owner| owner.watch.as_fd()));
        fds.extend(self.command.as_ref().map(|command| command.watch.as_fd()));
        fds.extend(self.log.as_ref().map(GrowthWatch::as_fd));
        let mut ready = wait_for(&fds, until)?.into_iter();
        let mut events = Vec::new();
        if ready.next() == Some(true) {
            while let Some(signal) = self.signals.take()? {
                events.push(if signal == libc::SIGUSR1 { Event::ReadAgain } else { Event::ChildEnded });
            }
        }
        if self.owner.is_some() && ready.next() == Some(true) {
            events.push(Event::OwnerGone);
        }
        if self.command.is_some() && ready.next() == Some(true) {
            events.push(Event::CommandGone);
        }
        if let Some(log) = &self.log
            && ready.next() == Some(true)
        {
            log.drain();
            events.push(Event::LogGrew);
        }
        Ok(events)
    }
}
