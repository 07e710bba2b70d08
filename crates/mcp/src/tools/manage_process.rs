//! `manage_process`: lists sessions, kills one or reads its output, by session or by the pid of its command.
//!
//! A pid is looked up only in the records, so a process that is not a session is never signalled.

use rustix::process::Signal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_core::{Query, Status};
use sexton_service::{Observed, Service};

use super::list_sessions::{Reply as Sessions, Which, load};
use super::read_output::{Which as Stream, read};
use super::stop_session::{How, stop};
use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::excerpt::DEFAULT_LINES;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::view::SessionView;

/// Maximum number of finished sessions listed.
const LISTED: usize = 100;

pub(super) struct ManageProcess;

/// What to do, and to which process.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Action to perform.
    action: Action,
    /// Session id, a prefix of it, or session name. `kill` and `read` need this or `pid`.
    #[serde(default)]
    session: Option<String>,
    /// Pid of the session's command.
    #[serde(default)]
    pid: Option<u32>,
    /// For `kill`: SIGTERM first and SIGKILL after the grace period, or SIGKILL at once.
    #[serde(default)]
    signal: KillSignal,
    /// For `read`: cursor to start at.
    #[serde(default)]
    cursor: u64,
    /// For `read`: which stream.
    #[serde(default)]
    stream: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// List sessions.
    List,
    /// Stop all processes of a session.
    Kill,
    /// Read the output of a session.
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

/// The reply of an action: see list_sessions, stop_session and read_output.
#[derive(Serialize, JsonSchema)]
#[allow(dead_code, reason = "it is only the schema; each of the three actions replies with its own type")]
pub(super) struct Reply {
    /// `list`: the sessions.
    sessions: Option<Vec<SessionView>>,
    /// `kill`: whether this call stopped the session.
    stopped: Option<bool>,
    /// `kill`: pids of processes that could not be stopped.
    survivors: Option<Vec<u32>>,
    /// `kill`: the session; `read`: its id.
    session: Option<SessionOrId>,
    /// `read`: status of the session.
    status: Option<Status>,
    /// `read`: the text.
    output: Option<String>,
    /// `read`: cursor of the next part.
    cursor: Option<u64>,
    /// `read`: whether more output is already available.
    truncated: Option<bool>,
    /// `read`: whether output before this part was lost.
    missing: Option<bool>,
    /// `read`: whether the session has ended and the output is complete.
    eof: Option<bool>,
}

/// A session, or only its id.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it is only the schema; each of the three actions replies with its own type")]
enum SessionOrId {
    /// The session.
    Session(Box<SessionView>),
    /// Id of the session.
    Id(String),
}

impl Work for ManageProcess {
    const NAME: &'static str = "manage_process";
    const TITLE: &'static str = "List, kill or read processes";
    const DESCRIPTION: &'static str = "List sessions, kill all processes of one, or read its output, by session id \
        or by the pid of its command. Only sessions can be killed, not other processes.";
    const EFFECT: Effect = Effect::Ends;
    type Arguments = Arguments;
    type Reply = Reply;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        match arguments.action {
            Action::List => {
                let listed =
                    server.blocking(|server| load(server.service(), Which::All, None, LISTED)).await?;
                Ok(Answer::of(&Sessions { sessions: listed.iter().map(SessionView::from).collect() }))
            }
            Action::Kill => {
                server.rights().require_stop()?;
                let name = require_named(server, arguments.session, arguments.pid).await?;
                let how = match arguments.signal {
                    KillSignal::Term => How::Graceful(Signal::TERM),
                    KillSignal::Kill => How::Kill,
                };
                server.blocking(move |server| stop(server.service(), &name, how)).await
            }
            Action::Read => {
                let name = require_named(server, arguments.session, arguments.pid).await?;
                read(server, name, arguments.cursor, arguments.stream, DEFAULT_LINES).await
            }
        }
    }
}

/// Returns the session given by name or pid.
async fn require_named(
    server: &Server,
    session: Option<String>,
    pid: Option<u32>,
) -> Result<String, Refusal> {
    match (session, pid) {
        (Some(session), None) => Ok(session),
        (None, Some(pid)) => server.blocking(move |server| find_by_pid(server.service(), pid)).await,
        (Some(_), Some(_)) => Err(Refusal::of_argument("`session` and `pid` are both set")),
        (None, None) => Err(Refusal::new("neither `session` nor `pid` is set", "set one of them")),
    }
}

/// Returns the id of the running session whose command has this pid.
fn find_by_pid(service: &Service, pid: u32) -> Result<String, Refusal> {
    let listing = pollster::block_on(service.list(&Query::active()))?;
    let found = listing.sessions.into_iter().find(|listed| {
        let process = listed.session.process.as_ref();
        // A pid that was reused by another process does not match.
        process.is_some_and(|process| process.pid == pid)
            && listed.observed.as_ref().is_some_and(Observed::is_running)
    });
    found.map(|listed| listed.session.id.to_string()).ok_or_else(|| {
        let error = format!("no running session has the pid {pid}");
        Refusal::new(error, "only sessions can be managed; `list` shows them")
    })
}
