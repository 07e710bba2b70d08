//! `read_output`: what is new in a session's output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_core::Status;

use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::excerpt::{DEFAULT_LINES, MAX_LINES, Stream, load_excerpt};
use crate::refusal::Refusal;
use crate::server::Server;

pub(super) struct ReadOutput;

/// Which output, and from where on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Its id, the beginning of its id (4 characters or more), or its name.
    session: String,
    /// Where to begin: the cursor of the answer before; the beginning without one.
    #[serde(default)]
    cursor: u64,
    /// Which stream.
    #[serde(default)]
    stream: Which,
    /// How many lines at most, 1 to 2000; 100 without one.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2000))]
    lines: Option<usize>,
}

/// Which stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Which {
    /// Standard output; of a session that something else started, both.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

/// A part of the output.
#[derive(Serialize, JsonSchema)]
pub(super) struct Told {
    /// The session.
    session: String,
    /// Its status.
    status: Status,
    /// The text; what is not UTF-8 is replaced.
    output: String,
    /// Where the next part begins: pass it back.
    cursor: u64,
    /// Whether more is there already.
    truncated: bool,
    /// Whether something before this part is no longer there.
    missing: bool,
    /// Whether the session has ended and this was the rest.
    eof: bool,
}

impl Work for ReadOutput {
    const NAME: &'static str = "read_output";
    const TITLE: &'static str = "Read a session's output";
    const DESCRIPTION: &'static str = "Read what a session has written from a cursor on, without waiting. Pass \
        the returned cursor back for what is new since; it stays valid after the session's end and a restart.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = Arguments;
    type Told = Told;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        let Arguments { session, cursor, stream, lines } = arguments;
        let lines = lines.unwrap_or(DEFAULT_LINES);
        read(server, session, cursor, stream, lines).await
    }
}

/// Reads a part of the output of the session called `name`.
pub(super) async fn read(
    server: &Server,
    name: String,
    cursor: u64,
    stream: Which,
    lines: usize,
) -> Result<Answer, Refusal> {
    if !(1..=MAX_LINES).contains(&lines) {
        return Err(Refusal::of_argument(format!("`lines` is {lines}, and must be from 1 to {MAX_LINES}")));
    }
    let stream = match stream {
        Which::Stdout => Stream::Stdout,
        Which::Stderr => Stream::Stderr,
    };
    let read = server.blocking(move |server| {
        let session = pollster::block_on(server.house().find_session(&name))?;
        let part = load_excerpt(&session, stream, cursor, lines)?;
        Ok(Told {
            session: session.id.to_string(),
            status: session.status,
            output: part.text,
            cursor: part.cursor,
            truncated: part.truncated,
            missing: part.missing,
            eof: part.eof,
        })
    });
    Ok(Answer::of(&read.await?))
}
