//! `manage_process`: list, kill and read, by a session or by the pid of its command.
//!
//! A pid is looked up in the records and nowhere else: what is no session is nobody's to signal.

use rustix::process::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_core::{Query, Status};
use sexton_embed::{House, Observed};

use super::list_sessions::{Told as Sessions, Which, load};
use super::read_output::{Which as Stream, read};
use super::stop_session::{How, stop};
use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::excerpt::DEFAULT_LINES;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::view::SessionView;

/// How many finished sessions are listed.
const LISTED: usize = 100;

pub(super) struct ManageProcess;

/// What to do, and to which process.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// What to do.
    action: Action,
    /// The session: its id, the beginning of its id, or its name. For `kill` and `read`, this or `pid`.
    #[serde(default)]
    session: Option<String>,
    /// The pid of the session's command.
    #[serde(default)]
    pid: Option<u32>,
    /// For `kill`: SIGTERM, then SIGKILL after the grace period; or SIGKILL at once.
    #[serde(default)]
    signal: KillSignal,
    /// For `read`: where to begin.
    #[serde(default)]
    cursor: u64,
    /// For `read`: which stream.
    #[serde(default)]
    stream: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// List the sessions.
    List,
    /// End every process of one.
    Kill,
    /// Read its output.
    Read,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
enum KillSignal {
    #[default]
    #[serde(rename = "SIGTERM")]
    Term,
    #[serde(rename = "SIGKILL")]
    Kill,
}

/// What the action tells: see list_sessions, stop_session and read_output.
#[derive(Serialize, JsonSchema)]
#[allow(dead_code, reason = "it describes what the three actions tell; each tells its own part")]
pub(super) struct Told {
    /// Of `list`: the sessions.
    sessions: Option<Vec<SessionView>>,
    /// Of `kill`: whether something was ended now.
    stopped: Option<bool>,
    /// Of `kill`: processes that could not be ended.
    survivors: Option<Vec<u32>>,
    /// Of `kill`: the session; of `read`: its id.
    session: Option<SessionOrId>,
    /// Of `read`: the session's status.
    status: Option<Status>,
    /// Of `read`: the text.
    output: Option<String>,
    /// Of `read`: where the next part begins.
    cursor: Option<u64>,
    /// Of `read`: whether more is there already.
    truncated: Option<bool>,
    /// Of `read`: whether something before this part is no longer there.
    missing: Option<bool>,
    /// Of `read`: whether the session has ended and this was the rest.
    eof: Option<bool>,
}

/// A session, or its id alone.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it describes what the three actions tell; each tells its own part")]
enum SessionOrId {
    /// The session.
    Session(Box<SessionView>),
    /// Its id.
    Id(String),
}

impl Work for ManageProcess {
    const NAME: &'static str = "manage_process";
    const TITLE: &'static str = "List, kill or read processes";
    const DESCRIPTION: &'static str = "List sessions, kill one with every process of it, or read its output, by \
        session id or by the pid of its command. Only sessions can be killed, never any other process.";
    const EFFECT: Effect = Effect::Ends;
    type Arguments = Arguments;
    type Told = Told;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        match arguments.action {
            Action::List => {
                let listed = server.blocking(|server| load(server.house(), Which::All, None, LISTED)).await?;
                Ok(Answer::of(&Sessions { sessions: listed.iter().map(SessionView::from).collect() }))
            }
            Action::Kill => {
                server.rights().require_stop()?;
                let name = require_named(server, arguments.session, arguments.pid).await?;
                let how = match arguments.signal {
                    KillSignal::Term => How::Ask(Signal::TERM),
                    KillSignal::Kill => How::Kill,
                };
                server.blocking(move |server| stop(server.house(), &name, how)).await
            }
            Action::Read => {
                let name = require_named(server, arguments.session, arguments.pid).await?;
                read(server, name, arguments.cursor, arguments.stream, DEFAULT_LINES).await
            }
        }
    }
}

/// The name of the session that is meant.
async fn require_named(
    server: &Server,
    session: Option<String>,
    pid: Option<u32>,
) -> Result<String, Refusal> {
    match (session, pid) {
        (Some(session), None) => Ok(session),
        (None, Some(pid)) => server.blocking(move |server| find_by_pid(server.house(), pid)).await,
        (Some(_), Some(_)) => Err(Refusal::of_argument("`session` and `pid` were both given")),
        (None, None) => Err(Refusal::new("neither `session` nor `pid` was given", "give one of them")),
    }
}

/// The id of the session whose command runs with this pid.
fn find_by_pid(house: &House, pid: u32) -> Result<String, Refusal> {
    let listing = pollster::block_on(house.list(&Query::active()))?;
    let found = listing.sessions.into_iter().find(|listed| {
        let process = listed.session.process.as_ref();
        // A number that belongs to another process by now names no session.
        process.is_some_and(|process| process.pid == pid) && listed.observed == Some(Observed::Alive)
    });
    found.map(|listed| listed.session.id.to_string()).ok_or_else(|| {
        let error = format!("no running session has the pid {pid}");
        Refusal::new(error, "only sessions can be managed; `list` shows them")
    })
}
