//! A sequence of steps: each is announced and timed, and the first that fails ends the sequence with the
//! command to repeat.
//!
//! The processor time is printed beside the time: a step that used little only waited, and other work could
//! have run meanwhile.

use std::process::Command;
use std::time::{Duration, Instant};

use sexton_workspace::command::shown;
use sexton_workspace::processor_time::processor_time_of_children;

use crate::Result;

/// The steps taken so far.
pub(crate) struct Steps {
    done: Vec<Step>,
}

/// One step.
struct Step {
    title: String,
    took: Duration,
    /// The processor time of everything that it started.
    used: Duration,
}

impl Steps {
    /// Creates an empty sequence.
    pub(crate) fn new() -> Steps {
        Steps { done: Vec::new() }
    }

    /// Runs `command` with the output of this process.
    pub(crate) fn run(&mut self, title: &str, command: &mut Command) -> Result {
        let again = shown(command);
        self.call(title, &again, || {
            let status = command.status().map_err(|error| format!("{again}: {error}"))?;
            if status.success() { Ok(()) } else { Err(status.to_string().into()) }
        })
    }

    /// Runs `action`; `again` is the command that repeats it.
    pub(crate) fn call(&mut self, title: &str, again: &str, action: impl FnOnce() -> Result) -> Result {
        eprintln!("\n== {title}\n   {again}");
        // If the kernel does not report it, nothing is shown.
        let used_so_far = || processor_time_of_children().unwrap_or_default();
        let (began, used_before) = (Instant::now(), used_so_far());
        let outcome = action();
        let took = began.elapsed();
        let used = used_so_far().saturating_sub(used_before);
        self.done.push(Step { title: title.to_owned(), took, used });
        match outcome {
            Ok(()) => {
                eprintln!("-- {title}: {:.1} s", took.as_secs_f64());
                Ok(())
            }
            Err(error) => Err(format!(
                "{title} failed after {:.1} s: {error}\nhint: run it again with\n  {again}",
                took.as_secs_f64()
            )
            .into()),
        }
    }

    /// Returns every step with its time and processor time, and their sums.
    pub(crate) fn summary(&self) -> String {
        let width = self.done.iter().map(|step| step.title.chars().count()).max().unwrap_or(0).max(5);
        let line = |title: &str, took: Duration, used: Duration| {
            let used = match used.as_secs_f64() {
                0.0 => String::new(),
                used => format!("  {used:7.1} s of processors"),
            };
            format!("{title:width$}  {:7.1} s{used}\n", took.as_secs_f64())
        };
        let mut text: String = self.done.iter().map(|step| line(&step.title, step.took, step.used)).collect();
        let took = self.done.iter().map(|step| step.took).sum();
        text.push_str(&line("total", took, self.done.iter().map(|step| step.used).sum()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_says_what_to_run_again() {
        let mut steps = Steps::new();
        let error = steps.run("nothing", &mut Command::new("false")).unwrap_err().to_string();
        assert!(error.contains("nothing failed") && error.contains("exit status: 1"), "{error}");
        assert!(error.ends_with("\n  false"), "{error}");
    }

    #[test]
    fn the_summary_names_every_step_and_the_sum() {
        let step = |title: &str, took, used| Step {
            title: title.into(),
            took: Duration::from_secs(took),
            used: Duration::from_secs(used),
        };
        let steps = Steps { done: vec![step("format", 1, 0), step("lint", 20, 38)] };
        let lines = [
            "format      1.0 s\n",
            "lint       20.0 s     38.0 s of processors\n",
            "total      21.0 s     38.0 s of processors\n",
        ];
        assert_eq!(steps.summary(), lines.concat());
    }

    #[test]
    fn waiting_is_not_processor_time() {
        let mut steps = Steps::new();
        let mut idle = Command::new("sleep");
        steps.run("idle", idle.arg("0.3")).unwrap();
        let mut busy = Command::new("sh");
        busy.args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]);
        steps.run("busy", &mut busy).unwrap();
        let [idle, busy] = steps.done.try_into().ok().unwrap();
        assert!(busy.used > idle.used, "{:?} {:?}", busy.used, idle.used);
    }
}
