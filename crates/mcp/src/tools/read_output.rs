//! `read_output`: reads new output of a session.

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

/// Which output, and where to start.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// Session id, a prefix of it (4 characters or more), or session name.
    session: String,
    /// Cursor of the previous result. Default: the beginning.
    #[serde(default)]
    cursor: u64,
    /// Stream to read.
    #[serde(default)]
    stream: Which,
    /// Maximum number of lines, 1 to 2000. Default: 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2000))]
    lines: Option<usize>,
}

/// Stream to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Which {
    /// Standard output; both streams if they were not recorded separately.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

/// A part of the output.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reply {
    /// Id of the session.
    session: String,
    /// Status of the session.
    status: Status,
    /// The text. Invalid UTF-8 is replaced.
    output: String,
    /// Cursor of the next part: pass it back.
    cursor: u64,
    /// Whether more output is already available.
    truncated: bool,
    /// Whether output before this part was lost.
    missing: bool,
    /// Whether the session has ended and the output is complete.
    eof: bool,
}

impl Work for ReadOutput {
    const NAME: &'static str = "read_output";
    const TITLE: &'static str = "Read a session's output";
    const DESCRIPTION: &'static str = "Read a session's output from a cursor on, without waiting. Pass the returned \
        cursor back to read newer output; it stays valid after the session's end and a restart.";
    const EFFECT: Effect = Effect::Reads;
    type Arguments = Arguments;
    type Reply = Reply;

    async fn work(server: &Server, arguments: Arguments, _: &Call) -> Result<Answer, Refusal> {
        let Arguments { session, cursor, stream, lines } = arguments;
        let lines = lines.unwrap_or(DEFAULT_LINES);
        read(server, session, cursor, stream, lines).await
    }
}

/// Reads a part of the output of the session `name`.
pub(super) async fn read(
    server: &Server,
    name: String,
    cursor: u64,
    stream: Which,
    lines: usize,
) -> Result<Answer, Refusal> {
    if !(1..=MAX_LINES).contains(&lines) {
        return Err(Refusal::of_argument(format!("`lines` is {lines}, but must be 1 to {MAX_LINES}")));
    }
    let stream = match stream {
        Which::Stdout => Stream::Stdout,
        Which::Stderr => Stream::Stderr,
    };
    let read = server.blocking(move |server| {
        let session = pollster::block_on(server.service().find_session(&name))?;
        let part = load_excerpt(&session, stream, cursor, lines)?;
        Ok(Reply {
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
