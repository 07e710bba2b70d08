//! `list_sessions`: lists running and recently finished sessions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_core::{Query, Status};
use sexton_service::{Listed, Service};

use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::view::SessionView;

/// Default and maximum number of finished sessions listed.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

pub(super) struct ListSessions;

/// Which sessions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Which sessions: `running`, `finished` or `all`. Default: `all`.
    #[serde(default)]
    which: Which,
    /// Only sessions of this ticket.
    #[serde(default)]
    ticket: Option<String>,
    /// Maximum number of finished sessions, newest first, 1 to 1000. Default: 100. Running sessions are always listed.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
}

/// Which sessions to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Which {
    /// Running sessions.
    Running,
    /// Finished sessions.
    Finished,
    /// Both.
    #[default]
    All,
}

/// The sessions.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reply {
    /// Running sessions, then finished ones, each newest first.
    pub(super) sessions: Vec<SessionView>,
}

impl Work for ListSessions {
    const NAME: &'static str = "list_sessions";
    const TITLE: &'static str = "List sessions";
    const DESCRIPTION: &'static str = "List running sessions, each probed now, and recently finished ones. Covers all \
        sessions of this store, including those started by other clients or before a restart.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = Arguments;
    type Reply = Reply;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(Refusal::of_argument(format!("`limit` is {limit}, but must be 1 to {MAX_LIMIT}")));
        }
        let which = arguments.which;
        let ticket = arguments.ticket;
        let listed =
            server.blocking(move |server| load(server.service(), which, ticket.as_deref(), limit)).await?;
        Ok(Answer::of(&Reply { sessions: listed.iter().map(SessionView::from).collect() }))
    }
}

/// Loads the sessions, with at most `limit` finished ones.
pub(crate) fn load(
    service: &Service,
    which: Which,
    ticket: Option<&str>,
    limit: usize,
) -> Result<Vec<Listed>, Refusal> {
    let of_ticket = |query: Query| Query { ticket: ticket.map(str::to_owned), ..query };
    let mut sessions = Vec::new();
    if which != Which::Finished {
        sessions.extend(pollster::block_on(service.list(&of_ticket(Query::active())))?.sessions);
    }
    if which != Which::Running {
        let ended = Status::ALL.into_iter().filter(|status| !status.is_active());
        let query = of_ticket(Query::all().with_statuses(ended).limit(limit));
        sessions.extend(pollster::block_on(service.list(&query))?.sessions);
    }
    Ok(sessions)
}
