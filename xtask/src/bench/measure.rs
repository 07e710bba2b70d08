//! Timing whole programs in turns.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::steps::shown;

/// Runs each of `commands` `repetitions` times, in turns, and gives each one's median time from before
/// it was started until it was reaped. One that fails ends the measurement: failing is fast.
pub(super) fn medians<const N: usize>(
    repetitions: usize,
    mut commands: [Command; N],
) -> Result<[Duration; N]> {
    let mut samples = [const { Vec::new() }; N];
    for command in &mut commands {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Once without a clock, so that nobody pays for a cold cache.
        time(command)?;
    }
    for _ in 0..repetitions {
        for (command, samples) in commands.iter_mut().zip(&mut samples) {
            samples.push(time(command)?);
        }
    }
    Ok(samples.map(median))
}

fn time(command: &mut Command) -> Result<Duration> {
    let began = Instant::now();
    let status = command.status().map_err(|error| format!("{}: {error}", shown(command)))?;
    let took = began.elapsed();
    if status.success() { Ok(took) } else { Err(format!("`{}`: {status}", shown(command)).into()) }
}

/// The middle one of some times.
///
/// # Panics
/// Where there are none: nothing was measured then, and no number could stand for that.
pub(super) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_see_an_outlier() {
        let times = [3, 1, 900, 2, 4].map(Duration::from_millis);
        assert_eq!(median(times.to_vec()), Duration::from_millis(3));
    }

    #[test]
    fn a_program_that_takes_longer_is_seen_to() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let [short, long] = medians(3, [shell(":"), shell("sleep 0.3")]).unwrap();
        assert!(long >= Duration::from_millis(300) && short < long, "{short:?} {long:?}");
    }

    #[test]
    fn a_program_that_fails_is_no_measurement() {
        let error = medians(3, [Command::new("false")]).unwrap_err().to_string();
        assert_eq!(error, "`false`: exit status: 1");
    }
}
