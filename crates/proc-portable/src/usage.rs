//! Resource usage of sessions' processes, from one pass for all sessions.

use std::io;
use std::time::Instant;

use sexton_core::Others;
use sexton_core::probe::{Group, Usage};

use crate::PortableProbe;
use crate::look::measure_one;
use crate::sweep::{SWEEP_LIMIT, Search, Unanswered};

impl PortableProbe {
    /// Returns the usage of each group's members. If processes fork faster than they are read, the result is
    /// partial.
    pub(crate) fn measure(&self, groups: &[Group]) -> io::Result<Vec<Usage>> {
        let known = vec![Vec::new(); groups.len()];
        let sweep = self.sweep(&Search {
            groups,
            known: &known,
            others: &Others::none(),
            unanswered: Some(&Unanswered::default()),
            until: Instant::now() + SWEEP_LIMIT,
            hold_except: None,
        })?;
        let mut usage = vec![Usage::default(); groups.len()];
        for (usage, roster) in usage.iter_mut().zip(&sweep.rosters) {
            for (pid, _) in &roster.members {
                if let Some((cpu, memory)) = measure_one(*pid)? {
                    usage.add(cpu, memory);
                }
            }
        }
        Ok(usage)
    }
}
