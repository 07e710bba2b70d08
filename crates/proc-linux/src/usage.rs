//! What the processes of sessions use: one look at the machine for all of them.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use sexton_core::probe::{Group, Usage};

use crate::LinuxProbe;
use crate::sweep::{Found, SWEEP_LIMIT, Wanted};

impl LinuxProbe {
    /// What the members of each group use. What forks faster than it is read is measured as far as it was.
    pub(crate) fn measure(&self, groups: &[Group]) -> io::Result<Vec<Usage>> {
        let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut collect = |numbers: &[usize], find: Found| {
            if let Found::Member(process, _) = find {
                members.insert(process.handle.pid, numbers.to_vec());
            }
        };
        let wanted: Vec<_> = groups.iter().map(|group| Wanted { group, known: Vec::new() }).collect();
        self.sweep(&wanted, Instant::now() + SWEEP_LIMIT, &mut collect)?;
        let mut usage = vec![Usage::default(); groups.len()];
        for (pid, numbers) in members {
            let Some(stat) = self.proc.load_stat(&pid.to_string())? else { continue };
            for number in numbers {
                usage[number].add(stat.cpu_time(), stat.resident_bytes());
            }
        }
        Ok(usage)
    }
}
