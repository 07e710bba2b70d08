//! The record of a session: what is stored, shown by `show --json`, and described by docs/schema.md.
//!
//! Fields this version does not know are kept in `extra` at every level and written back, so that an
//! older program never takes away what a newer one recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{SessionId, Status};
use crate::{Host, OsText, ProcessIdentity, Time};

/// The version of the record's structure that this program reads and writes.
pub const SCHEMA_VERSION: u32 = 1;

/// A session, whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// The version of this structure.
    pub schema: u32,
    /// Its id, which never changes.
    pub id: SessionId,
    /// What its user calls it; unique among active sessions.
    #[serde(default)]
    pub name: Option<String>,
    /// The ticket it works on.
    #[serde(default)]
    pub ticket: Option<String>,
    /// Its user's own keys and values.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// What is executed, program first; empty where something else started it and did not say.
    #[serde(default)]
    pub command: Vec<OsText>,
    /// The directory it was started in.
    #[serde(default)]
    pub cwd: Option<OsText>,
    /// Where it is in its life.
    pub status: Status,
    /// The machine it runs on.
    pub host: Host,
    /// The command's process.
    #[serde(default)]
    pub process: Option<ProcessIdentity>,
    /// The process that waits for the command and records its end.
    #[serde(default)]
    pub supervisor: Option<ProcessIdentity>,
    /// The process whose death ends the session; null where it is meant to live on.
    #[serde(default)]
    pub owner: Option<ProcessIdentity>,
    /// What happens when the owner dies.
    #[serde(default)]
    pub on_owner_death: OnOwnerDeath,
    /// When its time is up.
    #[serde(default)]
    pub deadline_at: Option<Time>,
    /// The control group that holds its processes.
    #[serde(default)]
    pub cgroup: Option<Cgroup>,
    /// The probe that took the identities.
    #[serde(default)]
    pub probe: Option<String>,
    /// Who is ending it, from the moment that is decided.
    #[serde(default)]
    pub ending: Option<Ending>,
    /// The agent inside.
    #[serde(default)]
    pub agent: Option<Agent>,
    /// Its git worktree.
    #[serde(default)]
    pub worktree: Option<Worktree>,
    /// The loop it carries.
    #[serde(default, rename = "loop")]
    pub loop_state: Option<LoopState>,
    /// When the record was made.
    pub created_at: Time,
    /// When its command began.
    #[serde(default)]
    pub started_at: Option<Time>,
    /// When its end was seen.
    #[serde(default)]
    pub finished_at: Option<Time>,
    /// How it ended.
    #[serde(default)]
    pub exit: Option<Exit>,
    /// What recovery found and did.
    #[serde(default)]
    pub recovery: Option<Recovery>,
    /// Where its output is.
    #[serde(default)]
    pub log: Option<Log>,
    /// Changes with every write of the record; a write names the revision it was read at.
    #[serde(default)]
    pub revision: u64,
    /// Fields of a newer version, kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What happens to a session when its owner dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnOwnerDeath {
    /// It is ended after a grace period, unless it was adopted by then.
    #[default]
    End,
    /// It goes on without an owner.
    Keep,
}

/// A control group, by path and inode: a path alone can name another group tomorrow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cgroup {
    /// Its directory.
    pub path: OsText,
    /// That directory's inode.
    pub inode: u64,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// By how much the end of a session may be later than whoever decided it meant it to be.
const ENDING_MARGIN: Duration = Duration::from_secs(30);

/// The decision to end a session; who commits it first decides the outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// Why.
    pub reason: EndingReason,
    /// Who: `stop`, `supervisor`, `recover`.
    pub by: String,
    /// When it was decided.
    pub at: Time,
    /// Until when it is carried out. Whoever decided it and was killed over it has ended nobody by then;
    /// absent where there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Ending {
    /// The decision of `by` at this moment, which nothing limits.
    pub fn new(reason: EndingReason, by: &str, at: Time) -> Ending {
        Ending { reason, by: by.to_owned(), at, until: None, extra: Map::new() }
    }

    /// The same, carried out within about this time or never: a machine can be slow.
    #[must_use]
    pub fn within(self, time: Duration) -> Ending {
        Ending { until: Some(self.at.saturating_add(time + ENDING_MARGIN)), ..self }
    }

    /// Whether it still stands at this moment.
    pub fn stands_at(&self, now: Time) -> bool {
        self.until.is_none_or(|until| now <= until)
    }
}

/// Why a session is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndingReason {
    /// Its user asked for it.
    Stopped,
    /// Its time was up.
    Timeout,
    /// Its owner died.
    OwnerDead,
    /// Recovery found it without its command.
    Recovered,
}

/// The agent that a session runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Which agent: `claude`, `codex`, `pi`, or any word.
    #[serde(default)]
    pub kind: Option<String>,
    /// The agent's own id of its conversation.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The agent's own id of its thread.
    #[serde(default)]
    pub thread_id: Option<String>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A session's git worktree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Worktree {
    /// Where it is.
    pub path: OsText,
    /// The yard it lies in; nothing outside is ever removed.
    #[serde(default)]
    pub root: Option<OsText>,
    /// The repository it belongs to.
    #[serde(default)]
    pub repo: Option<OsText>,
    /// The branch that was checked out for it.
    #[serde(default)]
    pub branch: Option<String>,
    /// The commit or ref it began at.
    #[serde(default)]
    pub base: Option<String>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The state of a loop that goes on from one session to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopState {
    /// Whether this session drives it.
    #[serde(default)]
    pub active: bool,
    /// Where it is.
    #[serde(default)]
    pub phase: Option<String>,
    /// How many times it went round.
    #[serde(default)]
    pub iteration: Option<u64>,
    /// How many times it may.
    #[serde(default)]
    pub max_iterations: Option<u64>,
    /// The terminal pane it is bound to.
    #[serde(default)]
    pub pane: Option<String>,
    /// Since when.
    #[serde(default)]
    pub pane_set_at: Option<Time>,
    /// When it last changed.
    #[serde(default)]
    pub updated_at: Option<Time>,
    /// When its agent last took a turn.
    #[serde(default)]
    pub last_turn_at: Option<Time>,
    /// Anything else the loop keeps.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl LoopState {
    /// Phases in which a loop does not go on by itself.
    const TERMINAL_PHASES: [&str; 5] = ["blocked_on_user", "complete", "failed", "cancelled", "interrupted"];

    /// Whether its phase is one in which it does not go on by itself. Case and blanks do not matter.
    pub fn is_over(&self) -> bool {
        let phase = self.phase.as_deref().unwrap_or_default().trim();
        Self::TERMINAL_PHASES.iter().any(|terminal| terminal.eq_ignore_ascii_case(phase))
    }

    /// Whether there is no loop in it: it may know a pane or a time, but nothing was ever done.
    pub fn is_blank(&self) -> bool {
        let LoopState { active, phase, iteration, max_iterations, extra, .. } = self;
        !active && phase.is_none() && iteration.is_none() && max_iterations.is_none() && extra.is_empty()
    }
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exit {
    /// The exit code, where it exited.
    #[serde(default)]
    pub code: Option<i32>,
    /// The signal, where one ended it.
    #[serde(default)]
    pub signal: Option<i32>,
    /// Which of the ways to end it was.
    pub reason: ExitReason,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The ways a session can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// It exited by itself.
    Exited,
    /// A signal that nobody of us sent ended it.
    Signalled,
    /// It could not be executed.
    ExecFailed,
    /// Its start was cut off before its command ran.
    NeverStarted,
    /// Its time was up.
    Timeout,
    /// It was stopped on request.
    Stopped,
    /// Its owner died.
    OwnerDead,
    /// Nobody saw it.
    Unknown,
}

impl Exit {
    /// An exit by itself, with `code`.
    pub fn exited(code: i32) -> Exit {
        Exit { code: Some(code), signal: None, reason: ExitReason::Exited, extra: Map::new() }
    }

    /// An end by `signal`, sent by somebody else.
    pub fn signalled(signal: i32) -> Exit {
        Exit { code: None, signal: Some(signal), reason: ExitReason::Signalled, extra: Map::new() }
    }

    /// The same end, of a session that was being ended for `reason`: that is what it is remembered for,
    /// whatever code its command made of the signal.
    #[must_use]
    pub fn because(self, reason: Option<EndingReason>) -> Exit {
        let reason = match reason {
            None => return self,
            Some(EndingReason::Stopped) => ExitReason::Stopped,
            Some(EndingReason::Timeout) => ExitReason::Timeout,
            Some(EndingReason::OwnerDead) => ExitReason::OwnerDead,
            Some(EndingReason::Recovered) => ExitReason::Unknown,
        };
        Exit { reason, ..self }
    }

    /// The status that this end gives a session.
    pub fn status(&self) -> Status {
        match (self.reason, self.code) {
            (ExitReason::Exited, Some(0)) => Status::Completed,
            (ExitReason::Timeout, _) => Status::TimedOut,
            (ExitReason::Stopped, _) => Status::Stopped,
            (ExitReason::OwnerDead | ExitReason::Unknown, _) => Status::Orphaned,
            _ => Status::Failed,
        }
    }
}

/// What recovery found out about a session, and what became of its work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recovery {
    /// Why it was recovered: `process_dead`, `pid_reused`, `owner_dead` …
    pub cause: String,
    /// What was seen, in words.
    #[serde(default)]
    pub evidence: Option<String>,
    /// The ref that holds the work of its worktree.
    #[serde(default)]
    pub rescue_ref: Option<String>,
    /// What became of the worktree.
    #[serde(default)]
    pub worktree: Option<WorktreeOutcome>,
    /// What could not be done, or why the worktree was kept.
    #[serde(default)]
    pub error: Option<String>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What became of a recovered session's worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeOutcome {
    /// The next recovery takes care of it.
    Pending,
    /// Rescued and removed.
    Removed,
    /// Left where it is, for a reason that is given beside it.
    Kept,
    /// It could not be rescued or removed.
    Failed,
}

/// Where a session's output is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// Its output; both streams, unless they were split.
    pub path: OsText,
    /// Its standard error, where that has its own file.
    #[serde(default)]
    pub stderr_path: Option<OsText>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A document that is not a record this version can use.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It was written by a newer version; reading it could misunderstand it, and writing could lose it.
    #[error("the record has schema version {found}, newer than the supported {SCHEMA_VERSION}")]
    NewerSchema {
        /// The version it has.
        found: u64,
    },
    /// It is not a record.
    #[error("not a session record")]
    Malformed(#[from] serde_json::Error),
}

impl Session {
    /// A new record, `starting`, with nothing known yet but where and when.
    pub fn new(id: SessionId, host: Host, now: Time) -> Session {
        Session {
            schema: SCHEMA_VERSION,
            id,
            name: None,
            ticket: None,
            tags: BTreeMap::new(),
            command: Vec::new(),
            cwd: None,
            status: Status::Starting,
            host,
            process: None,
            supervisor: None,
            owner: None,
            on_owner_death: OnOwnerDeath::End,
            deadline_at: None,
            cgroup: None,
            probe: None,
            ending: None,
            agent: None,
            worktree: None,
            loop_state: None,
            created_at: now,
            started_at: None,
            finished_at: None,
            exit: None,
            recovery: None,
            log: None,
            revision: 0,
            extra: Map::new(),
        }
    }

    /// Reads a record from its JSON document, refusing one of a newer schema before anything else is
    /// looked at: its other fields may mean something this version does not know.
    pub fn from_json(document: &str) -> Result<Session, RecordError> {
        #[derive(Deserialize)]
        struct Version {
            schema: u64,
        }
        let session = serde_json::from_str::<Session>(document);
        match session {
            Ok(session) if sexton_mutant::is("forget_unknown") => {
                Ok(Session { extra: Map::new(), ..session })
            }
            Ok(session) if session.schema <= SCHEMA_VERSION => Ok(session),
            other => match serde_json::from_str::<Version>(document) {
                Ok(Version { schema: found }) if found > u64::from(SCHEMA_VERSION) => {
                    Err(RecordError::NewerSchema { found })
                }
                _ => Err(other.err().map_or_else(
                    || RecordError::NewerSchema { found: u64::from(SCHEMA_VERSION) + 1 },
                    RecordError::Malformed,
                )),
            },
        }
    }

    /// The record as its JSON document, on one line.
    ///
    /// # Panics
    /// Never: every field has a JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every field of a record has a JSON form")
    }

    /// Whether recovery owes the session nothing: it is finished, and its worktree does not wait.
    pub fn is_settled(&self) -> bool {
        let pending = |recovery: &Recovery| recovery.worktree == Some(WorktreeOutcome::Pending);
        self.status.is_finished() && !self.recovery.as_ref().is_some_and(pending)
    }

    /// Whether the session is finished, and both made and ended before `time`. Asking for both costs nothing
    /// in a world whose clock only goes forward, and keeps a record that a wrong clock made.
    pub fn finished_before(&self, time: Time) -> bool {
        self.status.is_finished()
            && self.created_at < time
            && self.finished_at.is_some_and(|finished| finished < time)
    }

    /// Records how the session ended. Says nothing about an end that is already recorded: the first one
    /// stands.
    pub fn finish(&mut self, exit: Exit, now: Time) {
        if self.finished_at.is_none() {
            self.status = exit.status();
            self.exit = Some(exit);
            self.finished_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn minimal() -> Value {
        json!({
            "schema": 1, "id": "abcd1234abcd1234", "status": "running",
            "host": {"machine_id": "m", "hostname": "h"}, "created_at": "2026-01-02T03:04:05Z",
        })
    }

    #[test]
    fn a_record_with_only_what_is_required_is_read() {
        let session = Session::from_json(&minimal().to_string()).unwrap();
        assert_eq!(session.status, Status::Running);
        assert_eq!(session.on_owner_death, OnOwnerDeath::End);
    }

    #[test]
    fn unknown_fields_survive_at_every_level() {
        let mut document = minimal();
        document["invented"] = json!({"deep": [1, 2.5, null]});
        document["process"] = json!({"pid": 7, "colour": "red"});
        document["worktree"] = json!({"path": "/w", "sparse": true});
        document["loop"] = json!({"active": true, "mood": "good"});
        document["exit"] = json!({"code": 1, "reason": "exited", "core_dumped": false});
        let written: Value =
            serde_json::from_str(&Session::from_json(&document.to_string()).unwrap().to_json()).unwrap();
        for pointer in
            ["/invented/deep/1", "/process/colour", "/worktree/sparse", "/loop/mood", "/exit/core_dumped"]
        {
            assert_eq!(written.pointer(pointer), document.pointer(pointer), "{pointer}");
        }
    }

    #[test]
    fn an_unknown_number_is_the_same_however_often_it_is_read_and_written() {
        for number in
            ["9.705777777777779e78", "9705777777777777777777777777777777777777777.7", "5e-324", "0.1"]
        {
            let text = minimal().to_string().replacen('{', &format!("{{\"invented\":{number},"), 1);
            let session = Session::from_json(&text).unwrap();
            assert_eq!(Session::from_json(&session.to_json()).unwrap(), session, "{number}");
            assert_eq!(session.extra["invented"].as_f64(), number.parse().ok(), "{number}");
        }
    }

    #[test]
    fn every_field_is_written_even_where_it_is_null() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let host = Host::new("m", "h");
        let session = Session::new("abcd1234abcd1234".parse().unwrap(), host, now);
        insta::assert_snapshot!(serde_json::to_string_pretty(&session).unwrap());
    }

    #[test]
    fn a_newer_schema_is_refused_even_where_its_fields_changed_their_meaning() {
        let mut document = minimal();
        document["schema"] = json!(2);
        document["status"] = json!("hibernating");
        let error = Session::from_json(&document.to_string()).unwrap_err();
        assert!(matches!(error, RecordError::NewerSchema { found: 2 }), "{error}");
        document["status"] = json!("running");
        let error = Session::from_json(&document.to_string()).unwrap_err();
        assert!(matches!(error, RecordError::NewerSchema { found: 2 }), "{error}");
    }

    #[test]
    fn the_first_recorded_end_stands() {
        let now: Time = "2026-01-02T03:04:05Z".parse().unwrap();
        let mut session = Session::from_json(&minimal().to_string()).unwrap();
        session.finish(Exit::exited(0), now);
        session.finish(Exit::signalled(9), now);
        assert_eq!(session.status, Status::Completed);
        assert_eq!(session.exit.unwrap().code, Some(0));
    }

    #[test]
    fn the_status_follows_from_the_exit() {
        assert_eq!(Exit::exited(0).status(), Status::Completed);
        assert_eq!(Exit::exited(3).status(), Status::Failed);
        assert_eq!(Exit::signalled(15).status(), Status::Failed);
        let exit = |reason| Exit { code: None, signal: None, reason, extra: Map::new() };
        assert_eq!(exit(ExitReason::Timeout).status(), Status::TimedOut);
        assert_eq!(exit(ExitReason::Stopped).status(), Status::Stopped);
        assert_eq!(exit(ExitReason::OwnerDead).status(), Status::Orphaned);
        assert_eq!(exit(ExitReason::NeverStarted).status(), Status::Failed);
    }
}
