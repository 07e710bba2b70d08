//! A command as an agent gives it, and the request to run it that is made of that.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use sexton_core::Session;
use sexton_embed::{Labels, OwnerWish, Request, Wish};

use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::words::{WordsError, split_words};

/// A command: one text, or its words.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum CommandLine {
    /// One text. Quotes group words, and nothing is expanded: no variables, pipes or redirections.
    Text(String),
    /// The program and its arguments, word by word.
    Words(Vec<String>),
}

/// The longest command. The kernel takes less in one word and not much more in all.
const MAX_COMMAND: usize = 1024 * 1024;

/// The longest excerpt of a command in a message.
const MAX_SHOWN: usize = 80;

/// What is to be run.
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
    /// The request, if it may be run.
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

    /// Starts it, owned by this server; returns once it really runs.
    pub(super) async fn start(mut self, server: &Server, call: &Call) -> Result<Session, Refusal> {
        self.labels.tags.push(("via".to_owned(), "mcp".to_owned()));
        self.labels.tags.extend(call.client.clone().map(|client| ("mcp_client".to_owned(), client)));
        let request = self.into_request(server)?;
        let program = request.command.first().map(|word| shown(&word.to_string_lossy())).unwrap_or_default();
        let turn = server.keeper().turn().await?;
        let started = server.blocking(move |server| {
            // Held until it runs: a server that ends waits for it.
            let _turn = turn;
            server.keeper().start(server.house(), request).map_err(|failed| {
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

/// The words that the kernel gets.
fn words(command: CommandLine, shell: Option<String>) -> Result<Vec<OsString>, Refusal> {
    let length = match &command {
        CommandLine::Text(text) => text.len(),
        CommandLine::Words(words) => words.iter().map(|word| word.len() + 1).sum(),
    };
    if length > MAX_COMMAND {
        let error = format!("the command has {length} bytes, and at most {MAX_COMMAND} can be run");
        return Err(Refusal::new(error, "put what is long into a file"));
    }
    let words = match (command, shell) {
        (CommandLine::Text(text), Some(shell)) if !shell.is_empty() => vec![shell, "-c".to_owned(), text],
        (CommandLine::Words(_), Some(_)) => {
            let error = "a shell runs one text, and the command was given word by word";
            return Err(Refusal::new(error, "leave `shell` out, or give the command as one text"));
        }
        (CommandLine::Text(_), Some(_)) => return Err(Refusal::of_argument("`shell` is empty")),
        (CommandLine::Text(text), None) => split_words(&text).map_err(|error| {
            let suggestion = match error {
                WordsError::NeedsShell(_) => {
                    "quote it where it is meant literally, or give `shell` where the user allows that"
                }
                WordsError::Empty | WordsError::Unclosed(_) => "give the program and its arguments",
            };
            Refusal::new(format!("`{}` cannot be run as it is: {error}", shown(&text)), suggestion)
        })?,
        (CommandLine::Words(words), None) => words,
    };
    if words.first().is_none_or(String::is_empty) {
        return Err(Refusal::new("there is no command to run", "give the program and its arguments"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(Refusal::of_argument("no word of a command can have a NUL character in it"));
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

/// The directory to run in, as the kernel knows it: what is judged is what is used.
fn require_directory(asked: Option<&str>) -> Result<PathBuf, Refusal> {
    let asked = Path::new(asked.unwrap_or("."));
    let directory = asked.canonicalize().map_err(|error| {
        let error = format!("cannot run in {}: {error}", shown(&asked.to_string_lossy()));
        Refusal::new(error, "give `cwd` a directory that exists")
    })?;
    if directory.is_dir() {
        return Ok(directory);
    }
    let error = format!("cannot run in {}: it is not a directory", shown(&asked.to_string_lossy()));
    Err(Refusal::new(error, "give `cwd` a directory"))
}

/// The beginning of a text, on one line.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(MAX_SHOWN).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{}{more}", short.escape_debug())
}
