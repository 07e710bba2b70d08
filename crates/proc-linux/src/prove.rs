//! Proves the identity of a process found by a scan, through the handle that is then used to signal it.

use std::io;

use rustix::process::Signal;
use sexton_core::identity::Match;
use sexton_core::membership::Cookie;
use sexton_core::probe::Group;
use sexton_core::{Liveness, ProcessIdentity};

use crate::LinuxProbe;
use crate::cgroup::Cgroup;
use crate::handle::Handle;
use crate::reading::Reading;
use crate::stat::Stat;
use crate::sweep::{Contained, Search, Wanted};

/// No process tree is deeper than this; a longer walk is a cycle.
const MAX_DEPTH: usize = 10_000;

/// A process whose identity, and the condition that was checked, held while its handle was open.
#[derive(Debug)]
pub(crate) struct Proved {
    pub(crate) handle: Handle,
    pub(crate) identity: ProcessIdentity,
    pub(crate) stat: Stat,
}

impl LinuxProbe {
    /// Opens a process, runs `check` on it, and verifies that it had not exited by then. Returns `None` if
    /// any of this fails: nothing may be done to the process.
    pub(crate) fn prove(
        &self,
        pid: u32,
        check: impl FnOnce(&Proved) -> io::Result<bool>,
    ) -> io::Result<Option<Proved>> {
        let Some(handle) = Handle::open(pid)? else { return Ok(None) };
        let Some(stat) = self.find_stat(&handle)? else { return Ok(None) };
        let identity = self.identity_from(&handle, &stat)?;
        let candidate = Proved { handle, identity, stat };
        let holds = check(&candidate)? && !candidate.handle.has_exited()?;
        Ok(holds.then_some(candidate))
    }

    /// Sends a signal to a recorded process through the handle that proved its identity.
    pub(crate) fn signal_process(&self, recorded: &ProcessIdentity, signal: i32) -> io::Result<Liveness> {
        let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
        let same = |found: &Proved| Ok(recorded.compare(&found.identity) == Match::Same);
        match self.prove(recorded.pid, same)? {
            Some(proved) if proved.handle.signal(signal)? => Ok(Liveness::Alive),
            Some(_) => Ok(Liveness::Gone),
            None => Ok(match self.observe_process(recorded) {
                // It appeared between the two checks; a retry sends the signal.
                Liveness::Alive => {
                    Liveness::Unknown("its identity could not be proved at that moment".to_owned())
                }
                other => other,
            }),
        }
    }

    pub(crate) fn carries(&self, reading: &Reading, process: &Proved, session: &str) -> io::Result<bool> {
        let cookie = self.load_cookie(reading, process.handle.pid, &process.stat)?;
        Ok(matches!(cookie, Some(Cookie::Session(id)) if id == session))
    }

    /// Returns whether the process has the limit mark of a session and runs as our user.
    pub(crate) fn has_mark(&self, process: &Proved, group: &Group) -> io::Result<bool> {
        let pid = process.handle.pid;
        let Some(mark) = group.limit_mark else { return Ok(false) };
        let is_ours = sexton_mutant::is("mark_is_enough") || self.is_of_own_user(pid)? == Some(true);
        Ok(is_ours && self.load_limit(pid)? == Some(mark))
    }

    pub(crate) fn is_contained(&self, process: &Proved, cgroup: &Cgroup) -> io::Result<bool> {
        Ok(cgroup.load_processes()?.contains(&process.handle.pid))
    }

    /// Returns whether the nearest ancestor that belongs to any session belongs to this one. Every ancestor
    /// on the way is held open and the chain is read twice: a link that was the same before and after,
    /// between processes that have not exited, is a link between exactly these processes. `parent` is the
    /// start of the chain for a process that `/proc` hides.
    pub(crate) fn descends(
        &self,
        process: &Proved,
        parent: u32,
        search: &Search,
        wanted: &Wanted,
        contained: Option<&Contained>,
    ) -> io::Result<bool> {
        let mut ancestors: Vec<Handle> = Vec::new();
        let mut parent = if process.stat.is_hidden() { parent } else { process.stat.parent };
        loop {
            let Some(handle) = Handle::open(parent)? else { return Ok(false) };
            let Some(stat) = self.load_stat(&handle)? else { return Ok(false) };
            let ancestor = Proved { identity: self.identity_from(&handle, &stat)?, handle, stat };
            let belongs = self.belonging(&ancestor, search, wanted, contained)?;
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
        self.is_unbroken(process, &ancestors)
    }

    fn belonging(
        &self,
        ancestor: &Proved,
        search: &Search,
        wanted: &Wanted,
        contained: Option<&Contained>,
    ) -> io::Result<Belonging> {
        let group = wanted.group;
        let recorded = group.process.iter().chain(&group.supervisor).chain(wanted.known.iter().copied());
        if recorded.into_iter().any(|known| known.compare(&ancestor.identity) == Match::Same) {
            return Ok(Belonging::Here);
        }
        let pid = ancestor.handle.pid;
        // If the evidence does not exclude another session, the ancestor counts as that session's.
        let mut others = search.others.recorded_as(pid);
        if others.any(|known| known.compare(&ancestor.identity) != Match::Different) {
            return Ok(Belonging::Elsewhere);
        }
        let is_here = match contained {
            Some(held) if held.processes.contains(&pid) => self.is_contained(ancestor, &held.cgroup)?,
            _ => false,
        };
        if is_here || self.has_mark(ancestor, group)? {
            return Ok(Belonging::Here);
        }
        let Some(reading) = search.reading else { return Ok(Belonging::Nowhere) };
        Ok(match self.carries(reading, ancestor, group.session.as_str())? {
            true => Belonging::Here,
            false => Belonging::Nowhere,
        })
    }

    fn is_unbroken(&self, process: &Proved, ancestors: &[Handle]) -> io::Result<bool> {
        let mut child = &process.handle;
        for (number, ancestor) in ancestors.iter().enumerate() {
            let is_child = if number == 0 && process.stat.is_hidden() {
                self.proc.load_children(ancestor.pid)?.contains(&child.pid)
            } else {
                self.load_stat(child)?.is_some_and(|stat| stat.parent == ancestor.pid)
            };
            if !is_child {
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

/// The session that an ancestor belongs to.
enum Belonging {
    Here,
    /// Another session.
    Elsewhere,
    /// No session: the next ancestor decides.
    Nowhere,
}
