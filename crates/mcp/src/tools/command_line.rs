//! A command as the client gives it, and its conversion to a request.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use sexton_core::Session;
use sexton_service::{Labels, OwnerWish, Request, Wish};

use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::words::{WordsError, split_words};

/// A command as one text or as a list of words.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum CommandLine {
    /// One text. Quotes group words. Nothing is expanded: no variables, pipes or redirections.
    Text(String),
    /// Program and arguments.
    Words(Vec<String>),
}

/// Maximum size of a command in bytes. The kernel's limit for one argument is lower, and for all not much higher.
const MAX_COMMAND: usize = 1024 * 1024;

/// Maximum number of characters of a command in a message.
const MAX_SHOWN: usize = 80;

/// A command to run, with its options.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) command: CommandLine,
    pub(super) shell: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) labels: Labels,
    pub(super) worktree: Option<Wish>,
    pub(super) timeout: Option<Duration>,
}

impl Wanted {
    /// Converts to a request. Fails if the command is not allowed.
    fn into_request(self, server: &Server) -> Result<Request, Refusal> {
        let command = words(self.command, self.shell)?;
        let directory = require_directory(self.cwd.as_deref())?;
        server.rights().require_run(&command, &directory)?;
        Ok(Request {
            cwd: Some(directory),
            labels: self.labels,
            worktree: self.worktree,
            owner: OwnerWish::Me,
            split_output: true,
            timeout: self.timeout,
            ..Request::new(command)
        })
    }

    /// Starts the session, owned by this server. Returns once its command runs.
    pub(super) async fn start(mut self, server: &Server, call: &Call) -> Result<Session, Refusal> {
        self.labels.tags.push(("via".to_owned(), "mcp".to_owned()));
        self.labels.tags.extend(call.client.clone().map(|client| ("mcp_client".to_owned(), client)));
        let request = self.into_request(server)?;
        let program = request.command.first().map(|word| shown(&word.to_string_lossy())).unwrap_or_default();
        let permit = server.started_sessions().acquire_start().await?;
        let started = server.blocking(move |server| {
            // Held until the command runs, because shutdown waits for starts in progress.
            let _permit = permit;
            server.started_sessions().start(server.service(), request).map_err(|failed| {
                let errno = failed.exec_errno();
                let refusal = Refusal::from(failed.error);
                match errno {
                    None => refusal,
                    Some(errno) => {
                        let why = std::io::Error::from_raw_os_error(errno);
                        Refusal { error: format!("cannot execute `{program}`: {why}"), ..refusal }
                    }
                }
            })
        });
        started.await
    }
}

/// Returns the arguments for the kernel.
fn words(command: CommandLine, shell: Option<String>) -> Result<Vec<OsString>, Refusal> {
    let length = match &command {
        CommandLine::Text(text) => text.len(),
        CommandLine::Words(words) => words.iter().map(|word| word.len() + 1).sum(),
    };
    if length > MAX_COMMAND {
        let error = format!("the command has {length} bytes, but at most {MAX_COMMAND} are allowed");
        return Err(Refusal::new(error, "put long arguments into a file"));
    }
    let words = match (command, shell) {
        (CommandLine::Text(text), Some(shell)) if !shell.is_empty() => vec![shell, "-c".to_owned(), text],
        (CommandLine::Words(_), Some(_)) => {
            let error = "`shell` needs the command as one text, not as a list";
            return Err(Refusal::new(error, "omit `shell`, or pass the command as one text"));
        }
        (CommandLine::Text(_), Some(_)) => return Err(Refusal::of_argument("`shell` is empty")),
        (CommandLine::Text(text), None) => split_words(&text).map_err(|error| {
            let suggestion = match error {
                WordsError::NeedsShell(_) => {
                    "quote it to use it literally, or set `shell` if the user allows that"
                }
                WordsError::Empty | WordsError::Unclosed(_) => "pass the program and its arguments",
            };
            Refusal::new(format!("cannot run `{}`: {error}", shown(&text)), suggestion)
        })?,
        (CommandLine::Words(words), None) => words,
    };
    if words.first().is_none_or(String::is_empty) {
        return Err(Refusal::new("the command is empty", "pass the program and its arguments"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(Refusal::of_argument("a command cannot contain a NUL character"));
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

/// Returns the canonical working directory, so that the checked directory is the one that is used.
fn require_directory(requested: Option<&str>) -> Result<PathBuf, Refusal> {
    let requested = Path::new(requested.unwrap_or("."));
    let directory = requested.canonicalize().map_err(|error| {
        let error = format!("cannot run in {}: {error}", shown(&requested.to_string_lossy()));
        Refusal::new(error, "set `cwd` to a directory that exists")
    })?;
    if directory.is_dir() {
        return Ok(directory);
    }
    let error = format!("cannot run in {}: it is not a directory", shown(&requested.to_string_lossy()));
    Err(Refusal::new(error, "set `cwd` to a directory"))
}

/// Returns the beginning of a text, on one line.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(MAX_SHOWN).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{}{more}", short.escape_debug())
}
