//! Proving that a process is what a scan took it for, through a handle that is then acted on.

use std::io;

use rustix::process::Signal;
use sexton_core::identity::Match;
use sexton_core::membership::Cookie;
use sexton_core::{Liveness, ProcessIdentity};

use crate::LinuxProbe;
use crate::cgroup::Cgroup;
use crate::handle::Handle;
use crate::stat::Stat;
use crate::sweep::Wanted;

/// No tree of processes is deeper than this; a walk that is longer goes in circles.
const MAX_DEPTH: usize = 10_000;

/// A process whose identity, and whatever else was asked, was true while its handle was open.
#[derive(Debug)]
pub(crate) struct Proved {
    pub(crate) handle: Handle,
    pub(crate) identity: ProcessIdentity,
    pub(crate) stat: Stat,
}

impl LinuxProbe {
    /// Takes hold of a process, asks `check` about it, and sees that it had not exited by then. `None`
    /// where any of this is not so: nothing may be done to it.
    pub(crate) fn prove(
        &self,
        pid: u32,
        check: impl FnOnce(&Proved) -> io::Result<bool>,
    ) -> io::Result<Option<Proved>> {
        let Some(handle) = Handle::open(pid)? else { return Ok(None) };
        let Some(stat) = self.load_stat(&handle)? else { return Ok(None) };
        let identity = self.identity_from(&handle, &stat)?;
        let candidate = Proved { handle, identity, stat };
        let holds = check(&candidate)? && !candidate.handle.has_exited()?;
        Ok(holds.then_some(candidate))
    }

    /// Signals a recorded process through the very handle that proved it.
    pub(crate) fn signal_process(&self, recorded: &ProcessIdentity, signal: i32) -> io::Result<Liveness> {
        let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
        let same = |found: &Proved| Ok(recorded.compare(&found.identity) == Match::Same);
        match self.prove(recorded.pid, same)? {
            Some(proved) if proved.handle.signal(signal)? => Ok(Liveness::Alive),
            Some(_) => Ok(Liveness::Gone),
            None => Ok(match self.observe_process(recorded) {
                // It came between the two looks; whoever asks again gets the signal through.
                Liveness::Alive => Liveness::Unknown("it could not be proved at that moment".to_owned()),
                other => other,
            }),
        }
    }

    pub(crate) fn carries(&self, process: &Proved, session: &str) -> io::Result<bool> {
        let cookie = self.load_cookie(process.handle.pid, &process.stat)?;
        Ok(matches!(cookie, Some(Cookie::Session(id)) if id == session))
    }

    /// Whether it is in no session but perhaps one of `sessions`.
    pub(crate) fn is_in_no_other(&self, process: &Proved, sessions: &[&str]) -> io::Result<bool> {
        Ok(match self.load_cookie(process.handle.pid, &process.stat)? {
            Some(Cookie::Session(id)) => sessions.contains(&id.as_str()),
            Some(Cookie::Absent | Cookie::Unreadable) => true,
            None => false,
        })
    }

    pub(crate) fn is_contained(&self, process: &Proved, cgroup: &Cgroup) -> io::Result<bool> {
        Ok(cgroup.load_processes()?.contains(&process.handle.pid))
    }

    /// Whether it has no cookie, and the nearest of its ancestors that belongs to anybody belongs to
    /// the session. Every ancestor on the way is held, and the chain is read twice: a link that was the same
    /// before and after, between processes that have not exited, is a link between these very processes.
    pub(crate) fn descends(&self, process: &Proved, wanted: &Wanted) -> io::Result<bool> {
        if self.load_cookie(process.handle.pid, &process.stat)? != Some(Cookie::Absent) {
            return Ok(false);
        }
        let mut ancestors: Vec<Handle> = Vec::new();
        let mut parent = process.stat.parent;
        loop {
            let Some(handle) = Handle::open(parent)? else { return Ok(false) };
            let Some(stat) = self.load_stat(&handle)? else { return Ok(false) };
            let ancestor = Proved { identity: self.identity_from(&handle, &stat)?, handle, stat };
            let belongs = self.belonging(&ancestor, wanted)?;
            ancestors.push(ancestor.handle);
            match belongs {
                Belonging::Here => break,
                Belonging::Elsewhere => return Ok(false),
                Belonging::Nowhere => parent = stat.parent,
            }
            if ancestors.len() > MAX_DEPTH {
                return Ok(false);
            }
        }
        self.is_unbroken(&process.handle, &ancestors)
    }

    fn belonging(&self, ancestor: &Proved, wanted: &Wanted) -> io::Result<Belonging> {
        let group = wanted.group;
        let recorded = group.process.iter().chain(&group.supervisor).chain(wanted.known.iter().copied());
        if recorded.into_iter().any(|known| known.compare(&ancestor.identity) == Match::Same) {
            return Ok(Belonging::Here);
        }
        Ok(match self.load_cookie(ancestor.handle.pid, &ancestor.stat)? {
            Some(Cookie::Session(id)) if id == group.session.as_str() => Belonging::Here,
            Some(Cookie::Absent) => Belonging::Nowhere,
            Some(Cookie::Session(_) | Cookie::Unreadable) | None => Belonging::Elsewhere,
        })
    }

    fn is_unbroken(&self, child: &Handle, ancestors: &[Handle]) -> io::Result<bool> {
        let mut child = child;
        for ancestor in ancestors {
            let parent = self.load_stat(child)?.map(|stat| stat.parent);
            if parent != Some(ancestor.pid) {
                return Ok(false);
            }
            child = ancestor;
        }
        for ancestor in ancestors {
            if ancestor.has_exited()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whose an ancestor is.
enum Belonging {
    Here,
    /// Another session's, or nobody can tell.
    Elsewhere,
    /// Nobody's: the next one up decides.
    Nowhere,
}
