//! `session.json`: the current session of oh-my-codex, if the process that wrote it is still running.

use serde_json::{Map, Value};
use sexton_core::SessionId;

use crate::dir::Root;
use crate::witness::Witness;

/// The file.
const NAME: &str = "session.json";

/// Returns the session that the file names; `None` if it names none, or if the process with its pid is not
/// the recorded one. A file without a process is accepted as it is.
pub(crate) fn find_current(root: &Root) -> Option<SessionId> {
    let fields: Map<String, Value> = serde_json::from_slice(&root.find_file(NAME)?).ok()?;
    let id = fields.get("session_id")?.as_str()?.trim().parse().ok()?;
    let recorded = |key| fields.get(key).filter(|value| !value.is_null());
    let Some(pid) = recorded("pid") else { return Some(id) };
    let pid = pid.as_u64().and_then(|pid| u32::try_from(pid).ok())?;
    let start_ticks = match recorded("pid_start_ticks") {
        Some(ticks) => Some(ticks.as_u64()?),
        None => None,
    };
    Witness::open().is_running(pid, start_ticks).then_some(id)
}
