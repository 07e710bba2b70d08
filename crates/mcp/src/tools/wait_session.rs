//! `wait_session`: wait for a session to end.

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

/// How many seconds one call waits, and how many where nobody says. Many clients give up sooner than an hour.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=3600;
const DEFAULT_SECONDS: u64 = 60;

pub(super) struct WaitSession;

/// Which session, and how long.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Its id, the beginning of its id (4 characters or more), or its name.
    session: String,
    /// How many seconds to wait at most, 1 to 3600; 60 without one.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    timeout: Option<u64>,
}

/// The session, and whether it has ended.
#[derive(Serialize, JsonSchema)]
pub(super) struct Told {
    /// Whether it has ended; if not, the time was up.
    ended: bool,
    /// The session.
    session: SessionView,
}

impl Work for WaitSession {
    const NAME: &'static str = "wait_session";
    const TITLE: &'static str = "Wait for a session";
    const DESCRIPTION: &'static str = "Wait until a session has ended, or the time is up; `ended` says which. \
        Sends progress while it waits. Cancelling stops the wait, never the session.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = Arguments;
    type Told = Told;

    async fn work(server: &Server, arguments: Arguments, call: &Call) -> Result<Answer, Refusal> {
        let seconds = arguments.timeout.unwrap_or(DEFAULT_SECONDS);
        if !SECONDS.contains(&seconds) {
            let error = format!("`timeout` is {seconds}, and must be from 1 to 3600 seconds");
            return Err(Refusal::new(error, "wait again when the time is up"));
        }
        let found = server.blocking(move |server| load(server.house(), &arguments.session)).await?;
        let limit = Duration::from_secs(seconds);
        let (session, ended) = wait_for_end(server, &found.session.id, limit, call).await?;
        let running = session.status.is_active();
        let observed = found.observed.filter(|_| running);
        let told = Told { ended: !running, session: SessionView::of(&session, observed.as_ref()) };
        if ended && running {
            let error = format!("nobody is left here who could tell when session {} ends", session.id);
            return Ok(Answer::failed(
                &told,
                Refusal::new(error, "`recover` says what is to be done about it"),
            ));
        }
        Ok(Answer::of(&told))
    }
}
