//! A row of steps: each announced, timed, and the first that fails ends the row with what to run again.

use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Result;

/// The steps taken so far.
pub(crate) struct Steps {
    done: Vec<(String, Duration)>,
}

impl Steps {
    /// No step yet.
    pub(crate) fn new() -> Steps {
        Steps { done: Vec::new() }
    }

    /// Runs `command`; its output goes where ours does.
    pub(crate) fn run(&mut self, title: &str, command: &mut Command) -> Result {
        let again = shown(command);
        self.call(title, &again, || {
            let status = command.status().map_err(|error| format!("{again}: {error}"))?;
            if status.success() { Ok(()) } else { Err(status.to_string().into()) }
        })
    }

    /// Does `action`, which `again` would repeat.
    pub(crate) fn call(&mut self, title: &str, again: &str, action: impl FnOnce() -> Result) -> Result {
        eprintln!("\n== {title}\n   {again}");
        let began = Instant::now();
        let outcome = action();
        let took = began.elapsed();
        self.done.push((title.to_owned(), took));
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

    /// Every step with its seconds, and their sum.
    pub(crate) fn summary(&self) -> String {
        let width = self.done.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0).max(5);
        let line = |title: &str, took: Duration| format!("{title:width$}  {:7.1} s\n", took.as_secs_f64());
        let total = self.done.iter().map(|(_, took)| *took).sum();
        let mut text: String = self.done.iter().map(|(title, took)| line(title, *took)).collect();
        text.push_str(&line("total", total));
        text
    }
}

/// A command as one would type it in the workspace.
pub(crate) fn shown(command: &Command) -> String {
    let program = match command.get_program() {
        program if program == env!("CARGO") => "cargo".to_owned(),
        program => quoted(program),
    };
    let settings = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    settings
        .map(|(name, value)| format!("{}={}", name.to_string_lossy(), quoted(value)))
        .chain([program])
        .chain(command.get_args().map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new(env!("CARGO"));
        command.args(["doc", "--no-deps", "it's"]).env("RUSTDOCFLAGS", "-D warnings").env_remove("HOME");
        assert_eq!(shown(&command), r"RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'it'\''s'");
    }

    #[test]
    fn a_failed_step_says_what_to_run_again() {
        let mut steps = Steps::new();
        let error = steps.run("nothing", &mut Command::new("false")).unwrap_err().to_string();
        assert!(error.contains("nothing failed") && error.contains("exit status: 1"), "{error}");
        assert!(error.ends_with("\n  false"), "{error}");
    }

    #[test]
    fn the_summary_names_every_step_and_the_sum() {
        let seconds = |n| Duration::from_secs(n);
        let steps = Steps { done: vec![("format".into(), seconds(1)), ("lint".into(), seconds(20))] };
        let summary = steps.summary();
        assert_eq!(summary, "format      1.0 s\nlint       20.0 s\ntotal      21.0 s\n");
    }
}
