//! `start_session`: run something long.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_embed::{Labels, Wish};

use super::command_line::{CommandLine, Wanted};
use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::view::SessionView;

pub(super) struct StartSession;

/// What to run, and what to call it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// The command: one text, or the program and its arguments as a list. Without `shell` nothing in it is
    /// expanded.
    command: CommandLine,
    /// A shell to run the text with, such as `bash`; only where the user allows that shell by name.
    #[serde(default)]
    shell: Option<String>,
    /// The directory to run in; where the server runs without one.
    #[serde(default)]
    cwd: Option<String>,
    /// A name to find it by; unique among running sessions.
    #[serde(default)]
    name: Option<String>,
    /// The ticket it works on.
    #[serde(default)]
    ticket: Option<String>,
    /// Keys and values of your own.
    #[serde(default)]
    tags: BTreeMap<String, String>,
    /// After how many seconds it is ended; never without one.
    #[serde(default)]
    #[schemars(range(min = 1))]
    timeout: Option<u64>,
    /// Whether it gets a git worktree and branch of its own.
    #[serde(default)]
    worktree: bool,
    /// The branch to make for the worktree.
    #[serde(default)]
    branch: Option<String>,
    /// Where that branch begins; HEAD without one.
    #[serde(default)]
    base: Option<String>,
}

/// The session that runs.
#[derive(Serialize, JsonSchema)]
pub(super) struct Told {
    /// The session.
    session: SessionView,
    /// Where its output begins.
    cursor: u64,
}

impl Work for StartSession {
    const NAME: &'static str = "start_session";
    const TITLE: &'static str = "Start a session";
    const DESCRIPTION: &'static str = "Start a command and return at once, when it really runs. Its output is \
        kept (read_output), its end can be waited for (wait_session), and it ends with this server.";
    const EFFECT: Effect = Effect::Runs;
    type Arguments = Arguments;
    type Told = Told;

    async fn work(server: &Server, arguments: Arguments, call: &Call) -> Result<Answer, Refusal> {
        if arguments.timeout == Some(0) {
            return Err(Refusal::of_argument("`timeout` is 0, and must be at least 1 second"));
        }
        if !arguments.worktree && (arguments.branch.is_some() || arguments.base.is_some()) {
            let error = "`branch` and `base` are about a worktree, and none was asked for";
            return Err(Refusal::new(error, "say `worktree: true`, or leave them out"));
        }
        let wanted = Wanted {
            command: arguments.command,
            shell: arguments.shell,
            cwd: arguments.cwd,
            labels: Labels {
                name: arguments.name,
                ticket: arguments.ticket,
                tags: arguments.tags.into_iter().collect(),
                ..Labels::default()
            },
            worktree: arguments.worktree.then_some(Wish {
                branch: arguments.branch,
                base: arguments.base,
                ..Wish::default()
            }),
            timeout: arguments.timeout.map(Duration::from_secs),
        };
        let session = wanted.start(server, call).await?;
        Ok(Answer::of(&Told { session: SessionView::of(&session, None), cursor: 0 }))
    }
}
