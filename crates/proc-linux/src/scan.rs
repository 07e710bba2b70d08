//! One pass over `/proc`: every living program with its parent, its start and its cookie.

use std::io;
use std::ops::ControlFlow;
use std::time::Instant;

use sexton_core::membership::Sighting;

use crate::LinuxProbe;
use crate::stat::Stat;

/// A living program, as the pass saw it.
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

/// What a pass found.
pub(crate) struct Scan {
    pub(crate) rows: Vec<Row>,
    /// Whether it came to the end. Processes that fork faster than we look can keep it from that.
    pub(crate) complete: bool,
}

impl LinuxProbe {
    /// Looks at every process, until the moment `until` at most. `at_sight` is called for each one while
    /// it is fresh: one that is about to fork and exit can be proved there and then, or never.
    pub(crate) fn scan(
        &self,
        until: Instant,
        mut at_sight: impl FnMut(&Row) -> io::Result<()>,
    ) -> io::Result<Scan> {
        let mut rows = Vec::new();
        let ended = self.proc.for_each_pid(|pid| {
            if let Some(row) = self.load_row(pid)? {
                at_sight(&row)?;
                rows.push(row);
            }
            Ok(if Instant::now() < until { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(Scan { rows, complete: ended.is_continue() })
    }

    /// Looks at one process; `None` where it is gone, a zombie, or a part of the kernel.
    pub(crate) fn load_row(&self, pid: u32) -> io::Result<Option<Row>> {
        let Some(stat) = self.proc.load_stat(&pid.to_string())? else { return Ok(None) };
        if stat.is_zombie() || stat.is_kernel_thread() {
            return Ok(None);
        }
        let Some(cookie) = self.load_cookie(pid, &stat)? else { return Ok(None) };
        Ok(Some(Row { sighting: Sighting { pid, parent: stat.parent, cookie }, stat }))
    }
}
