//! From processor time to a share of a processor: what was used between two looks.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sexton_core::SessionId;
use sexton_core::probe::Usage;

/// What a session uses, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// How many processes it has.
    pub processes: usize,
    /// Its share of one processor in percent; `None` until it was looked at twice.
    pub cpu: Option<f64>,
    /// The memory that it holds, in bytes.
    pub memory: u64,
}

/// Remembers the last look at each session.
#[derive(Default)]
pub struct Meter {
    last: HashMap<SessionId, (Instant, Duration)>,
}

impl Meter {
    /// The figures at `now`. Sessions that are not among `usage` are forgotten.
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
    fn the_share_is_what_was_used_between_two_looks() {
        let id = SessionId::random();
        let begin = Instant::now();
        let mut meter = Meter::default();
        let mut cpu = |used, after| {
            let now = begin + Duration::from_secs(after);
            meter.read([(id.clone(), usage(used))], now)[&id].cpu
        };
        assert_eq!(cpu(5000, 0), None, "one look tells nothing");
        assert_eq!(cpu(8000, 2), Some(150.0));
        assert_eq!(cpu(8000, 4), Some(0.0));
        assert_eq!(cpu(7000, 6), Some(0.0), "a child took its time with it");
    }

    #[test]
    fn a_session_that_ended_is_forgotten() {
        let (one, two) = (SessionId::random(), SessionId::random());
        let begin = Instant::now();
        let mut meter = Meter::default();
        meter.read([(one.clone(), usage(0)), (two.clone(), usage(0))], begin);
        meter.read([(one.clone(), usage(0))], begin + Duration::from_secs(1));
        let again = [(two.clone(), usage(0))];
        assert_eq!(meter.read(again, begin + Duration::from_secs(2))[&two].cpu, None);
    }
}
