//! The kernel's data about processes: what started them, what they hold, and what they have used.

use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::Result;

/// The variable that marks every process of a measurement, whatever its parent is.
pub(super) const MARK: &str = "BENCH_MARK";

/// The variable in which a process of a measurement has its role.
pub(super) const ROLE: &str = "BENCH_ROLE";

/// The names under which the kernel counts context switches.
pub(super) const SWITCHES: [&str; 2] = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"];

/// How long processes may take to exit after they were killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A live process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// Its pid.
    pub(super) pid: i32,
    /// Its name in the kernel.
    pub(super) name: String,
    /// Its role.
    pub(super) role: Option<String>,
}

/// Returns every live process that has `mark`. One that is just being executed may be missing.
pub(super) fn find_marked(mark: &str) -> Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            found.extend(find_one(pid, mark));
        }
    }
    Ok(found)
}

/// Returns the process `pid` if it has `mark`. A zombie has none.
fn find_one(pid: i32, mark: &str) -> Option<Process> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    if variable(&environment, MARK)? != mark {
        return None;
    }
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned();
    Some(Process { pid, name, role: variable(&environment, ROLE) })
}

fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut pairs = environment.split(|byte| *byte == 0).filter_map(|pair| std::str::from_utf8(pair).ok());
    pairs.find_map(|pair| Some(pair.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// Kills one process that has `mark`; one that is gone is not an error.
pub(super) fn kill_marked(pid: i32, mark: &str) -> Result {
    let Some(number) = Pid::from_raw(pid) else { return Ok(()) };
    let handle = match pidfd_open(number, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(()),
        handle => handle?,
    };
    // The pid may have been reused: the process that the handle refers to must have the mark.
    if find_one(pid, mark).is_none() {
        return Ok(());
    }
    match pidfd_send_signal(handle, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(format!("process {pid}: {error}").into()),
    }
}

/// Kills every process that has `mark`, until none is found twice in a row: a process may fork during the
/// search.
pub(super) fn end_marked(mark: &str) -> Result {
    let began = Instant::now();
    let mut empty = 0;
    while empty < 2 {
        let found = find_marked(mark)?;
        empty = if found.is_empty() { empty + 1 } else { 0 };
        for process in &found {
            kill_marked(process.pid, mark)?;
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("these do not exit: {found:?}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Returns the sum of the numbers that `/proc/PID/FILE` has under these names, over all processes.
pub(super) fn sum(processes: &[i32], file: &str, names: &[&str]) -> Result<u32> {
    let mut total = 0;
    for pid in processes {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}"))?;
        for name in names {
            total += find_number(&text, name).ok_or_else(|| format!("/proc/{pid}/{file} has no {name}"))?;
        }
    }
    Ok(total)
}

fn find_number(text: &str, name: &str) -> Option<u32> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(found, _)| *found == name)?;
    value.split_whitespace().next()?.parse().ok()
}

/// Returns how often the threads of a process were switched to, and how long they ran.
pub(super) fn activity(pid: i32) -> Result<(u32, Duration)> {
    let (mut switches, mut ran) = (0, Duration::ZERO);
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        let read = |file: &str| match fs::read_to_string(thread.join(file)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            text => text,
        };
        let status = read("status")?;
        switches += SWITCHES.iter().filter_map(|name| find_number(&status, name)).sum::<u32>();
        let nanos = read("schedstat")?.split(' ').next().and_then(|number| number.parse().ok());
        ran += Duration::from_nanos(nanos.unwrap_or_default());
    }
    Ok((switches, ran))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_the_whole_name_matches() {
        let status = "Name:\tx\nnonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t5\nPss: 12 kB\n";
        assert_eq!(SWITCHES.map(|name| find_number(status, name)), [Some(5), Some(7)]);
        assert_eq!(find_number(status, "Pss"), Some(12));
        assert_eq!(find_number(status, "Ps"), None);
    }

    #[test]
    fn only_marked_processes_are_found_and_killed() {
        let mark = format!("test-{}", std::process::id());
        let sleeper = |mark: &str| {
            let mut command = Command::new("sleep");
            command.arg("600").env(MARK, mark).env(ROLE, "sleeper").spawn().unwrap()
        };
        let (mut ours, mut other) = (sleeper(&mark), sleeper(&format!("{mark}0")));
        let began = Instant::now();
        let found = loop {
            let found = find_marked(&mark).unwrap();
            if found.iter().any(|process| process.name == "sleep") {
                break found;
            }
            assert!(began.elapsed() < PATIENCE, "{found:?}");
        };
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].role.as_deref(), Some("sleeper"));
        end_marked(&mark).unwrap();
        assert!(!ours.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
