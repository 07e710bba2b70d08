//! `stop_session`: stops all processes of a session.

use std::time::Duration;

use rustix::process::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_service::{Service, stop_policy};
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
    /// Session id, a prefix of it (4 characters or more), or session name.
    session: String,
    /// Send SIGKILL at once instead of SIGINT first.
    #[serde(default)]
    force: bool,
}

/// The stopped session.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reply {
    /// Whether this call stopped the session; false if it had already ended.
    stopped: bool,
    /// Pids of processes that could not be stopped.
    survivors: Vec<u32>,
    /// The session.
    session: SessionView,
}

impl Work for StopSession {
    const NAME: &'static str = "stop_session";
    const TITLE: &'static str = "Stop a session";
    const DESCRIPTION: &'static str = "Stop all processes of a session and return when they have exited: SIGINT, \
        SIGTERM after half of the grace period, SIGKILL at its end; with `force`, SIGKILL at once.";
    const EFFECT: Effect = Effect::Ends;
    type Arguments = Arguments;
    type Reply = Reply;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        server.rights().require_stop()?;
        let how = if arguments.force { How::Kill } else { How::Graceful(Signal::INT) };
        server.blocking(move |server| stop(server.service(), &arguments.session, how)).await
    }
}

/// How to stop a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// This signal first, then SIGTERM and SIGKILL.
    Graceful(Signal),
    /// SIGKILL at once.
    Kill,
}

/// Stops the session `name`. Blocks the thread.
pub(super) fn stop(service: &Service, name: &str, how: How) -> Result<Answer, Refusal> {
    pollster::block_on(async {
        let session = service.find_session(name).await?;
        let here = service.here(service.open_probe()?.as_ref()).await?;
        if session.status.is_active() && session.is_elsewhere(&here) {
            let error = format!("session {} runs on another host ({})", session.id, session.host.hostname);
            return Err(Refusal::new(error, "stop it on that host"));
        }
        let grace = service.config.stop_grace.value;
        let policy = match how {
            How::Graceful(signal) => StopPolicy { first_signal: signal.as_raw(), ..stop_policy(grace) },
            How::Kill => stop_policy(Duration::ZERO),
        };
        let (store, probe) = (service.open_for_writing()?, service.open_probe()?);
        let stopped = service.stop(store.as_ref(), probe.as_ref(), &[session.id], &policy).await?;
        let one = stopped.into_iter().next();
        Ok(answer(&one.ok_or_else(|| Refusal::internal("the session is no longer in the store"))?))
    })
}

fn answer(stopped: &Stopped) -> Answer {
    let reply = Reply {
        stopped: !stopped.had_ended,
        survivors: stopped.survivors.iter().map(|survivor| survivor.identity.pid).collect(),
        session: SessionView::of(&stopped.session, None),
    };
    match stopped.survivors.first() {
        None => Answer::of(&reply),
        Some(survivor) => {
            let error = format!("cannot stop process {}: {}", survivor.identity.pid, survivor.why);
            Answer::failed(&reply, Refusal::new(error, "try again with `force`, or ask the user"))
        }
    }
}
