//! Timing in turns, and its statistics.

use std::fmt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sexton_workspace::command::shown;

use crate::Result;

/// The statistics of several times: the median and the quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    /// Half of them took longer.
    pub(super) median: Duration,
    /// A quarter of them took less.
    low: Duration,
    /// A quarter of them took longer.
    high: Duration,
}

impl Timing {
    /// Computes the statistics of `times`.
    ///
    /// # Panics If `times` is empty: nothing was measured then.
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

/// One of the operations that are timed in turns.
pub(super) struct Contender<'a> {
    /// What is timed.
    act: Box<dyn FnMut() -> Result + 'a>,
    /// Runs afterwards, untimed, so that nothing of it slows down the next operation.
    settle: Box<dyn FnMut() -> Result + 'a>,
}

impl<'a> Contender<'a> {
    /// An operation that leaves nothing behind.
    pub(super) fn new(act: impl FnMut() -> Result + 'a) -> Contender<'a> {
        Contender::settled(act, || Ok(()))
    }

    /// An operation whose work continues after it has returned.
    pub(super) fn settled(
        act: impl FnMut() -> Result + 'a,
        settle: impl FnMut() -> Result + 'a,
    ) -> Contender<'a> {
        Contender { act: Box::new(act), settle: Box::new(settle) }
    }

    /// A program, from before it is started until it is reaped. A program that fails is an error, because
    /// failing is fast.
    pub(super) fn program(mut command: Command) -> Contender<'a> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Contender::new(move || succeed(&mut command))
    }
}

/// Runs each of `contenders` `repetitions` times, in turns.
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
            // The first turn is not timed, so that no figure includes a cold cache.
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

/// Runs `command`, which must succeed.
pub(super) fn succeed(command: &mut Command) -> Result {
    let status = command.status().map_err(|error| format!("{}: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}`: {status}", shown(command)).into()) }
}

/// Returns what `command` prints; it must succeed.
pub(super) fn output_of(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", shown(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}`: {}: {stderr}", shown(command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_does_not_change_the_median() {
        let timing = Timing::of([3, 1, 900, 2, 4].map(Duration::from_millis).to_vec());
        assert_eq!(timing.to_string(), "3.00 ms (2.00–4.00)");
    }

    #[test]
    fn a_slower_program_has_a_longer_time() {
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
    fn settling_is_not_timed() {
        let nap = Duration::from_millis(300);
        let settle = || {
            std::thread::sleep(nap);
            Ok(())
        };
        let [timing] = in_turns(1, [Contender::settled(|| Ok(()), settle)]).unwrap();
        assert!(timing.median < nap, "{timing:?}");
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        let error = medians(3, [Command::new("false")]).unwrap_err().to_string();
        assert_eq!(error, "`false`: exit status: 1");
    }
}
