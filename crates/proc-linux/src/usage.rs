//! Resource usage of sessions' processes, from one pass for all sessions.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use sexton_core::Others;
use sexton_core::probe::{Group, Usage};

use crate::LinuxProbe;
use crate::neighbours::OtherGroups;
use crate::reading::Reading;
use crate::sweep::{Found, SWEEP_LIMIT, Search, Wanted};

impl LinuxProbe {
    /// Returns the usage of each group's members. If processes fork faster than they are read, the result is
    /// partial.
    pub(crate) fn measure(&self, groups: &[Group]) -> io::Result<Vec<Usage>> {
        let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut collect = |numbers: &[usize], find: Found| {
            if let Found::Member(process, _) = find {
                members.insert(process.handle.pid, numbers.to_vec());
            }
        };
        let wanted: Vec<_> = groups.iter().map(|group| Wanted { group, known: Vec::new() }).collect();
        let (others, reading) = (Others::none(), Reading::default());
        let others = OtherGroups::new(&others, &[]);
        let until = Instant::now() + SWEEP_LIMIT;
        let search = Search { wanted: &wanted, others: &others, reading: Some(&reading), until };
        self.sweep(&search, &mut collect)?;
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
