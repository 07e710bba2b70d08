//! One entry of the file, and the record that it represents.

use std::path::PathBuf;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sexton_core::session::{Exit, ExitReason, SCHEMA_VERSION, Worktree};
use sexton_core::store::KNOWN;
use sexton_core::{Host, OsText, ProcessIdentity, Session, SessionId, Status, StoreError, Time};
use sha2::{Digest, Sha256};

use crate::NAME;
use crate::fields::{Fields, Layout, raw, shorten};
use crate::project::Project;

/// The fields of the other tool's entries, in its order.
const FIELDS: [&str; 9] = [
    "session_id",
    "ticket_id",
    "pid",
    "process_start_time",
    "started_at",
    "worktree_path",
    "status",
    "completed_at",
    "return_code",
];

/// The program that the other tool starts.
const PROGRAM: &str = "pi";

/// The prefix of a field of the file among a record's unknown fields, if the record has a field of that name
/// itself.
const PREFIX: &str = "tf:";

/// An entry as written in the file, and its interpretation.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its bytes.
    pub(crate) text: Box<RawValue>,
    pub(crate) meaning: Meaning,
}

/// The interpretation of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Meaning {
    /// A session.
    Session(Box<Session>),
    /// An entry that this program does not understand, and why. It stays unchanged.
    LeftAlone(String),
    /// A damaged entry. Its session is named if the id can be read.
    Damaged(Option<SessionId>, String),
}

/// Why an entry is not a session.
enum Misfit {
    LeftAlone(String),
    Damaged(String),
}

impl From<String> for Misfit {
    fn from(what: String) -> Misfit {
        Misfit::Damaged(what)
    }
}

impl Entry {
    /// Reads an entry.
    pub(crate) fn read(text: Box<RawValue>, project: &Project) -> Entry {
        let Ok(fields) = serde_json::from_str::<Fields>(text.get()) else {
            let what = format!("it is not an object: {}", shorten(text.get()));
            return Entry { text, meaning: Meaning::Damaged(None, what) };
        };
        let meaning = match decode(&fields, project) {
            Ok(mut session) => {
                session.revision = digest(&text);
                Meaning::Session(Box::new(session))
            }
            Err(Misfit::LeftAlone(why)) => Meaning::LeftAlone(why),
            Err(Misfit::Damaged(what)) => {
                let id = fields.read::<String>("session_id").ok().flatten();
                Meaning::Damaged(id.and_then(|id| id.parse().ok()), what)
            }
        };
        Entry { text, meaning }
    }

    /// Returns the entry for `session`, in place of `present` if there is one. Values that do not change keep
    /// their bytes.
    pub(crate) fn of(
        session: &Session,
        present: Option<&Entry>,
        project: &Project,
        layout: Layout<'_>,
    ) -> Result<Entry, StoreError> {
        require_representable(session)?;
        let is_same = |now: &Session| Session { revision: session.revision, ..now.clone() } == *session;
        if let Some(present) = present.filter(|entry| entry.session().is_some_and(is_same)) {
            // Other values, such as the end time of a running session, are not corrected.
            return Ok(present.clone());
        }
        let before: Fields =
            present.and_then(|entry| serde_json::from_str(entry.text.get()).ok()).unwrap_or_default();
        let after = encode(session, &before, present);
        if let Some(present) = present.filter(|_| same_text(&before, &after)) {
            return Ok(present.clone());
        }
        let text = RawValue::from_string(after.write(layout));
        let text = text.map_err(|source| StoreError::Backend {
            action: "cannot write an entry of",
            path: project.root.clone(),
            source: Box::new(source),
        })?;
        Ok(Entry::read(text, project))
    }

    /// Returns the session that it represents.
    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.meaning {
            Meaning::Session(session) => Some(session),
            Meaning::LeftAlone(_) | Meaning::Damaged(..) => None,
        }
    }
}

fn same_text(before: &Fields, after: &Fields) -> bool {
    let texts = |fields: &Fields| -> Vec<(String, String)> {
        fields.0.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect()
    };
    texts(before) == texts(after)
}

/// Returns a revision: the same for the same content, whatever its spacing.
fn digest(text: &RawValue) -> u64 {
    let compact = serde_json::from_str::<Value>(text.get()).map(|value| value.to_string());
    let digest = Sha256::digest(compact.unwrap_or_else(|_| text.get().to_owned()));
    digest.iter().take(8).fold(0, |revision, byte| revision << 8 | u64::from(*byte))
}

fn decode(fields: &Fields, project: &Project) -> Result<Session, Misfit> {
    if let Some(duplicate) = fields.find_duplicate() {
        return Err(Misfit::Damaged(format!("it has two fields `{duplicate}`")));
    }
    let require = |name: &str| -> Result<String, Misfit> {
        Ok(fields.read(name)?.ok_or_else(|| format!("it has no `{name}`"))?)
    };
    let id = require("session_id")?;
    let status = require("status")?;
    let status = word_of(&status).ok_or_else(|| format!("`{}` is not a valid status", shorten(&status)))?;
    let started_at = time(fields, "started_at")?.ok_or_else(|| "it has no `started_at`".to_owned())?;
    let completed_at = time(fields, "completed_at")?;
    let ticket = fields.read("ticket_id")?;
    let process = process(fields)?;
    let Ok(id) = id.parse::<SessionId>() else {
        return Err(Misfit::LeftAlone(format!("`{}` is not a usable id", shorten(&id))));
    };
    if status == Status::Running && process.is_none() {
        return Err(Misfit::LeftAlone(format!("session {id} is running and has no pid")));
    }
    // Text that is not valid Unicode passes the parser as text, but is not a path that could be opened.
    let Ok(path) = fields.read::<String>("worktree_path") else {
        return Err(Misfit::LeftAlone(format!("the `worktree_path` of session {id} cannot be read")));
    };
    let mut session = Session::new(id, Host::unnamed(), started_at);
    session.schema = SCHEMA_VERSION;
    session.ticket = ticket;
    session.status = status;
    session.process = process;
    session.started_at = Some(started_at);
    session.worktree = path.as_deref().filter(|path| !path.is_empty()).map(|path| worktree(path, project));
    let place = session.worktree.as_ref().map(|worktree| worktree.path.clone());
    session.cwd = Some(place.unwrap_or_else(|| OsText::from(project.root.as_path())));
    if status.is_finished() {
        session.finished_at = completed_at;
        session.exit = Some(exit(code_of(fields)));
    }
    session.extra = unknown(fields);
    Ok(session)
}

fn word_of(word: &str) -> Option<Status> {
    match word {
        "running" => Some(Status::Running),
        "completed" => Some(Status::Completed),
        "failed" => Some(Status::Failed),
        "orphaned" => Some(Status::Orphaned),
        _ => None,
    }
}

fn time(fields: &Fields, name: &str) -> Result<Option<Time>, String> {
    let text: Option<String> = fields.read(name)?;
    text.map(|text| text.parse().map_err(|_| format!("its `{name}` is {}", shorten(&text)))).transpose()
}

fn process(fields: &Fields) -> Result<Option<ProcessIdentity>, String> {
    let Some(pid) = fields.read::<i64>("pid")? else { return Ok(None) };
    // For a signal, 0 and below mean process groups.
    let pid = u32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(format!("its `pid` is {pid}"))?;
    // Anything but ticks is an older notation and is ignored.
    let start_ticks = fields.read("process_start_time").ok().flatten();
    Ok(Some(ProcessIdentity {
        start_ticks,
        exe: Some(OsText::from(PROGRAM)),
        ..ProcessIdentity::of_pid(pid)
    }))
}

fn worktree(written: &str, project: &Project) -> Worktree {
    Worktree {
        path: project.resolve(written).into(),
        root: Some(OsText::from(project.worktree_root.as_path())),
        repo: Some(OsText::from(project.root.as_path())),
        branch: None,
        base: None,
        extra: Map::new(),
    }
}

/// Reads an exit in Python's notation: a code, or a negative signal.
fn code_of(fields: &Fields) -> Option<i32> {
    fields.read("return_code").ok().flatten()
}

fn exit(code: Option<i32>) -> Exit {
    match code {
        Some(code) if code < 0 => Exit::signalled(code.saturating_neg()),
        Some(code) => Exit::exited(code),
        None => Exit { code: None, signal: None, reason: ExitReason::Unknown, extra: Map::new() },
    }
}

fn unknown(fields: &Fields) -> Map<String, Value> {
    let mut unknown = Map::new();
    for (name, value) in fields.0.iter().filter(|(name, _)| !FIELDS.contains(&name.as_str())) {
        // A value that cannot be represented here still stays in the file.
        if let Ok(value) = serde_json::from_str(value.get()) {
            unknown.insert(name_here(name), value);
        }
    }
    unknown
}

fn name_here(name: &str) -> String {
    let taken = KNOWN.contains(&name) || name.starts_with(PREFIX);
    if taken { format!("{PREFIX}{name}") } else { name.to_owned() }
}

/// Returns the name in the file of one of the record's unknown fields; `None` if the file uses the name for
/// another field.
fn name_there(name: &str) -> Option<&str> {
    let there = name.strip_prefix(PREFIX).unwrap_or(name);
    (!FIELDS.contains(&there)).then_some(there)
}

/// Returns an error for a session that would be ambiguous or interpreted wrongly once written.
fn require_representable(session: &Session) -> Result<(), StoreError> {
    let id = &session.id;
    let refuse = |what: String| Err(StoreError::Unsupported { backend: NAME, what });
    match session.status {
        Status::Starting | Status::Transferred => {
            return refuse(format!("session {id}, which is {}", session.status));
        }
        _ if word_for(session) != "running" => return Ok(()),
        _ => {}
    }
    if session.process.is_none() {
        return refuse(format!("session {id}, which runs without a process"));
    }
    if session.supervisor.is_some() || session.owner.is_some() || session.cgroup.is_some() {
        return refuse(format!("session {id}, which runs under supervision"));
    }
    if !session.host.is_unnamed() {
        return refuse(format!("session {id}, which runs on the `host` {}", session.host.hostname));
    }
    Ok(())
}

/// Returns the other tool's status for a session. A session with pending recovery work is `running`, since
/// the next recovery checks running sessions.
fn word_for(session: &Session) -> &'static str {
    match session.status {
        _ if !session.is_settled() => "running",
        Status::Completed => "completed",
        Status::Orphaned | Status::Abandoned => "orphaned",
        _ => "failed",
    }
}

fn encode(session: &Session, before: &Fields, present: Option<&Entry>) -> Fields {
    let word = word_for(session);
    let finished = word != "running";
    let old = present.and_then(Entry::session);
    let time = |name: &str, time: Option<Time>| {
        let kept = before.find(name).filter(|_| self::time(before, name).ok().flatten() == time);
        kept.map_or_else(|| raw(time.map(write_time)), RawValue::to_owned)
    };
    let mut after = before.clone();
    let mut put = |name: &str, value: Box<RawValue>| {
        // A null field that the other tool did not write is not added.
        if present.is_none() || value.get() != "null" || before.find(name).is_some() {
            after.set(name, value);
        }
    };
    put("session_id", keep_equal(before, "session_id", raw(session.id.as_str())));
    put("ticket_id", keep_equal(before, "ticket_id", raw(&session.ticket)));
    let same_process = |old: &Session| match (&old.process, &session.process) {
        (Some(old), Some(new)) => old.pid == new.pid,
        (old, new) => old.is_none() && new.is_none(),
    };
    if !old.is_some_and(same_process) {
        put("pid", raw(session.process.as_ref().map(|process| process.pid)));
        put("process_start_time", raw(session.process.as_ref().and_then(|process| process.start_ticks)));
    }
    put("started_at", time("started_at", Some(session.started_at.unwrap_or(session.created_at))));
    let path = session.worktree.as_ref().map(|worktree| worktree.path.as_path().to_owned());
    let old_path: Option<PathBuf> =
        old.and_then(|old| old.worktree.as_ref()).map(|worktree| worktree.path.as_path().to_owned());
    if old.is_none() || old_path != path {
        put("worktree_path", raw(path.as_deref().and_then(std::path::Path::to_str)));
    }
    put("status", keep_equal(before, "status", raw(word)));
    put("completed_at", time("completed_at", session.finished_at.filter(|_| finished)));
    let code = session.exit.as_ref().filter(|_| finished);
    let code = code.and_then(|exit| exit.code.or_else(|| exit.signal.map(i32::saturating_neg)));
    if !(finished && old.is_some() && code_of(before) == code) {
        put("return_code", raw(code));
    }
    put_unknown(session, before, &mut after);
    after
}

/// Returns the present value if it equals `value`.
fn keep_equal(before: &Fields, name: &str, value: Box<RawValue>) -> Box<RawValue> {
    let parse = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
    match before.find(name) {
        Some(present) if parse(present) == parse(&value) => present.to_owned(),
        _ => value,
    }
}

fn put_unknown(session: &Session, before: &Fields, after: &mut Fields) {
    let known = unknown(before);
    // A field that the record dropped is removed; one that no record can hold was never in it.
    after.0.retain(|(name, _)| {
        let here = name_here(name);
        FIELDS.contains(&name.as_str()) || !known.contains_key(&here) || session.extra.contains_key(&here)
    });
    for (here, value) in &session.extra {
        let Some(there) = name_there(here) else { continue };
        if known.get(here) != Some(value) {
            after.set(there, raw(value));
        }
    }
}

/// Formats a time so that every Python since 3.7 can parse it.
pub(crate) fn write_time(time: Time) -> String {
    time.timestamp().strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}
