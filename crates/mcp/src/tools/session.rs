//! `session`: one session, as it stands now.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_embed::{House, Listed, observe, this_host};

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
    /// Its id, the beginning of its id (4 characters or more), or its name.
    session: String,
}

/// The session.
#[derive(Serialize, JsonSchema)]
pub(super) struct Told {
    /// The session.
    session: SessionView,
}

impl Work for ShowSession {
    const NAME: &'static str = "session";
    const TITLE: &'static str = "Show a session";
    const DESCRIPTION: &'static str = "Show one session: its status, what its process does now, its exit code. \
        The whole record is the resource session://ID.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = Arguments;
    type Told = Told;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        let listed = server.blocking(move |server| load(server.house(), &arguments.session)).await?;
        Ok(Answer::of(&Told { session: (&listed).into() }))
    }
}

/// The session called `name`, probed now.
pub(super) fn load(house: &House, name: &str) -> Result<Listed, Refusal> {
    pollster::block_on(async {
        let session = house.find_session(name).await?;
        let observed = match session.status.is_active() {
            true => observe(house.open_probe()?.as_ref(), &this_host(), &session).await,
            false => None,
        };
        Ok(Listed { session, observed })
    })
}
