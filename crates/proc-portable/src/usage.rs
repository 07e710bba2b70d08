//! What the processes of sessions use: one look at the machine for all of them.

use std::io;
use std::time::Instant;

use sexton_core::probe::{Group, Usage};

use crate::PortableProbe;
use crate::look::measure_one;
use crate::sweep::LOOK_LIMIT;

impl PortableProbe {
    /// What the members of each group use. What forks faster than it is read is measured as far as it was.
    pub(crate) fn measure(&self, groups: &[Group]) -> io::Result<Vec<Usage>> {
        let known = vec![Vec::new(); groups.len()];
        let sweep = self.sweep(groups, &known, Instant::now() + LOOK_LIMIT)?;
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
