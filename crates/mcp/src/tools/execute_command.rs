//! `execute_command`: run something short, and return what it said.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sexton_core::session::ExitReason;
use sexton_core::{Session, Status};
use sexton_embed::Labels;

use super::command_line::{CommandLine, Wanted};
use super::{Effect, Work};
use crate::answer::Answer;
use crate::call::Call;
use crate::excerpt::{DEFAULT_LINES, Excerpt, Stream, load_excerpt};
use crate::refusal::Refusal;
use crate::server::Server;
use crate::wait::wait_for_end;

/// How many seconds a command may take, and how many it has where nobody says.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=300;
const DEFAULT_SECONDS: u64 = 30;

/// How much longer than its time and grace a session may take to be recorded.
const MARGIN: Duration = Duration::from_secs(15);

pub(super) struct ExecuteCommand;

/// What to run, and for how long.
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
    /// How many seconds it may take, 1 to 300; 30 without one.
    #[serde(default)]
    #[schemars(range(min = 1, max = 300))]
    timeout: Option<u64>,
}

/// What the command said and how it ended.
#[derive(Serialize, JsonSchema)]
pub(super) struct Told {
    /// The session that it ran as; `read_output` reads more of its output.
    session: String,
    /// How the session ended.
    status: Status,
    /// Its exit code; null where a signal ended it.
    exit_code: Option<i32>,
    /// The signal that ended it.
    signal: Option<i32>,
    /// The beginning of its standard output.
    stdout: String,
    /// The beginning of its standard error.
    stderr: String,
    /// Whether there is more of either: `read_output` with the cursor goes on.
    truncated: bool,
    /// Where the next part of the standard output begins.
    stdout_cursor: u64,
    /// Where the next part of the standard error begins.
    stderr_cursor: u64,
    /// How long it took.
    seconds: f64,
}

impl Work for ExecuteCommand {
    const NAME: &'static str = "execute_command";
    const TITLE: &'static str = "Run a command";
    const DESCRIPTION: &'static str = "Run a command and wait for it (1 to 300 seconds). Returns its exit code \
        and the first 100 lines of stdout and stderr; `success` is false where it did not exit with 0. When \
        its time is up, every process of it is ended. For anything longer use start_session.";
    const EFFECT: Effect = Effect::Runs;
    type Arguments = Arguments;
    type Told = Told;

    async fn work(server: &Server, arguments: Arguments, call: &Call) -> Result<Answer, Refusal> {
        let seconds = arguments.timeout.unwrap_or(DEFAULT_SECONDS);
        if !SECONDS.contains(&seconds) {
            let error = format!("`timeout` is {seconds}, and must be from 1 to 300 seconds");
            return Err(Refusal::new(error, "use start_session and wait_session for what takes longer"));
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
        let limit = timeout + server.house().config.stop_grace.value + MARGIN;
        let (session, _) = wait_for_end(server, &session.id, limit, call).await?;
        let took = begun.elapsed();
        server.blocking(move |_| answer(&session, seconds, took)).await
    }
}

fn answer(session: &Session, seconds: u64, took: Duration) -> Result<Answer, Refusal> {
    let stdout = load_excerpt(session, Stream::Stdout, 0, DEFAULT_LINES)?;
    let stderr = load_excerpt(session, Stream::Stderr, 0, DEFAULT_LINES)?;
    let told = tell(session, &stdout, &stderr, took);
    Ok(match failure(session, seconds) {
        None => Answer::of(&told),
        Some(refusal) => Answer::failed(&told, refusal),
    })
}

fn tell(session: &Session, stdout: &Excerpt, stderr: &Excerpt, took: Duration) -> Told {
    let exit = session.exit.as_ref();
    Told {
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

/// What went wrong with the command, if anything did.
fn failure(session: &Session, seconds: u64) -> Option<Refusal> {
    let exit = session.exit.as_ref();
    Some(match exit.map(|exit| (exit.reason, exit.code, exit.signal)) {
        Some((ExitReason::Exited, Some(0), _)) => return None,
        Some((ExitReason::Exited, Some(code), _)) => {
            Refusal::new(format!("the command exited with code {code}"), "its stderr may say why")
        }
        Some((ExitReason::Timeout, ..)) => Refusal::new(
            format!("the command was ended after {seconds} s, when its time was up"),
            "give a longer `timeout`, or use start_session and wait_session",
        ),
        Some((ExitReason::Stopped, ..)) => {
            Refusal::new("the command was stopped by somebody else", "ask the user before running it again")
        }
        Some((_, _, Some(signal))) => {
            Refusal::new(format!("signal {signal} ended the command"), "its stderr may say why")
        }
        _ => Refusal::new("nobody saw how the command ended", "`session` shows what is known of it"),
    })
}
