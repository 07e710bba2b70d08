//! `execute_command`: runs a short command and returns its output.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_core::session::ExitReason;
use sexton_core::{Session, Status};
use sexton_service::Labels;

use super::command_line::{CommandLine, Wanted};
use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::excerpt::{DEFAULT_LINES, Excerpt, Stream, load_excerpt};
use crate::refusal::Refusal;
use crate::server::Server;
use crate::wait::wait_for_end;

/// Allowed and default time limits in seconds.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=300;
const DEFAULT_SECONDS: u64 = 30;

/// Time to record the end of a session, in addition to its time limit and grace period.
const MARGIN: Duration = Duration::from_secs(15);

pub(super) struct ExecuteCommand;

/// What to run, and for how long.
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
    /// Time limit in seconds, 1 to 300. Default: 30.
    #[serde(default)]
    #[schemars(range(min = 1, max = 300))]
    timeout: Option<u64>,
}

/// Output and exit status of the command.
#[derive(Serialize, JsonSchema)]
pub(super) struct Reply {
    /// Id of the session that ran the command; `read_output` reads more of its output.
    session: String,
    /// Status of the session.
    status: Status,
    /// Exit code of the command; null if a signal ended it.
    exit_code: Option<i32>,
    /// Signal that ended the command.
    signal: Option<i32>,
    /// Beginning of standard output.
    stdout: String,
    /// Beginning of standard error.
    stderr: String,
    /// Whether either stream has more output: continue with `read_output` and the cursor.
    truncated: bool,
    /// Cursor of the next part of standard output.
    stdout_cursor: u64,
    /// Cursor of the next part of standard error.
    stderr_cursor: u64,
    /// Duration in seconds.
    seconds: f64,
}

impl Work for ExecuteCommand {
    const NAME: &'static str = "execute_command";
    const TITLE: &'static str = "Run a command";
    const DESCRIPTION: &'static str = "Run a command and wait for it (1 to 300 seconds). Returns its exit code \
        and the first 100 lines of stdout and stderr; `success` is false unless it exited with 0. At the \
        time limit, all its processes are stopped. For longer commands, use start_session.";
    const EFFECT: Effect = Effect::Runs;
    type Arguments = Arguments;
    type Reply = Reply;

    async fn work(server: &Server, arguments: Arguments, call: &Call) -> Result<Answer, Refusal> {
        let seconds = arguments.timeout.unwrap_or(DEFAULT_SECONDS);
        if !SECONDS.contains(&seconds) {
            let error = format!("`timeout` is {seconds}, but must be 1 to 300 seconds");
            return Err(Refusal::new(error, "use start_session and wait_session for longer commands"));
        }
        let timeout = Duration::from_secs(seconds);
        let wanted = Wanted {
            command: arguments.command,
            shell: arguments.shell,
            cwd: arguments.cwd,
            labels: Labels::default(),
            worktree: None,
            timeout: Some(timeout),
        };
        let begun = Instant::now();
        let session = wanted.start(server, call).await?;
        let limit = timeout + server.service().config.stop_grace.value + MARGIN;
        let (session, _) = wait_for_end(server, &session.id, limit, call).await?;
        let took = begun.elapsed();
        server.blocking(move |_| answer(&session, seconds, took)).await
    }
}

fn answer(session: &Session, seconds: u64, took: Duration) -> Result<Answer, Refusal> {
    let stdout = load_excerpt(session, Stream::Stdout, 0, DEFAULT_LINES)?;
    let stderr = load_excerpt(session, Stream::Stderr, 0, DEFAULT_LINES)?;
    let reply = reply(session, &stdout, &stderr, took);
    Ok(match failure(session, seconds) {
        None => Answer::of(&reply),
        Some(refusal) => Answer::failed(&reply, refusal),
    })
}

fn reply(session: &Session, stdout: &Excerpt, stderr: &Excerpt, took: Duration) -> Reply {
    let exit = session.exit.as_ref();
    Reply {
        session: session.id.to_string(),
        status: session.status,
        exit_code: exit.and_then(|exit| exit.code),
        signal: exit.and_then(|exit| exit.signal),
        stdout: stdout.text.clone(),
        stderr: stderr.text.clone(),
        truncated: stdout.truncated || stderr.truncated,
        stdout_cursor: stdout.cursor,
        stderr_cursor: stderr.cursor,
        seconds: (took.as_secs_f64() * 1000.0).round() / 1000.0,
    }
}

/// Returns why the command failed, or `None` if it exited with 0.
fn failure(session: &Session, seconds: u64) -> Option<Refusal> {
    let exit = session.exit.as_ref();
    Some(match exit.map(|exit| (exit.reason, exit.code, exit.signal)) {
        Some((ExitReason::Exited, Some(0), _)) => return None,
        Some((ExitReason::Exited, Some(code), _)) => {
            Refusal::new(format!("the command exited with code {code}"), "read stderr for the cause")
        }
        Some((ExitReason::Timeout, ..)) => Refusal::new(
            format!("the command exceeded its time limit of {seconds} s and was stopped"),
            "set a longer `timeout`, or use start_session and wait_session",
        ),
        Some((ExitReason::Stopped, ..)) => {
            Refusal::new("the command was stopped on request", "ask the user before running it again")
        }
        Some((_, _, Some(signal))) => {
            Refusal::new(format!("signal {signal} ended the command"), "read stderr for the cause")
        }
        _ => Refusal::new("the exit status of the command is unknown", "`session` shows what is recorded"),
    })
}
