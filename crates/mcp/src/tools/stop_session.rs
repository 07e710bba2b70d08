//! `stop_session`: end a session, with every process of it.

use std::time::Duration;

use rustix::process::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_embed::{House, stop_policy, this_host};
use sexton_supervise::{StopPolicy, Stopped};

use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::view::SessionView;

pub(super) struct StopSession;

/// Which session, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Its id, the beginning of its id (4 characters or more), or its name.
    session: String,
    /// SIGKILL at once, instead of SIGINT first.
    #[serde(default)]
    force: bool,
}

/// The session that was stopped.
#[derive(Serialize, JsonSchema)]
pub(super) struct Told {
    /// Whether something was ended now; false where it had ended before.
    stopped: bool,
    /// Processes that could not be ended.
    survivors: Vec<u32>,
    /// The session.
    session: SessionView,
}

impl Work for StopSession {
    const NAME: &'static str = "stop_session";
    const TITLE: &'static str = "Stop a session";
    const DESCRIPTION: &'static str = "End every process of a session and return when they are gone: SIGINT, at \
        half of the grace period SIGTERM, at its end SIGKILL; with `force` SIGKILL at once.";
    const EFFECT: Effect = Effect::Ends;
    type Arguments = Arguments;
    type Told = Told;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        server.rights().require_stop()?;
        let how = if arguments.force { How::Kill } else { How::Ask(Signal::INT) };
        server.blocking(move |server| stop(server.house(), &arguments.session, how)).await
    }
}

/// How a session is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// This signal first, then more force.
    Ask(Signal),
    /// SIGKILL at once.
    Kill,
}

/// Ends the session called `name`. Blocks this thread.
pub(super) fn stop(house: &House, name: &str, how: How) -> Result<Answer, Refusal> {
    pollster::block_on(async {
        let session = house.find_session(name).await?;
        if session.status.is_active() && !session.host.is_here(&this_host()) {
            let error = format!("session {} runs on another host ({})", session.id, session.host.hostname);
            return Err(Refusal::new(error, "stop it there"));
        }
        let grace = house.config.stop_grace.value;
        let policy = match how {
            How::Ask(signal) => StopPolicy { first_signal: signal.as_raw(), ..stop_policy(grace) },
            How::Kill => stop_policy(Duration::ZERO),
        };
        let (store, probe) = (house.open_for_writing()?, house.open_probe()?);
        let stopped = house.stop(store.as_ref(), probe.as_ref(), &[session.id], &policy).await?;
        let one = stopped.into_iter().next();
        Ok(answer(&one.ok_or_else(|| Refusal::internal("the session is gone from the store"))?))
    })
}

fn answer(stopped: &Stopped) -> Answer {
    let told = Told {
        stopped: !stopped.had_ended,
        survivors: stopped.survivors.iter().map(|survivor| survivor.identity.pid).collect(),
        session: SessionView::of(&stopped.session, None),
    };
    match stopped.survivors.first() {
        None => Answer::of(&told),
        Some(survivor) => {
            let error = format!("process {} is left: {}", survivor.identity.pid, survivor.why);
            Answer::failed(&told, Refusal::new(error, "try again with `force`, or tell the user"))
        }
    }
}
