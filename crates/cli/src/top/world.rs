//! The data sources of the view: records, processes and logs, and their changes.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sexton_core::probe::Group;
use sexton_core::store::Damage;
use sexton_core::{Incarnation, ProcessProbe, Query, SessionId, Store, WorktreeCleaner};
use sexton_durable::MarkFile;
use sexton_supervise::{ChangeWatch, LogReader, PendingExits};

use super::meter::Meter;
use super::state::{Row, State};
use super::text::plain_lines;
use super::update::{Event, LogPart};
use crate::commands::ps::load_sessions;
use crate::failure::{Failure, chain};
use crate::probing::{Observed, observe};

/// The maximum number of finished sessions in the list.
const LISTED: usize = 500;

/// The number of bytes to read from the end of a log for the list.
const TAIL_BYTES: u64 = 8 * 1024;

/// The number of lines to keep of it.
const TAIL_LINES: usize = 40;

/// The minimum times between two reads, however often the files change.
const RECORDS_PAUSE: Duration = Duration::from_millis(100);
const LOGS_PAUSE: Duration = Duration::from_millis(250);

/// How often a store that is a directory of many files, and cannot be watched, is read.
const UNWATCHED: Duration = Duration::from_secs(2);

/// The data sources of the view.
pub struct World {
    /// The store.
    pub store: Box<dyn Store>,
    /// The process probe.
    pub probe: Box<dyn ProcessProbe>,
    /// Access to rescues.
    pub cleaner: Option<Box<dyn WorktreeCleaner>>,
    /// Exits that are not yet in the store.
    pub exits: PendingExits,
    /// This machine.
    pub here: Incarnation,
    /// Reports file changes.
    pub changes: ChangeWatch,
    /// Damage of the store found so far.
    pub damage: Vec<Damage>,
    meter: Meter,
    logs: HashMap<PathBuf, SessionId>,
    changed_logs: HashSet<PathBuf>,
    logs_read: Option<Instant>,
    records_changed: bool,
    records_read: Option<Instant>,
    /// Whether the store is a directory, which has no single file to watch for changes.
    is_unwatched: bool,
    followed: Option<Followed>,
}

struct Followed {
    reader: LogReader,
    cursor: u64,
    is_new: bool,
}

impl World {
    /// Creates the data sources.
    pub fn new(
        store: Box<dyn Store>,
        probe: Box<dyn ProcessProbe>,
        cleaner: Option<Box<dyn WorktreeCleaner>>,
        exits: PendingExits,
        here: Incarnation,
    ) -> World {
        World {
            store,
            probe,
            cleaner,
            exits,
            here,
            changes: ChangeWatch::open(),
            damage: Vec::new(),
            meter: Meter::default(),
            logs: HashMap::new(),
            changed_logs: HashSet::new(),
            logs_read: None,
            records_changed: true,
            records_read: None,
            is_unwatched: false,
            followed: None,
        }
    }

    /// Records which files changed.
    pub fn note(&mut self, paths: Vec<PathBuf>) {
        for path in paths {
            if self.logs.contains_key(&path) || self.followed.as_ref().is_some_and(|log| log.is_at(&path)) {
                self.changed_logs.insert(path);
            } else {
                self.records_changed = true;
            }
        }
    }

    /// Forces the records to be read again.
    pub fn invalidate_records(&mut self) {
        self.records_changed = true;
        self.records_read = None;
    }

    /// Returns when the next read is due.
    pub fn next_read(&self) -> Option<Instant> {
        let due = |read: Option<Instant>, pause| read.map_or_else(Instant::now, |read| read + pause);
        let records = self.records_changed.then(|| due(self.records_read, RECORDS_PAUSE));
        let unwatched = self.is_unwatched.then(|| due(self.records_read, UNWATCHED));
        let logs = (!self.changed_logs.is_empty()).then(|| due(self.logs_read, LOGS_PAUSE));
        [records, unwatched, logs].into_iter().flatten().min()
    }

    /// Reads the changed files that are due, and returns the events.
    pub async fn read(&mut self, state: &State) -> Result<Vec<Event>, Failure> {
        let now = Instant::now();
        let is_due = |read: Option<Instant>, pause| read.is_none_or(|read| now >= read + pause);
        let mut events = Vec::new();
        if self.records_changed && is_due(self.records_read, RECORDS_PAUSE)
            || self.is_unwatched && is_due(self.records_read, UNWATCHED)
        {
            self.records_read = Some(now);
            events.push(Event::Records(self.load_rows(state).await?));
        }
        if !self.changed_logs.is_empty() && is_due(self.logs_read, LOGS_PAUSE) {
            self.logs_read = Some(now);
            for path in std::mem::take(&mut self.changed_logs) {
                events.extend(self.read_log(&path)?);
            }
        }
        Ok(events)
    }

    /// Watches for changes of records through the store's mark file. If that does not exist yet, watches its nearest
    /// existing ancestor directory.
    fn watch_records(&mut self) -> io::Result<()> {
        let store = self.store.describe().path;
        self.is_unwatched = store.is_dir();
        let mark = MarkFile::beside(&store).path().to_owned();
        for path in mark.ancestors() {
            if self.changes.watch(path)? {
                break;
            }
        }
        Ok(())
    }

    async fn load_rows(&mut self, state: &State) -> Result<Vec<Row>, Failure> {
        self.watch_records().map_err(|error| Failure::new(format!("cannot watch the store: {error}")))?;
        self.records_changed = false;
        let active =
            load_sessions(&Query::active(), self.store.as_ref(), &self.exits, Some(self.probe.as_ref()))
                .await?;
        let mut damage = active.damage;
        let mut sessions = active.sessions;
        if state.all {
            let query = Query::all().limit(LISTED);
            let newest =
                load_sessions(&query, self.store.as_ref(), &self.exits, Some(self.probe.as_ref())).await?;
            damage.extend(newest.damage);
            let known: HashSet<_> = newest.sessions.iter().map(|session| session.id.clone()).collect();
            sessions.retain(|session| !known.contains(&session.id));
            sessions = Query::all().select(newest.sessions.into_iter().chain(sessions));
        }
        for one in damage {
            if !self.damage.contains(&one) {
                self.damage.push(one);
            }
        }
        self.logs = sessions
            .iter()
            .filter_map(|session| Some((session.log.as_ref()?.path.as_path().to_owned(), session.id.clone())))
            .collect();
        let mut rows = Vec::with_capacity(sessions.len());
        for session in sessions {
            let known = state.find(&session.id);
            let observed = observe(self.probe.as_ref(), &self.here, &session).await;
            let figures = known.and_then(|row| row.figures).filter(|_| session.status.is_active());
            let mut row = Row { session, observed, figures, tail: Vec::new() };
            // The tail of a known session whose status is unchanged is kept up to date by the watch on its log.
            row.tail = match known {
                Some(known) if known.session.status == row.session.status => known.tail.clone(),
                _ => match row.log_path().map(Path::to_owned) {
                    Some(log) => self.load_tail(&log, row.session.status.is_active())?,
                    None => Vec::new(),
                },
            };
            rows.push(row);
        }
        Ok(rows)
    }

    /// Loads the end of a log. Watches the log of an active session.
    fn load_tail(&mut self, log: &Path, is_active: bool) -> Result<Vec<String>, Failure> {
        let failed = |error| Failure::new(format!("cannot read the log {}: {error}", log.display()));
        if is_active {
            self.changes.watch(log).map_err(failed)?;
        }
        let end = LogReader::open(log).and_then(|mut reader| reader.read_end(TAIL_BYTES)).map_err(failed)?;
        let mut lines = plain_lines(&end);
        lines.drain(..lines.len().saturating_sub(TAIL_LINES));
        Ok(lines)
    }

    fn read_log(&mut self, path: &Path) -> Result<Vec<Event>, Failure> {
        let mut events = Vec::new();
        if let Some(session) = self.logs.get(path).cloned() {
            events.push(Event::Tail(session, self.load_tail(path, true)?));
        }
        if self.followed.as_ref().is_some_and(|followed| followed.is_at(path)) {
            events.extend(self.read_followed()?);
        }
        Ok(events)
    }

    /// Starts to follow a log at its last `lines` lines.
    pub fn follow(&mut self, log: &Path, lines: usize) -> Result<Vec<Event>, Failure> {
        let failed = |error| Failure::new(format!("cannot read the log {}: {error}", log.display()));
        let mut reader = LogReader::open(log).map_err(failed)?;
        let cursor = reader.tail_cursor(lines).map_err(failed)?;
        self.followed = Some(Followed { reader, cursor, is_new: true });
        self.read_followed()
    }

    /// Stops following a log.
    pub fn unfollow(&mut self) {
        self.followed = None;
    }

    fn read_followed(&mut self) -> Result<Vec<Event>, Failure> {
        let Some(followed) = &mut self.followed else { return Ok(Vec::new()) };
        let path = followed.reader.path().to_owned();
        let failed = |error| Failure::new(format!("cannot read the log {}: {error}", path.display()));
        self.changes.watch(&path).map_err(failed)?;
        let mut events = Vec::new();
        loop {
            let chunk = followed.reader.read_from(followed.cursor).map_err(failed)?;
            let is_anew = followed.is_new || chunk.truncated && chunk.cursor < followed.cursor;
            let is_last = chunk.bytes.len() < CHUNK_IS_FULL;
            // An incomplete line is read again together with its continuation.
            let ended = chunk.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let taken = if is_last { ended } else { chunk.bytes.len() };
            let (lines, open) = chunk.bytes.split_at(taken);
            followed.cursor = chunk.cursor - open.len() as u64;
            followed.is_new = false;
            let open = plain_lines(open).pop();
            events.push(Event::Log(LogPart { lines: plain_lines(lines), open, is_anew }));
            if is_last {
                return Ok(events);
            }
        }
    }

    /// Checks the processes of the active sessions. If one has ended, its record may have changed without an event
    /// of the watch.
    pub async fn check_processes(&mut self, state: &State) -> Event {
        let active: Vec<_> = state.rows.iter().filter(|row| row.session.status.is_active()).collect();
        let mut observed = HashMap::new();
        for row in &active {
            if let Some(current) = observe(self.probe.as_ref(), &self.here, &row.session).await {
                self.records_changed |= row.observed.as_ref() != Some(&current);
                observed.insert(row.session.id.clone(), current);
            }
        }
        let alive: Vec<_> = active
            .iter()
            .filter(|row| observed.get(&row.session.id).is_some_and(Observed::is_running))
            .map(|row| Group::of(&row.session))
            .collect();
        // Figures are optional: if the probe cannot measure, their columns are empty.
        let usage =
            if alive.is_empty() { Vec::new() } else { self.probe.usage(&alive).await.unwrap_or_default() };
        let usage = alive.into_iter().map(|group| group.session).zip(usage);
        let figures = self.meter.read(usage, Instant::now());
        Event::Observed(observed, figures)
    }

    /// Loads the rescue of a session, or returns why there is none.
    pub async fn find_rescue(&self, state: &State, session: &SessionId) -> Event {
        let found = async {
            let row = state.find(session).ok_or("the session is no longer listed")?;
            let repo = row.session.worktree.as_ref().and_then(|worktree| worktree.repo.as_ref());
            let repo =
                repo.ok_or_else(|| format!("{} has no worktree, so there is no rescue", row.title()))?;
            let cleaner = self.cleaner.as_ref().ok_or("this build has no worktree support")?;
            let described = cleaner.describe_rescue(repo.as_path(), session).await;
            described.map(Box::new).map_err(|error| chain(&error))
        };
        Event::Rescue(session.clone(), found.await)
    }
}

/// A read that returned fewer bytes reached the end of the log.
const CHUNK_IS_FULL: usize = 1024 * 1024;

impl Followed {
    fn is_at(&self, path: &Path) -> bool {
        self.reader.path() == path
    }
}
