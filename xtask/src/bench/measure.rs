//! Timing in turns, and what many times come to.

use std::fmt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::steps::shown;

/// What the times of one thing come to: the middle one, and those between which the middle half lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    /// Half of them took longer.
    pub(super) median: Duration,
    /// A quarter of them was faster.
    low: Duration,
    /// A quarter of them was slower.
    high: Duration,
}

impl Timing {
    /// What `times` come to.
    ///
    /// # Panics
    /// Where there are none: nothing was measured then, and no number could stand for that.
    pub(super) fn of(mut times: Vec<Duration>) -> Timing {
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 4];
        Timing { median: at(2), low: at(1), high: at(3) }
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let digits = if self.median < Duration::from_millis(100) { 2 } else { 0 };
        let [median, low, high] = [self.median, self.low, self.high].map(millis);
        write!(f, "{median:.digits$} ms ({low:.digits$}–{high:.digits$})")
    }
}

/// One of those that are timed in turns.
pub(super) struct Contender<'a> {
    /// What is timed.
    act: Box<dyn FnMut() -> Result + 'a>,
    /// What follows without a clock, so that nothing of it is left to weigh on the next one's time.
    settle: Box<dyn FnMut() -> Result + 'a>,
}

impl<'a> Contender<'a> {
    /// One that leaves nothing behind.
    pub(super) fn new(act: impl FnMut() -> Result + 'a) -> Contender<'a> {
        Contender::settled(act, || Ok(()))
    }

    /// One whose work goes on after it has returned.
    pub(super) fn settled(
        act: impl FnMut() -> Result + 'a,
        settle: impl FnMut() -> Result + 'a,
    ) -> Contender<'a> {
        Contender { act: Box::new(act), settle: Box::new(settle) }
    }

    /// A program, from before it is started until it is reaped. One that fails is no measurement: failing
    /// is fast.
    pub(super) fn program(mut command: Command) -> Contender<'a> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Contender::new(move || succeed(&mut command))
    }
}

/// Lets each of `contenders` act `repetitions` times, in turns.
pub(super) fn in_turns<const N: usize>(
    repetitions: usize,
    mut contenders: [Contender<'_>; N],
) -> Result<[Timing; N]> {
    let mut samples = [const { Vec::new() }; N];
    for turn in 0..=repetitions {
        for (contender, samples) in contenders.iter_mut().zip(&mut samples) {
            let began = Instant::now();
            (contender.act)()?;
            let took = began.elapsed();
            (contender.settle)()?;
            // The first turn is without a clock, so that nobody pays for a cold cache.
            if turn > 0 {
                samples.push(took);
            }
        }
    }
    Ok(samples.map(Timing::of))
}

/// Runs each of `commands` `repetitions` times, in turns.
pub(super) fn medians<const N: usize>(repetitions: usize, commands: [Command; N]) -> Result<[Timing; N]> {
    in_turns(repetitions, commands.map(Contender::program))
}

/// Runs `command` to its end, which must be a good one.
pub(super) fn succeed(command: &mut Command) -> Result {
    let status = command.status().map_err(|error| format!("{}: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}`: {status}", shown(command)).into()) }
}

/// What `command` prints, once it has ended well.
pub(super) fn output_of(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}`: {}: {said}", shown(command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_see_an_outlier() {
        let timing = Timing::of([3, 1, 900, 2, 4].map(Duration::from_millis).to_vec());
        assert_eq!(timing.to_string(), "3.00 ms (2.00–4.00)");
    }

    #[test]
    fn a_program_that_takes_longer_is_seen_to() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let [short, long] = medians(3, [shell(":"), shell("sleep 0.3")]).unwrap();
        let (short, long) = (short.median, long.median);
        assert!(long >= Duration::from_millis(300) && short < long, "{short:?} {long:?}");
    }

    #[test]
    fn what_settles_is_not_timed() {
        let nap = Duration::from_millis(300);
        let settle = || {
            std::thread::sleep(nap);
            Ok(())
        };
        let [timing] = in_turns(1, [Contender::settled(|| Ok(()), settle)]).unwrap();
        assert!(timing.median < nap, "{timing:?}");
    }

    #[test]
    fn a_program_that_fails_is_no_measurement() {
        let error = medians(3, [Command::new("false")]).unwrap_err().to_string();
        assert_eq!(error, "`false`: exit status: 1");
    }
}
