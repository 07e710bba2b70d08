//! The environments that one operation reads: bounded in time, and each slow one only once.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use sexton_core::membership::Cookie;

use crate::procfs_dir::ProcDir;
use crate::reader::{Answer, Reader};

/// A read that takes longer than this is not repeated within the operation.
const SLOW: Duration = Duration::from_millis(5);
/// How many readers one sweep may lose to processes that do not answer. Each costs a quarter of a second.
const MAX_LOST: usize = 3;
/// What one operation has read, and its readers. No reader outlives a sweep.
#[derive(Default)]
pub(crate) struct Reading {
    queue: RefCell<Queue>,
    lost: Cell<usize>,
    /// Cookies of processes whose environments were slow to read, by pid and start.
    slow: RefCell<HashMap<(u32, u64), Cookie>>,
    /// Cookies read by a sweep that did not complete: the next sweep continues from there.
    begun: RefCell<HashMap<(u32, u64), Cookie>>,
}

/// A reader and its pending requests.
#[derive(Default)]
struct Queue {
    reader: Option<Reader>,
    asked: VecDeque<String>,
    answered: HashMap<String, Answer>,
}

impl Reading {
    /// Begins a sweep.
    pub(crate) fn begin(&self) {
        self.lost.set(0);
    }

    /// Ends a sweep and stops the readers, which another program could take for processes of a session.
    pub(crate) fn end(&self, is_complete: bool) {
        self.queue.take();
        if is_complete {
            self.begun.take();
        }
    }

    /// Returns the result of an earlier read of a process that is not repeated.
    pub(crate) fn find_read(&self, pid: u32, start_ticks: u64) -> Option<Cookie> {
        let key = (pid, start_ticks);
        let slow = self.slow.borrow().get(&key).cloned();
        slow.or_else(|| self.begun.borrow().get(&key).cloned())
    }

    /// Remembers the result of a read.
    pub(crate) fn note(&self, pid: u32, start_ticks: u64, begun: Instant, cookie: &Cookie) {
        if begun.elapsed() > SLOW || *cookie == Cookie::Unanswered {
            self.slow.borrow_mut().insert((pid, start_ticks), cookie.clone());
        }
        // A process with a cookie is proved by reading it again.
        if *cookie == Cookie::Absent {
            self.begun.borrow_mut().insert((pid, start_ticks), cookie.clone());
        }
    }

    /// Requests the environments of these processes, by pid and start, ahead of loading them.
    pub(crate) fn ask(&self, proc: &ProcDir, processes: impl Iterator<Item = (u32, u64)>) -> io::Result<()> {
        if sexton_mutant::is("no_read_deadline") || self.has_lost_enough() {
            return Ok(());
        }
        let new = processes.filter(|(pid, start)| self.find_read(*pid, *start).is_none());
        let new: Vec<String> = new.map(|(pid, _)| format!("{pid}/environ")).collect();
        let mut queue = self.queue.borrow_mut();
        queue.answered.clear();
        for path in new {
            if let Err(error) = queue.ask(proc, path) {
                return self.give_up_reading(error);
            }
        }
        Ok(())
    }

    /// Reads a whole file below `/proc` that may be slow to read.
    pub(crate) fn load(&self, proc: &ProcDir, path: &str) -> io::Result<Answer> {
        if sexton_mutant::is("no_read_deadline") {
            return Ok(match proc.load(path)? {
                Some(content) => Answer::Content(content),
                None => Answer::Failed(Errno::NOENT),
            });
        }
        if self.has_lost_enough() {
            return Ok(Answer::NotAsked);
        }
        let mut queue = self.queue.borrow_mut();
        if let Some(answer) = queue.answered.remove(path) {
            return Ok(answer);
        }
        if !queue.asked.iter().any(|asked| asked == path)
            && let Err(error) = queue.ask(proc, path.to_owned())
        {
            return self.give_up_reading(error).map(|()| Answer::NotAsked);
        }
        loop {
            let (asked, answer) = match queue.receive(proc) {
                Ok(received) => received,
                Err(error) => return self.give_up_reading(error).map(|()| Answer::NotAsked),
            };
            if matches!(answer, Answer::TimedOut) {
                self.lost.set(self.lost.get() + 1);
            }
            if asked == path {
                return Ok(answer);
            }
            queue.answered.insert(asked, answer);
            if self.has_lost_enough() {
                return Ok(Answer::NotAsked);
            }
        }
    }

    /// Ends the reading of this sweep if no reader can be started: a session that uses up the processes of its user
    /// must not prevent its own end. Other errors are returned.
    fn give_up_reading(&self, error: io::Error) -> io::Result<()> {
        if !matches!(Errno::from_io_error(&error), Some(Errno::AGAIN | Errno::NOMEM)) {
            return Err(error);
        }
        self.lost.set(MAX_LOST);
        Ok(())
    }

    fn has_lost_enough(&self) -> bool {
        self.lost.get() >= MAX_LOST && !sexton_mutant::is("scan_first")
    }
}

impl Queue {
    fn ask(&mut self, proc: &ProcDir, path: String) -> io::Result<()> {
        self.asked.push_back(path);
        let asked = match (&self.reader, self.asked.back()) {
            (Some(reader), Some(path)) => reader.ask(path).is_ok(),
            _ => false,
        };
        if asked { Ok(()) } else { self.start_again(proc) }
    }

    /// Returns the next answer and the path that it is for.
    fn receive(&mut self, proc: &ProcDir) -> io::Result<(String, Answer)> {
        if self.reader.is_none() {
            self.start_again(proc)?;
        }
        let answer = match self.reader.as_ref().map(|reader| reader.receive(proc)) {
            Some(Ok(answer)) => answer,
            // The reader was killed, perhaps as a presumed process of the session that we run in.
            _ => {
                self.start_again(proc)?;
                let reader = self.reader.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
                reader.receive(proc)?
            }
        };
        if matches!(answer, Answer::TimedOut) {
            self.reader = None;
        }
        let asked = self.asked.pop_front().ok_or(io::ErrorKind::InvalidData)?;
        Ok((asked, answer))
    }

    /// Starts a new reader and repeats all unanswered requests.
    fn start_again(&mut self, proc: &ProcDir) -> io::Result<()> {
        self.reader = None;
        let reader = Reader::start(proc)?;
        for path in &self.asked {
            reader.ask(path)?;
        }
        self.reader = Some(reader);
        Ok(())
    }
}
