//! Parses `/proc/PID/stat`.

use std::time::Duration;

use procfs::FromRead;
use rustix::param::{clock_ticks_per_second, page_size};

/// State of a process that `/proc` hides; the kernel uses no such letter.
const HIDDEN: char = '?';

/// The relevant fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) start_ticks: u64,
    flags: u32,
    threads: i64,
    environment: Option<(u64, u64)>,
    cpu_ticks: u64,
    resident_pages: u64,
}

impl Stat {
    /// Parses the line; returns `None` if it is malformed or incomplete.
    pub(crate) fn parse(line: &[u8]) -> Option<Stat> {
        let stat = procfs::process::Stat::from_read(require_whole(line)?).ok()?;
        // The times of waited-for children have the type `long`.
        let of_children = [stat.cutime, stat.cstime].map(|ticks| u64::try_from(ticks).unwrap_or(0));
        let ticks = [stat.utime, stat.stime].into_iter().chain(of_children);
        Some(Stat {
            state: stat.state,
            // A parent outside our namespace is 0, and no pid is negative.
            parent: u32::try_from(stat.ppid).unwrap_or(0),
            flags: stat.flags,
            cpu_ticks: ticks.fold(0, u64::saturating_add),
            threads: stat.num_threads,
            start_ticks: stat.starttime,
            resident_pages: stat.rss,
            environment: stat.env_start.zip(stat.env_end),
        })
    }

    /// Returns the entry of a process that `/proc` hides. Its parent is known only from the parent's list of
    /// children.
    pub(crate) fn hidden() -> Stat {
        Stat {
            state: HIDDEN,
            parent: 0,
            start_ticks: 0,
            flags: 0,
            threads: 1,
            environment: None,
            cpu_ticks: 0,
            resident_pages: 0,
        }
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.state == HIDDEN
    }

    /// Returns whether it has exited. If only its first thread has exited, the state is that of a zombie but
    /// the process is alive.
    pub(crate) fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }

    /// Returns whether its first thread has exited, so that only other threads can be read.
    pub(crate) fn has_lost_its_leader(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads > 1
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state == 'T'
    }

    /// Returns whether it is a kernel thread.
    pub(crate) fn is_kernel_thread(&self) -> bool {
        const PF_KTHREAD: u32 = 0x0020_0000;
        self.flags & PF_KTHREAD != 0
    }

    /// Returns whether it is exiting: it has freed its memory, including the environment.
    pub(crate) fn is_exiting(&self) -> bool {
        const PF_EXITING: u32 = 0x0000_0004;
        self.flags & PF_EXITING != 0
    }

    /// Returns the size of its environment in bytes; `None` while it executes a program and has no
    /// environment yet.
    pub(crate) fn environment_length(&self) -> Option<u64> {
        let (start, end) = self.environment?;
        (end != 0).then(|| end.saturating_sub(start))
    }

    /// Returns the CPU time of all its threads and of the children that it has waited for.
    pub(crate) fn cpu_time(&self) -> Duration {
        let per_second = clock_ticks_per_second().max(1);
        let fraction = (self.cpu_ticks % per_second) * 1_000_000_000 / per_second;
        Duration::from_secs(self.cpu_ticks / per_second) + Duration::from_nanos(fraction)
    }

    /// Returns its resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_pages.saturating_mul(page_size() as u64)
    }
}

/// Returns the line if it has the form `PID (NAME) FIELDS`, with a newline at its end. `procfs` panics on some lines
/// without that form, and would take a number that was cut off for a smaller one.
fn require_whole(line: &[u8]) -> Option<&[u8]> {
    let name_begins = line.iter().position(|byte| *byte == b'(')?;
    let name_ends = line.iter().rposition(|byte| *byte == b')')?;
    let (pid, fields) = (line.get(..name_begins)?.strip_suffix(b" ")?, line.get(name_ends + 1..)?);
    let has_form = name_begins < name_ends
        && !pid.is_empty()
        && pid.iter().all(u8::is_ascii_digit)
        && fields.is_ascii()
        && fields.strip_prefix(b" ")?.strip_suffix(b"\n").is_some_and(|fields| !fields.is_empty());
    has_form.then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the line of a process called `name`.
    fn line(name: &[u8]) -> Vec<u8> {
        let numbers = "S 7 8 9 0 -1 4194304 1 2 3 4 500 60 -1 8 20 0 2 0 812345 1000 77 18446744073709551615 \
                       1 2 3 4 5 0 0 0 0 0 0 0 17 0 0 0 0 0 0 1 2 3 4 5 4096 5096 0";
        [b"4711 (", name, b") ", numbers.as_bytes(), b"\n"].concat()
    }

    #[test]
    fn any_process_name_is_parsed() {
        let plain = Stat::parse(&line(b"sleep")).unwrap();
        assert_eq!((plain.state, plain.parent, plain.start_ticks), ('S', 7, 812_345));
        assert_eq!((plain.threads, plain.cpu_ticks, plain.resident_pages), (2, 568, 77));
        assert_eq!(plain.environment_length(), Some(1000));
        for name in [&b"a) S 1 (b"[..], b"", b") R 2 3", b"\xff\xfe", b"a\nb c"] {
            assert_eq!(Stat::parse(&line(name)), Some(plain), "{name:?}");
        }
    }

    #[test]
    fn truncated_line_is_rejected() {
        let whole = line(b"a) b");
        for length in 0..whole.len() {
            assert_eq!(Stat::parse(&whole[..length]), None, "{length} bytes");
        }
        for text in [
            "",
            ")",
            "(",
            ")(",
            "1 ()",
            "1 () S",
            "(x) S x",
            "(x) S\n",
            "1 (\n",
            "1 )( S\n",
            "1 () \n",
            "1 ()\u{e9}\n",
        ] {
            assert_eq!(Stat::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn huge_cpu_time_and_memory_do_not_overflow() {
        let mut stat = Stat::parse(&line(b"x")).unwrap();
        stat.cpu_ticks = u64::MAX;
        stat.resident_pages = u64::MAX;
        assert!(stat.cpu_time() > Duration::from_secs(1));
        assert_eq!(stat.resident_bytes(), u64::MAX);
    }
}
