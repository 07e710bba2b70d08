//! `wait_session`: waits for a session to end.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::session::load;
use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::view::SessionView;
use crate::wait::wait_for_end;

/// Allowed and default waiting times in seconds. Many clients time out before an hour has passed.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=3600;
const DEFAULT_SECONDS: u64 = 60;

pub(super) struct WaitSession;

/// Which session, and how long to wait.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Session id, a prefix of it (4 characters or more), or session name.
    session: String,
    /// Maximum time to wait in seconds, 1 to 3600. Default: 60.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    timeout: Option<u64>,
}

/// The session, and whether it has ended.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reply {
    /// Whether the session has ended; if not, the wait timed out.
    ended: bool,
    /// The session.
    session: SessionView,
}

impl Work for WaitSession {
    const NAME: &'static str = "wait_session";
    const TITLE: &'static str = "Wait for a session";
    const DESCRIPTION: &'static str = "Wait until a session has ended or the time limit is reached; `ended` says \
        which. Sends progress while it waits. Cancelling stops the wait, not the session.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = Arguments;
    type Reply = Reply;

    async fn work(server: &Server, arguments: Arguments, call: &Call) -> Result<Answer, Refusal> {
        let seconds = arguments.timeout.unwrap_or(DEFAULT_SECONDS);
        if !SECONDS.contains(&seconds) {
            let error = format!("`timeout` is {seconds}, but must be 1 to 3600 seconds");
            return Err(Refusal::new(error, "call it again when the wait times out"));
        }
        let found = server.blocking(move |server| load(server.service(), &arguments.session)).await?;
        let limit = Duration::from_secs(seconds);
        let (session, ended) = wait_for_end(server, &found.session.id, limit, call).await?;
        let running = session.status.is_active();
        let observed = found.observed.filter(|_| running);
        let reply = Reply { ended: !running, session: SessionView::of(&session, observed.as_ref()) };
        if ended && running {
            let error = format!("no process on this host can report the end of session {}", session.id);
            return Ok(Answer::failed(
                &reply,
                Refusal::new(error, "`recover` reports what can be done about it"),
            ));
        }
        Ok(Answer::of(&reply))
    }
}
