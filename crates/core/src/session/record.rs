//! The record of a session: what is stored, printed by `show --json`, and described by docs/schema.md.
//!
//! Fields that this version does not know are kept in `extra` at every level and written back, so that an older
//! program never drops what a newer one recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{SessionId, Status};
use crate::{Host, OsText, ProcessIdentity, Time};

/// The version of the record's structure that this program reads and writes.
pub const SCHEMA_VERSION: u32 = 1;

/// The complete record of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// The version of this structure.
    pub schema: u32,
    /// The session's id, which never changes.
    pub id: SessionId,
    /// The name that the user gave it; unique among active sessions.
    #[serde(default)]
    pub name: Option<String>,
    /// The ticket that it works on.
    #[serde(default)]
    pub ticket: Option<String>,
    /// Keys and values that the user chose.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// The command, program first; empty if another program started it and did not record the command.
    #[serde(default)]
    pub command: Vec<OsText>,
    /// The directory it was started in.
    #[serde(default)]
    pub cwd: Option<OsText>,
    /// The session's current state.
    pub status: Status,
    /// The host that it runs on.
    pub host: Host,
    /// The command's process.
    #[serde(default)]
    pub process: Option<ProcessIdentity>,
    /// The process that waits for the command and records its exit.
    #[serde(default)]
    pub supervisor: Option<ProcessIdentity>,
    /// The process whose death ends the session; null if the session outlives its starter.
    #[serde(default)]
    pub owner: Option<ProcessIdentity>,
    /// What happens when the owner dies.
    #[serde(default)]
    pub on_owner_death: OnOwnerDeath,
    /// When its time limit expires.
    #[serde(default)]
    pub deadline_at: Option<Time>,
    /// The control group that holds its processes.
    #[serde(default)]
    pub cgroup: Option<Cgroup>,
    /// How membership of its processes is known: `cgroup`, `systemd`, `tree`, or a word of a newer version;
    /// null if it was not started by Sexton, or by an older version.
    #[serde(default)]
    pub containment: Option<String>,
    /// The limit on file locks that its processes inherit and no other process has; null if none could be set.
    #[serde(default)]
    pub limit_mark: Option<u64>,
    /// The probe that determined the identities.
    #[serde(default)]
    pub probe: Option<String>,
    /// The decision to end it, from the moment it is made.
    #[serde(default)]
    pub ending: Option<Ending>,
    /// The agent that it runs.
    #[serde(default)]
    pub agent: Option<Agent>,
    /// Its git worktree.
    #[serde(default)]
    pub worktree: Option<Worktree>,
    /// The state of its loop.
    #[serde(default, rename = "loop")]
    pub loop_state: Option<LoopState>,
    /// When the record was created.
    pub created_at: Time,
    /// When the command started.
    #[serde(default)]
    pub started_at: Option<Time>,
    /// When its end was observed.
    #[serde(default)]
    pub finished_at: Option<Time>,
    /// How it ended.
    #[serde(default)]
    pub exit: Option<Exit>,
    /// What recovery found and did.
    #[serde(default)]
    pub recovery: Option<Recovery>,
    /// The files that hold its output.
    #[serde(default)]
    pub log: Option<Log>,
    /// The version of the program that supervises it; null for the first release, which did not record it.
    #[serde(default)]
    pub release: Option<String>,
    /// Changes with every write of the record; a write names the revision that was read.
    #[serde(default)]
    pub revision: u64,
    /// Fields of a newer version, kept unchanged.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What happens to a session when its owner dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnOwnerDeath {
    /// It is ended after a grace period, unless it has been adopted by then.
    #[default]
    End,
    /// It continues without an owner.
    Keep,
}

/// A control group, identified by path and inode: the same path can name another group later.
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

/// How much later than planned a session may end: a machine can be slow.
const ENDING_MARGIN: Duration = Duration::from_secs(30);

/// The decision to end a session; the first one committed decides the outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// Why it is ended.
    pub reason: EndingReason,
    /// Which part of Sexton decided: `stop`, `supervisor`, `recover`.
    pub by: String,
    /// When it was decided.
    pub at: Time,
    /// When the decision expires. If the process that made it was killed before it ended the session, the
    /// decision has no effect after this time; absent if there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Ending {
    /// Creates a decision of `by` at this moment, without a time limit.
    pub fn new(reason: EndingReason, by: &str, at: Time) -> Ending {
        Ending { reason, by: by.to_owned(), at, until: None, extra: Map::new() }
    }

    /// Returns the same decision, which expires after about this time.
    #[must_use]
    pub fn within(self, time: Duration) -> Ending {
        Ending { until: Some(self.at.saturating_add(time + ENDING_MARGIN)), ..self }
    }

    /// Returns whether the decision is still valid at this moment.
    pub fn stands_at(&self, now: Time) -> bool {
        self.until.is_none_or(|until| now <= until)
    }
}

/// Why a session is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndingReason {
    /// The user requested it.
    Stopped,
    /// Its time limit expired.
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
    /// Its path.
    pub path: OsText,
    /// The worktree root that it lies in; nothing outside of it is ever removed.
    #[serde(default)]
    pub root: Option<OsText>,
    /// The repository it belongs to.
    #[serde(default)]
    pub repo: Option<OsText>,
    /// The branch that was checked out for it.
    #[serde(default)]
    pub branch: Option<String>,
    /// The commit or ref that it was created from.
    #[serde(default)]
    pub base: Option<String>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The state of a loop that continues from one session to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoopState {
    /// Whether this session drives it.
    #[serde(default)]
    pub active: bool,
    /// Its phase.
    #[serde(default)]
    pub phase: Option<String>,
    /// The number of iterations done.
    #[serde(default)]
    pub iteration: Option<u64>,
    /// The limit on iterations.
    #[serde(default)]
    pub max_iterations: Option<u64>,
    /// The terminal pane it is bound to.
    #[serde(default)]
    pub pane: Option<String>,
    /// When it was bound to that pane.
    #[serde(default)]
    pub pane_set_at: Option<Time>,
    /// When it last changed.
    #[serde(default)]
    pub updated_at: Option<Time>,
    /// When its agent last took a turn.
    #[serde(default)]
    pub last_turn_at: Option<Time>,
    /// Other fields of the loop.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl LoopState {
    /// Phases in which a loop does not continue by itself.
    const TERMINAL_PHASES: [&str; 5] = ["blocked_on_user", "complete", "failed", "cancelled", "interrupted"];

    /// Returns whether the loop is in a phase in which it does not continue by itself. Ignores case and
    /// surrounding blanks.
    pub fn is_over(&self) -> bool {
        let phase = self.phase.as_deref().unwrap_or_default().trim();
        Self::TERMINAL_PHASES.iter().any(|terminal| terminal.eq_ignore_ascii_case(phase))
    }

    /// Returns whether it holds no loop: it may have a pane or a time, but nothing was ever done.
    pub fn is_blank(&self) -> bool {
        let LoopState { active, phase, iteration, max_iterations, extra, .. } = self;
        !active && phase.is_none() && iteration.is_none() && max_iterations.is_none() && extra.is_empty()
    }
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exit {
    /// The exit code, if it exited.
    #[serde(default)]
    pub code: Option<i32>,
    /// The signal, if a signal ended it.
    #[serde(default)]
    pub signal: Option<i32>,
    /// Why it ended.
    pub reason: ExitReason,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The reasons for which a session can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// It exited by itself.
    Exited,
    /// A signal that Sexton did not send ended it.
    Signalled,
    /// It could not be executed.
    ExecFailed,
    /// Its start was interrupted before its command ran.
    NeverStarted,
    /// Its time limit expired.
    Timeout,
    /// It was stopped on request.
    Stopped,
    /// Its owner died.
    OwnerDead,
    /// Its end was not observed.
    Unknown,
}

impl Exit {
    /// Creates the exit of a command that exited by itself with `code`.
    pub fn exited(code: i32) -> Exit {
        Exit { code: Some(code), signal: None, reason: ExitReason::Exited, extra: Map::new() }
    }

    /// Creates the exit of a command that was ended by a `signal` that Sexton did not send.
    pub fn signalled(signal: i32) -> Exit {
        Exit { code: None, signal: Some(signal), reason: ExitReason::Signalled, extra: Map::new() }
    }

    /// Returns the same exit with the reason for which the session was being ended: that reason counts,
    /// whatever exit code the command returned for the signal.
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

    /// Returns the status of a session that ended this way.
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

/// What recovery found out about a session, and what happened to its worktree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recovery {
    /// Why it was recovered: `process_dead`, `pid_reused`, `owner_dead` …
    pub cause: String,
    /// The observation, in words.
    #[serde(default)]
    pub evidence: Option<String>,
    /// The ref that holds the work saved from its worktree.
    #[serde(default)]
    pub rescue_ref: Option<String>,
    /// What happened to the worktree.
    #[serde(default)]
    pub worktree: Option<WorktreeOutcome>,
    /// What failed, or why the worktree was kept.
    #[serde(default)]
    pub error: Option<String>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What happened to a recovered session's worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeOutcome {
    /// The next recovery handles it.
    Pending,
    /// Rescued and removed.
    Removed,
    /// Left in place; the reason is recorded beside it.
    Kept,
    /// It could not be rescued or removed.
    Failed,
}

/// The files that hold a session's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// The output; both streams, unless they are split.
    pub path: OsText,
    /// The standard error, if it has its own file.
    #[serde(default)]
    pub stderr_path: Option<OsText>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Why a document is not a record that this version can use.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A newer version wrote it; reading it could misinterpret it, and writing it could lose data.
    #[error("the record has schema version {found}, newer than the supported {SCHEMA_VERSION}")]
    NewerSchema {
        /// The version it has.
        found: u64,
    },
    /// Its status is a word of a newer version, whose meaning is unknown here.
    #[error("the record has the status `{}`, which this version does not know", .found.escape_debug())]
    NewerStatus {
        /// The status it has.
        found: String,
    },
    /// It is not a record.
    #[error("not a session record")]
    Malformed(#[from] serde_json::Error),
}

impl RecordError {
    /// Returns whether a newer version wrote the record. Such a record is intact, and this version must not
    /// change it.
    pub fn is_newer(&self) -> bool {
        !matches!(self, RecordError::Malformed(_))
    }
}

impl Session {
    /// Creates a record with the status `starting`, in which only host and time are known.
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
            containment: None,
            limit_mark: None,
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
            release: None,
            revision: 0,
            extra: Map::new(),
        }
    }

    /// Reads a record from its JSON document. Refuses a newer schema before it reads the other fields, whose
    /// meaning may have changed.
    pub fn from_json(document: &str) -> Result<Session, RecordError> {
        #[derive(Deserialize)]
        struct Version {
            schema: u64,
            #[serde(default)]
            status: Value,
        }
        let session = serde_json::from_str::<Session>(document);
        match session {
            Ok(session) if sexton_mutant::is("forget_unknown") => {
                Ok(Session { extra: Map::new(), ..session })
            }
            Ok(session) if session.schema <= SCHEMA_VERSION => Ok(session),
            other => match serde_json::from_str::<Version>(document) {
                Ok(Version { schema: found, .. }) if found > u64::from(SCHEMA_VERSION) => {
                    Err(RecordError::NewerSchema { found })
                }
                Ok(Version { status: Value::String(found), .. }) if found.parse::<Status>().is_err() => {
                    Err(RecordError::NewerStatus { found })
                }
                _ => Err(other.err().map_or_else(
                    || RecordError::NewerSchema { found: u64::from(SCHEMA_VERSION) + 1 },
                    RecordError::Malformed,
                )),
            },
        }
    }

    /// Returns the record as a JSON document on one line.
    ///
    /// # Panics
    /// Never: every field has a JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("every field of a record has a JSON form")
    }

    /// Returns whether recovery has nothing left to do: the session is finished, and its worktree is not
    /// pending.
    pub fn is_settled(&self) -> bool {
        let pending = |recovery: &Recovery| recovery.worktree == Some(WorktreeOutcome::Pending);
        self.status.is_finished() && !self.recovery.as_ref().is_some_and(pending)
    }

    /// Returns whether the session is finished, and was both created and finished before `time`. With a
    /// monotonic clock the second condition implies the first; checking both keeps a record that a wrong clock
    /// made.
    pub fn finished_before(&self, time: Time) -> bool {
        self.status.is_finished()
            && self.created_at < time
            && self.finished_at.is_some_and(|finished| finished < time)
    }

    /// Records how the session ended. Does nothing if an end is already recorded: the first one counts.
    pub fn finish(&mut self, exit: Exit, now: Time) {
        if self.finished_at.is_none() {
            self.status = exit.status();
            self.exit = Some(exit);
            self.finished_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests;
