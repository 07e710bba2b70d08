//! One pass over `/proc`: every live process with its parent, its start and the evidence for its session.

use std::collections::HashSet;
use std::io;
use std::time::Instant;

use sexton_core::membership::{Cookie, Sighting, parse_limits};

use crate::LinuxProbe;
use crate::credentials::Credentials;
use crate::handle::Handle;
use crate::procfs_dir::is_refusal;
use crate::reader::is_own_reader;
use crate::reading::Reading;
use crate::stat::Stat;

/// A live process, as seen by the pass.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) sighting: Sighting,
    pub(crate) stat: Stat,
}

impl Row {
    pub(crate) fn pid(&self) -> u32 {
        self.sighting.pid
    }
}

/// Result of a pass.
pub(crate) struct Scan {
    pub(crate) rows: Vec<Row>,
    /// Whether it read every process of its first listing.
    pub(crate) read_first_listing: bool,
    /// Whether it completed. Processes that fork faster than the pass reads can prevent that.
    pub(crate) complete: bool,
}

/// Number of processes that are read together. With more, the processes of a chain that forks and exits would
/// be gone before their turn.
const AT_ONCE: usize = 16;

/// What a pass reads about each process.
pub(crate) struct Depth<'a> {
    /// Reads environments; without it the pass reads nothing that a process could make slow.
    pub(crate) environments: Option<&'a Reading>,
    /// Whether to read limits.
    pub(crate) limits: bool,
    /// Processes that need no environment, by pid and start.
    pub(crate) known: HashSet<(u32, u64)>,
    /// Processes to read first, whether the pass completes or not.
    pub(crate) first: Vec<u32>,
}

impl LinuxProbe {
    /// Reads every process, until `until` at the latest. `on_row` is called for each one immediately: a
    /// process that is about to fork and exit can be proved only then.
    ///
    /// One listing is not enough: a process that forked and exited between being listed and being read left a
    /// child that the listing does not contain. After the second one `is_enough` is asked whether others matter.
    pub(crate) fn scan(
        &self,
        depth: &Depth,
        until: Instant,
        is_enough: impl Fn() -> io::Result<bool>,
        mut on_row: impl FnMut(&Row) -> io::Result<()>,
    ) -> io::Result<Scan> {
        let mut rows = Vec::new();
        let mut visited = HashSet::new();
        let mut fresh = depth.first.clone();
        let mut listings = 0;
        loop {
            fresh.retain(|pid| visited.insert(*pid));
            let mut unread = fresh.len();
            for pids in fresh.chunks(AT_ONCE) {
                for row in self.load_rows(pids, depth)? {
                    on_row(&row)?;
                    rows.push(row);
                }
                unread -= pids.len();
                if listings > 0 && Instant::now() >= until {
                    return Ok(Scan {
                        rows,
                        read_first_listing: listings > 1 || unread == 0,
                        complete: false,
                    });
                }
            }
            if listings > 0 && fresh.is_empty() {
                return Ok(Scan { rows, read_first_listing: true, complete: true });
            }
            if listings > 1 && is_enough()? {
                return Ok(Scan { rows, read_first_listing: true, complete: false });
            }
            listings += 1;
            fresh = self.proc.list_pids()?;
        }
    }

    /// Reads some processes. Their environments are requested all at once, so that this process and the
    /// reader do not wait for each other at each one.
    fn load_rows(&self, pids: &[u32], depth: &Depth) -> io::Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(pids.len());
        for pid in pids {
            rows.extend(self.load_outline(*pid, depth)?);
        }
        let Some(reading) = depth.environments else { return Ok(rows) };
        let is_known = |row: &Row| depth.known.contains(&(row.pid(), row.stat.start_ticks));
        let is_counted = |row: &Row| row.sighting.is_own_user || sexton_mutant::is("any_users_cookie");
        let is_asked = |row: &Row| is_counted(row) && !is_known(row);
        let asked = rows.iter().filter(|row| is_asked(row));
        reading.ask(&self.proc, asked.map(|row| (row.pid(), row.stat.start_ticks)))?;
        let mut read = Vec::with_capacity(rows.len());
        for mut row in rows {
            // Another user's cookie proves nothing, and reading it would give that user a way to delay this.
            if is_asked(&row) {
                let Some(cookie) = self.load_cookie(reading, row.pid(), &row.stat)? else { continue };
                row.sighting.cookie = cookie;
            }
            read.push(row);
        }
        Ok(read)
    }

    /// Reads one process without its environment; returns `None` if it is gone, a zombie, a kernel thread or
    /// one of our readers.
    fn load_outline(&self, pid: u32, depth: &Depth) -> io::Result<Option<Row>> {
        let stat = match self.proc.load_stat(&pid.to_string()) {
            Err(error) if is_refusal(&error) => return Ok(None),
            stat => stat?,
        };
        let Some(stat) = stat.filter(|stat| !stat.is_zombie() && !stat.is_kernel_thread()) else {
            return Ok(None);
        };
        if is_own_reader(pid) {
            return Ok(None);
        }
        let Some(is_own_user) = self.is_of_own_user(pid)? else { return Ok(None) };
        let wants_limit = depth.limits && (is_own_user || sexton_mutant::is("mark_is_enough"));
        let limit = if wants_limit { self.load_limit(pid)? } else { None };
        let cookie = Cookie::Unreadable;
        Ok(Some(Row { sighting: Sighting { pid, parent: stat.parent, cookie, limit, is_own_user }, stat }))
    }

    /// Returns whether a process runs as our user; `None` if it is gone.
    pub(crate) fn is_of_own_user(&self, pid: u32) -> io::Result<Option<bool>> {
        let Some(directory) = self.proc.load_metadata(&pid.to_string())? else { return Ok(None) };
        // Root owns the directories of its own processes and of every process that may not be examined.
        match directory.st_uid {
            0 => {}
            owner => return Ok(Some(owner == self.here.uid)),
        }
        match Credentials::load(&self.proc, &pid.to_string()) {
            Err(error) if is_refusal(&error) => Ok(Some(false)),
            found => Ok(found?.map(|credentials| credentials.is_of_user(self.here.uid))),
        }
    }

    /// Returns the file lock limit of a process, if it has one.
    pub(crate) fn load_limit(&self, pid: u32) -> io::Result<Option<u64>> {
        match self.proc.load(&format!("{pid}/limits")) {
            Err(error) if is_refusal(&error) => Ok(None),
            limits => Ok(limits?.and_then(|limits| parse_limits(&limits))),
        }
    }

    /// Adds the processes that `/proc` hides: children of visible processes, and processes in control groups.
    /// No file shows the children of a hidden process.
    pub(crate) fn add_hidden(&self, rows: &mut Vec<Row>, contained: &HashSet<u32>) -> io::Result<()> {
        if !self.hides_processes()? {
            return Ok(());
        }
        let shown: HashSet<u32> = rows.iter().map(Row::pid).collect();
        let mut hidden: Vec<(u32, u32)> = contained.iter().map(|pid| (*pid, 0)).collect();
        for row in rows.iter().filter(|row| row.sighting.is_own_user) {
            match self.proc.load_children(row.pid()) {
                Err(error) if is_refusal(&error) => {}
                children => hidden.extend(children?.into_iter().map(|child| (child, row.pid()))),
            }
        }
        // Prefer the entry with a parent.
        hidden.sort_unstable_by_key(|(pid, parent)| (*pid, std::cmp::Reverse(*parent)));
        hidden.dedup_by_key(|(pid, _)| *pid);
        for (pid, parent) in
            hidden.into_iter().filter(|(pid, _)| !shown.contains(pid) && !is_own_reader(*pid))
        {
            let Some(handle) = Handle::open(pid)? else { continue };
            if let Some(stat) = self.find_stat(&handle)?.filter(Stat::is_hidden) {
                let cookie = Cookie::Unreadable;
                let sighting = Sighting { pid, parent, cookie, limit: None, is_own_user: false };
                rows.push(Row { sighting, stat });
            }
        }
        Ok(())
    }
}
