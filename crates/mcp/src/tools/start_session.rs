//! `start_session`: starts a long-running command.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_service::{Labels, Wish};

use super::command_line::{CommandLine, Wanted};
use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::view::SessionView;

pub(super) struct StartSession;

/// What to run, and the labels of the session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Command as one text, or program and arguments as a list. Nothing is expanded unless `shell` is set.
    command: CommandLine,
    /// Shell that runs the text, such as `bash`. The user must allow that shell by name.
    #[serde(default)]
    shell: Option<String>,
    /// Working directory. Default: that of the server.
    #[serde(default)]
    cwd: Option<String>,
    /// Session name (unique among running sessions).
    #[serde(default)]
    name: Option<String>,
    /// Ticket that the session works on.
    #[serde(default)]
    ticket: Option<String>,
    /// User-defined keys and values.
    #[serde(default)]
    tags: BTreeMap<String, String>,
    /// Time limit in seconds. Default: none.
    #[serde(default)]
    #[schemars(range(min = 1))]
    timeout: Option<u64>,
    /// Whether to create a git worktree and branch for the session.
    #[serde(default)]
    worktree: bool,
    /// Branch to create for the worktree.
    #[serde(default)]
    branch: Option<String>,
    /// Commit at which the branch starts. Default: HEAD.
    #[serde(default)]
    base: Option<String>,
}

/// The started session.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reply {
    /// The session.
    session: SessionView,
    /// Cursor of the beginning of its output.
    cursor: u64,
}

impl Work for StartSession {
    const NAME: &'static str = "start_session";
    const TITLE: &'static str = "Start a session";
    const DESCRIPTION: &'static str = "Start a command and return as soon as it runs. Its output is kept \
        (read_output), wait_session waits for its end, and it ends with this server.";
    const EFFECT: Effect = Effect::Runs;
    type Arguments = Arguments;
    type Reply = Reply;

    async fn work(server: &Server, arguments: Arguments, call: &Call) -> Result<Answer, Refusal> {
        if arguments.timeout == Some(0) {
            return Err(Refusal::of_argument("`timeout` is 0, but must be at least 1 second"));
        }
        if !arguments.worktree && (arguments.branch.is_some() || arguments.base.is_some()) {
            let error = "`branch` and `base` need `worktree: true`";
            return Err(Refusal::new(error, "set `worktree: true`, or omit them"));
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
        Ok(Answer::of(&Reply { session: SessionView::of(&session, None), cursor: 0 }))
    }
}
