//! The processor time that processes have used.

use std::fs;
use std::time::Duration;

use crate::Result;

/// Returns the processor time of all children that were reaped so far, with theirs. The kernel counts in
/// nanoseconds and shows hundredths of seconds: correct on average, over many rounds.
pub fn processor_time_of_children() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    Ok(ticks(&stat, 13).ok_or("/proc/self/stat cannot be read")?)
}

/// Returns the processor time of a process, with the children that it has reaped; zero if it is gone.
pub fn processor_time(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    [11, 13].iter().filter_map(|field| ticks(&stat, *field)).sum()
}

/// Returns the sum of two adjacent times in a `stat`; the first field after the name has the number 0.
fn ticks(stat: &str, field: usize) -> Option<Duration> {
    const TICK: Duration = Duration::from_millis(10);
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(field).map(|number| number.parse::<u32>().ok());
    Some(TICK * (times.next()?? + times.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_after_a_name_with_spaces() {
        let stat = "7 (a) S 1 (b) S 1 7 7 0 -1 4194304 1 2 3 4 10 20 300 400 20 0";
        assert_eq!(ticks(stat, 11), Some(Duration::from_millis(300)));
        assert_eq!(ticks(stat, 13), Some(Duration::from_secs(7)));
        assert_eq!(ticks("7 (a", 11), None);
    }
}
