//! Computes CPU usage from the CPU time used between two measurements.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sexton_core::SessionId;
use sexton_core::probe::Usage;

/// The resource usage of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// The number of processes.
    pub processes: usize,
    /// The CPU usage in percent of one CPU; `None` until the second measurement.
    pub cpu: Option<f64>,
    /// The memory in bytes.
    pub memory: u64,
}

/// Keeps the last measurement of each session.
#[derive(Default)]
pub struct Meter {
    last: HashMap<SessionId, (Instant, Duration)>,
}

impl Meter {
    /// Returns the figures at `now`. Drops the measurements of sessions that are not in `usage`.
    pub fn read(
        &mut self,
        usage: impl IntoIterator<Item = (SessionId, Usage)>,
        now: Instant,
    ) -> HashMap<SessionId, Figures> {
        let mut last = HashMap::new();
        let mut figures = HashMap::new();
        for (session, usage) in usage {
            let before = self.last.get(&session);
            let cpu = before.and_then(|(then, used)| {
                let passed = now.saturating_duration_since(*then);
                (!passed.is_zero())
                    .then(|| 100.0 * usage.cpu.saturating_sub(*used).as_secs_f64() / passed.as_secs_f64())
            });
            last.insert(session.clone(), (now, usage.cpu));
            figures.insert(session, Figures { processes: usage.processes, cpu, memory: usage.memory });
        }
        self.last = last;
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cpu_ms: u64) -> Usage {
        Usage { processes: 1, cpu: Duration::from_millis(cpu_ms), memory: 4096 }
    }

    #[test]
    fn cpu_usage_is_measured_between_two_readings() {
        let id = SessionId::random();
        let begin = Instant::now();
        let mut meter = Meter::default();
        let mut cpu = |used, after| {
            let now = begin + Duration::from_secs(after);
            meter.read([(id.clone(), usage(used))], now)[&id].cpu
        };
        assert_eq!(cpu(5000, 0), None, "one measurement is not enough");
        assert_eq!(cpu(8000, 2), Some(150.0));
        assert_eq!(cpu(8000, 4), Some(0.0));
        assert_eq!(cpu(7000, 6), Some(0.0), "the CPU time of an exited child is lost");
    }

    #[test]
    fn ended_sessions_are_dropped() {
        let (one, two) = (SessionId::random(), SessionId::random());
        let begin = Instant::now();
        let mut meter = Meter::default();
        meter.read([(one.clone(), usage(0)), (two.clone(), usage(0))], begin);
        meter.read([(one.clone(), usage(0))], begin + Duration::from_secs(1));
        let again = [(two.clone(), usage(0))];
        assert_eq!(meter.read(again, begin + Duration::from_secs(2))[&two].cpu, None);
    }
}
