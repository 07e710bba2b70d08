//! `session`: shows one session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_service::{Listed, Service, observe};

use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::view::SessionView;

pub(super) struct ShowSession;

/// Which session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Session id, a prefix of it (4 characters or more), or session name.
    session: String,
}

/// The session.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reply {
    /// The session.
    session: SessionView,
}

impl Work for ShowSession {
    const NAME: &'static str = "session";
    const TITLE: &'static str = "Show a session";
    const DESCRIPTION: &'static str = "Show one session: its status, the current state of its process, its exit code. \
        The full record is the resource session://ID.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = Arguments;
    type Reply = Reply;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        let listed = server.blocking(move |server| load(server.service(), &arguments.session)).await?;
        Ok(Answer::of(&Reply { session: (&listed).into() }))
    }
}

/// Loads the session `name` and probes its process.
pub(super) fn load(service: &Service, name: &str) -> Result<Listed, Refusal> {
    pollster::block_on(async {
        let session = service.find_session(name).await?;
        let observed = match session.status.is_active() {
            true => {
                let probe = service.open_probe()?;
                observe(probe.as_ref(), &service.here(probe.as_ref()).await?, &session).await
            }
            false => None,
        };
        Ok(Listed { session, observed })
    })
}
