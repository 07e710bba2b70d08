//! Sample records: small ones by number, and one with every field.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use serde_json::{Value, json};
use sexton_core::session::{Exit, Recovery, Worktree, WorktreeOutcome};
use sexton_core::store::Capabilities;
use sexton_core::{Host, OsText, Session, SessionId, Status, Time};

/// Returns a fixed time, `seconds` after the first one.
pub(super) fn moment(seconds: u64) -> Time {
    let first: Time = "2026-01-02T03:04:05.000000001Z".parse().expect("a time in RFC 3339");
    first.saturating_add(Duration::from_secs(seconds))
}

/// Returns the id `text`.
pub(super) fn id(text: &str) -> SessionId {
    text.parse().expect("an id of plain characters")
}

/// Returns a running session.
pub(super) fn running(text: &str) -> Session {
    let host = Host::new("0123456789abcdef", "laptop");
    let mut session = Session::new(id(text), host, moment(0));
    session.status = Status::Running;
    session
}

/// Returns a running session with a name.
pub(super) fn named(text: &str, name: &str) -> Session {
    Session { name: Some(name.to_owned()), ..running(text) }
}

/// Returns a completed session.
pub(super) fn completed(text: &str) -> Session {
    let mut session = running(text);
    session.finish(Exit::exited(0), moment(60));
    session
}

/// Returns `session` with another status and the fields that the status needs.
pub(super) fn with_status(session: &Session, status: Status) -> Session {
    let finished_at = status.is_finished().then(|| moment(60));
    Session { status, finished_at, ..session.clone() }
}

/// Writes `mark` into a field of `session` that a store with `capabilities` keeps.
pub(super) fn mark(capabilities: &Capabilities, session: &mut Session, mark: &str) {
    if capabilities.keeps("ticket") {
        session.ticket = Some(mark.to_owned());
    } else if capabilities.keeps("loop.pane") {
        session.loop_state.get_or_insert_default().pane = Some(mark.to_owned());
    } else {
        session.extra.insert("mark".to_owned(), json!(mark));
    }
}

/// Returns the mark of `session`.
pub(super) fn mark_of(session: &Session) -> Option<&str> {
    let pane = session.loop_state.as_ref().and_then(|state| state.pane.as_deref());
    session.ticket.as_deref().or(pane).or_else(|| session.extra.get("mark")?.as_str())
}

/// Writes `number` into a field of `session` that a store with `capabilities` keeps.
pub(super) fn set_number(capabilities: &Capabilities, session: &mut Session, number: u64) {
    if capabilities.keeps("loop.iteration") {
        session.loop_state.get_or_insert_default().iteration = Some(number);
    } else {
        session.extra.insert("number".to_owned(), json!(number));
    }
}

/// Returns the number of `session`, or 0 if it has none.
pub(super) fn number_of(session: &Session) -> u64 {
    let iteration = session.loop_state.as_ref().and_then(|state| state.iteration);
    iteration.or_else(|| session.extra.get("number")?.as_u64()).unwrap_or(0)
}

/// Returns record `n` of a varied set. Statuses, tickets, names, repositories and equal times have different periods,
/// so that every filter matches some records and not others.
pub(super) fn varied(n: usize) -> Session {
    let seconds = u64::try_from(n / 3).expect("a small number");
    // A coprime multiplier scatters the ids, so that their order is not the insertion order.
    let base = running(&format!("{}{:03}", ["ab", "abc", "b"][n % 3], (n * 37) % 997));
    let mut session = with_status(&base, Status::ALL[n % Status::ALL.len()]);
    session.created_at = moment(seconds * 60);
    session.finished_at = session.finished_at.map(|_| moment(seconds * 60 + 30));
    session.recovery = (n % 9 == 4).then(|| recovery(WorktreeOutcome::Pending));
    session.ticket = (!n.is_multiple_of(4)).then(|| format!("T-{}", n % 5));
    // Active sessions must not share a name, so only names of finished ones repeat.
    session.name = match n % 7 {
        0 => None,
        _ if session.status.is_active() => Some(format!("active-{n}")),
        _ => Some(format!("name {}", n % 6)),
    };
    session.worktree = (n % 5 < 3).then(|| worktree(n));
    session
}

fn recovery(worktree: WorktreeOutcome) -> Recovery {
    Recovery {
        cause: "process_dead".to_owned(),
        evidence: None,
        rescue_ref: None,
        worktree: Some(worktree),
        error: None,
        extra: serde_json::Map::new(),
    }
}

fn worktree(n: usize) -> Worktree {
    let repo = match n % 4 {
        0 => None,
        1 => Some(OsText::from("/src/one")),
        2 => Some(OsText::from("/src/one/nested")),
        _ => Some(raw(b"/src/\xff\xfe")),
    };
    Worktree {
        path: OsText::from(format!("/worktrees/{n}")),
        root: Some(OsText::from("/worktrees")),
        repo,
        branch: Some(format!("agent/{n}")),
        base: None,
        extra: serde_json::Map::new(),
    }
}

/// Returns text that is not UTF-8.
pub(super) fn raw(bytes: &[u8]) -> OsText {
    OsString::from_vec(bytes.to_vec()).into()
}

/// Returns a record with every field, with an unknown field in each object, and with unusual text.
pub(super) fn everything() -> Session {
    let process = json!({
        "pid": 4711, "boot_id": "b", "pidfd_inode": u64::MAX, "start_ticks": 1, "start_time_us": 2,
        "pid_namespace": 3, "time_namespace": 4, "exe": "/bin/agent", "from_tomorrow": {"deep": [1, 2.5, null]},
    });
    let document = json!({
        "schema": 1, "id": "every-field_1", "name": "näme with \"quotes\"\n\u{0}and\u{2028}lines", "ticket": "T-1",
        "tags": {"": "", "key=": "a\tb"}, "command": ["agent", {"bytes": "//5hCg=="}, "", "line\nbreak"],
        "cwd": {"bytes": "L3RtcC//"}, "status": "completed", "host": {"machine_id": "m", "hostname": "h"},
        "process": process, "supervisor": process, "owner": process, "on_owner_death": "keep",
        "deadline_at": "2026-03-01T00:00:00Z", "cgroup": {"path": "/sys/fs/cgroup/x", "inode": 9, "from_tomorrow": 1},
        "containment": "cgroup",
        "probe": "linux",
        "ending": {"reason": "stopped", "by": "stop", "at": "2026-02-01T00:00:00Z", "from_tomorrow": "x"},
        "agent": {"kind": "claude", "session_id": "s", "thread_id": "t", "from_tomorrow": [[]]},
        "worktree": {"path": "/w", "root": "/", "repo": "/r", "branch": "b", "base": "c", "from_tomorrow": {}},
        "loop": {"active": true, "phase": "p", "iteration": 3, "max_iterations": 9, "pane": "%1",
                 "pane_set_at": "2026-02-01T00:00:00Z", "updated_at": "2026-02-01T00:00:00Z",
                 "last_turn_at": "2026-02-01T00:00:00Z", "from_tomorrow": -1},
        "created_at": "2026-01-01T00:00:00.123456789Z", "started_at": "2026-01-01T00:00:01Z",
        "finished_at": "2026-01-01T00:00:02Z",
        "exit": {"code": 0, "signal": null, "reason": "exited", "from_tomorrow": true},
        "recovery": {"cause": "c", "evidence": "e", "rescue_ref": "r", "worktree": "kept", "from_tomorrow": 1e300},
        "log": {"path": "/l", "stderr_path": "/e", "from_tomorrow": ""},
        "from_tomorrow": {"z": 1, "a": [true, {"b": null}], "big": u64::MAX},
    });
    from_document(&document)
}

fn from_document(document: &Value) -> Session {
    Session::from_json(&document.to_string()).expect("the sample is a record")
}
