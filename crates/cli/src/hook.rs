//! Whose hook it is that calls, and where its payload is to be found.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;

use clap::ValueEnum;
use sexton_core::resume::Payload;

use crate::failure::Failure;

/// Whose hook it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Hook {
    /// Codex: `notify` in config.toml, or a hook of its hooks.json
    Codex,
    /// Claude Code: a hook of its settings.json
    Claude,
}

impl Hook {
    /// The agent, as records name it.
    pub fn agent(self) -> &'static str {
        match self {
            Hook::Codex => "codex",
            Hook::Claude => "claude",
        }
    }

    /// Reads the payload: the argument that the agent added, else standard input.
    pub fn read(self, argument: Option<&OsStr>) -> Result<Payload, Failure> {
        if let Some(argument) = argument {
            return Payload::read(argument.as_bytes()).map_err(|error| Failure::new(error.to_string()));
        }
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Err(Failure::usage(
                "`--hook` reads the hook's JSON from standard input, which is a terminal",
            )
            .hint("the agent runs this command; docs/hooks.md shows the settings to paste"));
        }
        Payload::read(stdin.lock()).map_err(|error| Failure::new(error.to_string()))
    }
}
