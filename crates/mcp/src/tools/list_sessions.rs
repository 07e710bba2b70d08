//! `list_sessions`: what runs, and what has ended lately.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_core::{Query, Status};
use sexton_embed::{House, Listed};

use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::view::SessionView;

/// How many finished sessions are listed where nobody says, and at most.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;

pub(super) struct ListSessions;

/// Which sessions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Which of them: `running`, `finished` or `all`, which is meant without one.
    #[serde(default)]
    which: Which,
    /// Only sessions of this ticket.
    #[serde(default)]
    ticket: Option<String>,
    /// How many finished ones, the newest, 1 to 1000; 100 without one. Those that run are all listed.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
}

/// Which sessions are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Which {
    /// Those that run.
    Running,
    /// Those that have ended.
    Finished,
    /// Both.
    #[default]
    All,
}

/// The sessions.
#[derive(Serialize, JsonSchema)]
pub(super) struct Told {
    /// Those that run, then those that have ended, each the newest first.
    pub(super) sessions: Vec<SessionView>,
}

impl Work for ListSessions {
    const NAME: &'static str = "list_sessions";
    const TITLE: &'static str = "List sessions";
    const DESCRIPTION: &'static str = "List the sessions that run, each probed now, and those that have ended \
        lately. All sessions of this store are listed, whoever started them, before and after restarts.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = Arguments;
    type Told = Told;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(Refusal::of_argument(format!(
                "`limit` is {limit}, and must be from 1 to {MAX_LIMIT}"
            )));
        }
        let which = arguments.which;
        let ticket = arguments.ticket;
        let listed =
            server.blocking(move |server| load(server.house(), which, ticket.as_deref(), limit)).await?;
        Ok(Answer::of(&Told { sessions: listed.iter().map(SessionView::from).collect() }))
    }
}

/// The sessions that are meant, at most so many finished ones.
pub(crate) fn load(
    house: &House,
    which: Which,
    ticket: Option<&str>,
    limit: usize,
) -> Result<Vec<Listed>, Refusal> {
    let of_ticket = |query: Query| Query { ticket: ticket.map(str::to_owned), ..query };
    let mut sessions = Vec::new();
    if which != Which::Finished {
        sessions.extend(pollster::block_on(house.list(&of_ticket(Query::active())))?.sessions);
    }
    if which != Which::Running {
        let ended = Status::ALL.into_iter().filter(|status| !status.is_active());
        let query = of_ticket(Query::all().with_statuses(ended).limit(limit));
        sessions.extend(pollster::block_on(house.list(&query))?.sessions);
    }
    Ok(sessions)
}
